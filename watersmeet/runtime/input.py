"""Checks what Spark read against what the files promise.

Spark skips a file that it cannot read when told to, which keeps the other streams going, but says nothing. So
the files of each batch are looked at beside it: one that is no Parquet file of the declared columns is set
aside by name, and a file that promised more rows than arrived stops the tick before anything is committed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlparse

from watersmeet.errors import InputError
from watersmeet.io.sources import open_parquet
from watersmeet.model import Stream
from watersmeet.runtime.groups import Groups
from watersmeet.runtime.orders import GatherReport

_MOVE = "replace it or move it away, and run again with the same home"


class InputCheck:
    def __init__(self, home: Path, streams: Mapping[str, Stream], groups: Groups) -> None:
        self._home = home
        self._streams = streams
        self._groups = groups

    def __call__(self, group: str, batch: int, reports: list[GatherReport]) -> None:
        for number, name in enumerate(self._groups.members()[group]):
            stream = self._streams[name]
            if stream.source is None or stream.source.format != "parquet":
                continue
            paths = self._files(group, number, batch)
            arrived = sum(report.counts[f"rows/{name}"] for report in reports if report.stream == name)
            promised, refused = 0, []
            for path in paths:
                try:
                    file, _ = open_parquet(stream, path)
                    promised += int(file.metadata.num_rows)
                except InputError as problem:
                    refused.append((path, problem))
            if arrived > promised and refused:  # Spark made something of it all the same, such as NULLs
                first = refused[0][1]
                raise InputError(first.problem, detail=first.detail, hint=_MOVE)
            if arrived != promised:
                raise InputError(
                    f"stream {name}: {promised} rows were promised by this tick's files, {arrived} could be read",
                    detail="Files: " + ", ".join(paths[:5]) + (" …" if len(paths) > 5 else ""),
                    hint=f"one of them is damaged inside or changed while it was read; {_MOVE}",
                )
            if refused:
                reports.append(set_aside(self._home, name, refused))

    def _files(self, group: str, number: int, batch: int) -> list[str]:
        """The files of one source in one batch, from the logs that Spark wrote before the batch began."""
        folder = self._home / "checkpoints" / group
        before, now = (_offset(folder / "offsets" / str(at), number) for at in (batch - 1, batch))
        paths = []
        for offset in range(before + 1, now + 1):
            log = folder / "sources" / str(number) / str(offset)
            if not log.exists():
                log = log.with_name(f"{offset}.compact")
            entries = [json.loads(line) for line in log.read_text().splitlines()[1:] if line]
            paths += [_local(entry["path"]) for entry in entries if entry["batchId"] == offset]
        return paths


def set_aside(home: Path, name: str, refused: list[tuple[str, InputError]]) -> GatherReport:
    """Name the files that are not the stream's where people find them; the report counts them."""
    folder = home / "rejected" / name
    folder.mkdir(parents=True, exist_ok=True)
    listing = folder / "files.jsonl"
    known = set(listing.read_text().splitlines()) if listing.exists() else set()  # a tick may be tried again
    with listing.open("a") as file:
        for path, problem in refused:
            line = json.dumps({"file": path, "because": problem.problem, "detail": problem.detail})
            if line not in known:
                file.write(line + "\n")
    report = GatherReport(name)
    report.counts[f"unreadable files/{name}"] = len(refused)
    return report


def _offset(log: Path, number: int) -> int:
    """How far one source of a batch goes: two lines of head, then one for each source, "-" before its first file."""
    lines = log.read_text().splitlines()[2:] if log.exists() else []
    return int(json.loads(lines[number])["logOffset"]) if len(lines) > number and lines[number] != "-" else -1


def _local(address: str) -> str:
    return unquote(urlparse(address).path)
