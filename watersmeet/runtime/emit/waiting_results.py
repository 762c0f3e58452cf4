"""Results that wait: a task writes few results of many queries as one file, which becomes files of queries later.

A file for each query and tick takes far more than the rows in it: an inode, a footer, two names, its part of a commit.
Such results are committed as those in files are, and the manifest names the file in which they wait. When they leave,
an order of some later tick makes of all that waits one file for each query, which that tick publishes (decision 24).

A waiting file is a stream of Arrow for each entry, then the list of entries as JSON, and the length of the list. An
entry says all that is needed to make a file of it: the query may be dropped by then.
"""

from __future__ import annotations

import json
import os
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from watersmeet import points
from watersmeet.errors import StateError, restore_hint
from watersmeet.home import layout
from watersmeet.home.counters import RESULT_BYTES, RESULT_FILES, RESULTS
from watersmeet.home.files import make_private, private
from watersmeet.home.manifest import WaitingFile
from watersmeet.io.sinks import extension, result_folder
from watersmeet.model import Sink
from watersmeet.runtime.emit.confine import Confinement
from watersmeet.runtime.emit.staged_file import StagedFile
from watersmeet.runtime.tick.failure import is_full, no_space
from watersmeet.runtime.tick.orders import ReleaseOrder, TaskReport, Waiting, dropped_name

_BUFFER = 1 << 20  # bytes that are written at once
_LENGTH = 8  # bytes of the length of the list
_Target = tuple[str, int, Sink, pa.Schema]


class WaitingResults:
    """The file of a task; it is made when there is something for it."""

    def __init__(self, home: Path, name: str) -> None:
        """`name` is relative to the home."""
        self._home, self._name, self._path = home, name, home / name
        self._rows = Counter[str]()  # by query
        self._entries: list[dict[str, Any]] = []
        self._file: pa.NativeFile | None = None
        self._bytes = self._checksum = 0

    def add(self, query: str, sink: Sink, rows: int, content: pa.Buffer) -> None:
        """So many rows, as a stream of Arrow."""
        asked = [sink.format, sink.path, sink.options]
        self._entries.append({"query": query, "sink": asked, "at": self._bytes, "bytes": len(content)})
        self._write(content)
        self._rows[query] += rows

    def _write(self, content: Any) -> None:
        try:
            if self._file is None:
                make_private(self._path.parent)
                os.close(private(str(self._path), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
                self._file = pa.BufferedOutputStream(pa.OSFile(str(self._path), "ab"), _BUFFER)
            self._file.write(content)
            points.reach("waiting.write", self._path)
        except OSError as problem:
            raise self._unwritten(problem) from problem
        self._bytes += len(content)
        self._checksum = zlib.crc32(content, self._checksum)

    def _unwritten(self, problem: OSError) -> StateError:
        """An error of all queries, also while work is done for one that could be suspended for an error of its own: it
        is not the one whose rows are gone."""
        if is_full(problem):
            full = no_space(str(self._home))
            return StateError(full.problem, detail=full.detail, hint=full.hint)
        hint = "correct the cause and run again with the same home"
        return StateError(f"results cannot be written into {self._path.parent}", detail=str(problem), hint=hint)

    def close(self) -> Waiting | None:
        """What the manifest must know of the file, if there is one."""
        if self._file is None:
            return None
        listed = json.dumps(self._entries).encode()
        self._write(listed + len(listed).to_bytes(_LENGTH, "little"))
        try:
            self._file.close()
        except OSError as problem:
            raise self._unwritten(problem) from problem
        points.reach("waiting.written", self._path)
        return Waiting(WaitingFile(self._name, self._rows.total(), self._bytes, self._checksum), dict(self._rows))


def as_stream(rows: pa.Table) -> pa.Buffer:
    content = pa.BufferOutputStream()
    with pa.ipc.new_stream(content, rows.schema) as stream:
        stream.write_table(rows)
    return content.getvalue()


def check_waiting(home: Path, info: WaitingFile) -> None:
    """Raise what is wrong with a file."""
    try:
        content = (home / info.file).read_bytes()
    except FileNotFoundError:
        raise _damaged(home, info, "it is missing") from None
    if len(content) != info.bytes:
        raise _damaged(home, info, f"it has {len(content):,} bytes, the manifest has {info.bytes:,}")
    if zlib.crc32(content) != info.checksum:
        raise _damaged(home, info, "its checksum is wrong")


def _damaged(home: Path, info: WaitingFile, problem: str) -> StateError:
    return StateError(
        f"the results that wait in {home / info.file} are damaged: {problem}",
        detail=f"They are {info.rows:,} rows that no file of a query has yet. Nothing was changed.",
        hint=restore_hint("the home folder"),
    )


def release(order: ReleaseOrder, name: str) -> TaskReport:
    """Write what waits into files of the queries. Those of which that fails are reported as suspended."""
    report = TaskReport()
    home = Path(order.home)
    confined = Confinement(home, (), report.suspended)
    with report.counts.timed(RESULTS):
        for at, ((query, replaced, sink, schema), pieces) in enumerate(_pieces(home, order)):
            owner, folder = query, result_folder(home, query, sink)
            if replaced:  # where what it has found before is moved to, by the start that has met the other query
                owner, folder = dropped_name(query), layout.put_aside(folder, replaced - 1)
            file = layout.data_file(order.tick, order.attempt, f"{name}-r{at}", extension(sink))
            with confined.of(owner, folder):
                _write(report, owner, StagedFile(folder, file, sink, schema), pieces)
    report.counts.done[RESULT_FILES] += len(report.results)
    return report


def _write(report: TaskReport, query: str, file: StagedFile, pieces: list[pa.Table]) -> None:
    try:
        rows = pa.concat_tables(pieces)
        file.write(rows)
        points.reach("results.write", file.staged)
        report.results.append(file.close(query))
        report.counts.done[RESULT_BYTES] += rows.nbytes
    except Exception:
        file.discard()
        raise
    points.reach("results.written", file.staged)


def _pieces(home: Path, order: ReleaseOrder) -> Iterator[tuple[_Target, list[pa.Table]]]:
    """What waits, in the order of ticks; the rows stay in the files, which are mapped."""
    found: dict[tuple[str, int, str], list[tuple[pa.Schema, list[pa.Table]]]] = {}
    for info in order.files:
        with pa.memory_map(str(home / info.file)) as mapped:
            content = mapped.read_buffer()
        end = len(content) - _LENGTH
        length = int.from_bytes(content[end:].to_pybytes(), "little")
        for entry in json.loads(content[end - length : end].to_pybytes()):
            query = entry["query"]
            if info.queries is not None and query not in info.queries:
                continue
            rows = pa.ipc.open_stream(content[entry["at"] : entry["at"] + entry["bytes"]]).read_all()
            alike = found.setdefault((query, order.replaced(info, query), json.dumps(entry["sink"])), [])
            pieces = next((some for schema, some in alike if schema.equals(rows.schema)), None)
            if pieces is None:  # to compare schemas takes less than to hash them
                pieces = []
                alike.append((rows.schema, pieces))
            pieces.append(rows)
    for (query, replaced, asked), alike in found.items():
        kind, path, options = json.loads(asked)
        sink = Sink(kind, path, tuple((key, value) for key, value in options))
        for schema, some in alike:
            yield (query, replaced, sink, schema), some
