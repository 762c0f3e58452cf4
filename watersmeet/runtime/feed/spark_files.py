"""The files that a batch of Structured Streaming has, as Spark has logged them.

Spark finds all files of such streams and reads all but local Parquet files. Those are read by the engine's tasks, by
the same rules as the files of folders: what is wrong with one concerns that file only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from watersmeet.errors import InputError, RunError
from watersmeet.home import layout
from watersmeet.home.location import local_path
from watersmeet.io.folders import InputFile, as_found
from watersmeet.io.sources import FILE_FORMATS, is_read_by_tasks
from watersmeet.model import Stream
from watersmeet.runtime.tick.failure import MORE_MEMORY, ran_out_of_memory

_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".snappy", ".deflate")


class SparkFiles:
    """For the streams of one group, in the order in which Spark's checkpoint knows them."""

    def __init__(self, home: Path, group: str, streams: Sequence[Stream]) -> None:
        self._home = home
        self._group = group
        self._streams = streams

    def for_tasks(self, batch: int) -> dict[str, list[InputFile]]:
        """By stream, the files that Spark does not read."""
        return {
            stream.name: [as_found(path) for path in self._files(number, batch)]
            for number, stream in enumerate(self._streams)
            if is_read_by_tasks(stream)
        }

    def check(self, batch: int) -> None:
        """Reject files of a batch that Spark would wait for: pipes and devices."""
        for number, stream in enumerate(self._streams):
            if not self._is_read_by_spark(stream):
                continue
            for path in self._files(number, batch):
                if os.path.exists(path) and not os.path.isfile(path):
                    raise InputError(
                        f"stream {stream.name}: {path} is not a regular file",
                        hint="put an empty file in its place, and run again with the same home",
                    )

    def explained(self, batch: int, problem: Exception) -> Exception:
        """The failure of a batch; one for which Java had no memory names the files that may be to blame."""
        if not ran_out_of_memory(problem):
            return problem
        found = [
            (path.endswith(_COMPRESSED), os.path.getsize(path), stream.name, path)
            for number, stream in enumerate(self._streams)
            if self._is_read_by_spark(stream)
            for path in self._files(number, batch)
            if os.path.isfile(path)
        ]
        if not found:
            return problem
        (_, size, stream, path), *others = sorted(found, reverse=True)
        also = f", or another of the tick's {len(found)} files" if others else ""
        return RunError(
            f"stream {stream}: Spark's Java process ran out of memory, probably by {path} ({size:,} bytes){also}",
            detail="Spark reads a line as a whole, and all of it that is unpacked. Nothing of the tick was committed.",
            hint=f"put an empty file in its place, or the same rows in shorter lines; or {MORE_MEMORY} {self._home}",
        )

    @staticmethod
    def _is_read_by_spark(stream: Stream) -> bool:
        """Whether Spark reads local files of a stream."""
        source = stream.source
        is_file = source is not None and source.format in FILE_FORMATS and local_path(source.path) is not None
        return is_file and not is_read_by_tasks(stream)

    def _files(self, number: int, batch: int) -> list[str]:
        """The files of one source in one batch, from the logs that Spark wrote before the batch began."""
        before, now = (_offset(layout.offsets(self._home, self._group, at), number) for at in (batch - 1, batch))
        paths = []
        for offset in range(before + 1, now + 1):
            log = layout.source_log(self._home, self._group, number, offset)
            if not log.exists():
                log = log.with_name(f"{offset}.compact")
            paths += [logged_path(entry["path"]) for entry in log_entries(log) if entry["batchId"] == offset]
        return paths


def _offset(log: Path, number: int) -> int:
    """How far one source of a batch goes: two lines of head, then one for each source, "-" before its first file."""
    lines = log.read_text().splitlines()[2:] if log.exists() else []
    return int(json.loads(lines[number])["logOffset"]) if len(lines) > number and lines[number] != "-" else -1


def log_entries(log: Path) -> list[dict[str, Any]]:
    """The files that Spark has logged, below the version of its format."""
    return [json.loads(line) for line in log.read_text().splitlines()[1:] if line]


def logged_path(address: str) -> str:
    """The path of a file as it is in Spark's logs."""
    return unquote(urlparse(address).path)
