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
from watersmeet.io.sources import check_parquet_file
from watersmeet.model import Stream
from watersmeet.runtime.groups import Groups
from watersmeet.runtime.orders import GatherReport


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
                    promised += check_parquet_file(stream, path)
                except InputError as problem:
                    refused.append((path, problem))
            if arrived != promised:
                raise InputError(
                    f"stream {name}: {promised} rows were promised by this tick's files, {arrived} could be read",
                    detail="Files: " + ", ".join(paths[:5]) + (" …" if len(paths) > 5 else ""),
                    hint="one of them is damaged inside or changed while it was read; replace it and run again",
                )
            if refused:
                self._set_aside(name, refused, reports)

    def _files(self, group: str, number: int, batch: int) -> list[str]:
        """The files of one source in one batch, from the log that Spark wrote before the batch began."""
        folder = self._home / "checkpoints" / group / "sources" / str(number)
        for log in (folder / str(batch), folder / f"{batch}.compact"):
            if log.exists():
                entries = [json.loads(line) for line in log.read_text().splitlines()[1:] if line]
                return [_local(entry["path"]) for entry in entries if entry["batchId"] == batch]
        return []

    def _set_aside(self, name: str, refused: list[tuple[str, InputError]], reports: list[GatherReport]) -> None:
        folder = self._home / "rejected" / name
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "files.jsonl").open("a") as file:
            for path, problem in refused:
                file.write(json.dumps({"file": path, "because": problem.problem, "detail": problem.detail}) + "\n")
        report = GatherReport(name)
        report.counts[f"unreadable files/{name}"] = len(refused)
        reports.append(report)


def _local(address: str) -> str:
    return unquote(urlparse(address).path)
