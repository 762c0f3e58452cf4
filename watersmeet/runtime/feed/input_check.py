"""Checks that Spark has read all rows of the files.

Spark is set to skip a file that it cannot read, so that other streams continue, but it does not report it. So a task
inspects the files of each batch: one that is no Parquet file of the declared columns is set aside by name, and a file
with more rows than arrived stops the tick before anything is committed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlparse

from watersmeet.errors import REPLACE_FILE, InputError
from watersmeet.home import layout
from watersmeet.model import Stream
from watersmeet.runtime.exec.executor import Executor
from watersmeet.runtime.feed.batches import set_aside
from watersmeet.runtime.tick.orders import GatherReport, InspectOrder


class InputCheck:
    """For the streams of one group, in the order in which Spark's checkpoint knows them."""

    def __init__(self, home: Path, group: str, streams: Sequence[Stream]) -> None:
        self._home = home
        self._group = group
        self._streams = streams

    def __call__(self, batch: int, reports: list[GatherReport], executor: Executor) -> list[GatherReport]:
        more = []
        for number, stream in enumerate(self._streams):
            if stream.source is None or stream.source.format != "parquet":
                continue
            paths = self._files(number, batch)
            arrived = sum(report.counts.rows[stream.name] for report in reports if report.stream == stream.name)
            found = executor.submit(InspectOrder(stream, tuple(paths))).result() if paths else []
            promised = sum(rows for rows in found if isinstance(rows, int))
            rejected = [(path, why) for path, why in zip(paths, found, strict=True) if isinstance(why, InputError)]
            if arrived > promised and rejected:  # Spark made something of it all the same, such as NULLs
                first = rejected[0][1]
                raise InputError(first.problem, detail=first.detail, hint=REPLACE_FILE)
            if arrived != promised:
                raise InputError(
                    f"stream {stream.name}: this tick's files have {promised} rows, but only {arrived} could be read",
                    detail="Files: " + ", ".join(paths[:5]) + (" …" if len(paths) > 5 else ""),
                    hint=f"find the file that is damaged or was changed while it was read; {REPLACE_FILE}",
                )
            if rejected:
                more.append(set_aside(self._home, stream.name, rejected))
        return more

    def _files(self, number: int, batch: int) -> list[str]:
        """The files of one source in one batch, from the logs that Spark wrote before the batch began."""
        before, now = (_offset(layout.offsets(self._home, self._group, at), number) for at in (batch - 1, batch))
        paths = []
        for offset in range(before + 1, now + 1):
            log = layout.source_log(self._home, self._group, number, offset)
            if not log.exists():
                log = log.with_name(f"{offset}.compact")
            entries = [json.loads(line) for line in log.read_text().splitlines()[1:] if line]
            paths += [_local(entry["path"]) for entry in entries if entry["batchId"] == offset]
        return paths


def _offset(log: Path, number: int) -> int:
    """How far one source of a batch goes: two lines of head, then one for each source, "-" before its first file."""
    lines = log.read_text().splitlines()[2:] if log.exists() else []
    return int(json.loads(lines[number])["logOffset"]) if len(lines) > number and lines[number] != "-" else -1


def _local(address: str) -> str:
    return unquote(urlparse(address).path)
