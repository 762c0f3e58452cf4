"""FROM delta: the rows that each version of a table adds, in order, each once.

A *position* is the next row to read: a version, a file of it, a row of that. The first version may be a snapshot: all
files that the table has at that version. The log of a table does not change, so two positions always have the same rows
between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from watersmeet.errors import InputError
from watersmeet.io.connectors.delta.log import Commit, DataFile, commit_file, files_at, read_commit, stamp_of, versions
from watersmeet.io.connectors.delta.piece import DeltaPiece, cut
from watersmeet.io.connectors.delta.settings import EARLIEST, LATEST, DeltaSourceSettings
from watersmeet.io.parquet_files import find_column
from watersmeet.io.source import Extent, History, LogSource, Position
from watersmeet.model import Stream

# Tables with these are read as they are. Deletion vectors are looked for in the files that are read, and a mapping of
# columns in the properties of the table.
_KNOWN_FEATURES = {
    "timestampNtz",
    "deletionVectors",
    "columnMapping",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "typeWidening",
}
_RENAMES = "delta.columnMapping.mode"
_NO_SNAPSHOT = -1


@dataclass(frozen=True)
class TablePosition:
    """The next row to read of a table."""

    version: int
    file: int = 0
    row: int = 0
    snapshot: int = _NO_SNAPSHOT  # the version of which all files are read, not only those that it adds
    table: str = ""  # the id of the table, which another one in the same folder does not have


class DeltaSource(LogSource):
    @classmethod
    def check(cls, stream: Stream) -> None:
        DeltaSourceSettings.of(stream)

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        assert stream.source is not None
        self._root = Path(stream.source.path).absolute()
        self._settings = DeltaSourceSettings.of(stream)
        self._commit = lru_cache(maxsize=64)(self._read)
        self._identity, self._current = self._opened()
        found = versions(self._root)
        self._newest = max(self._current, found[1] if found else -1)  # version
        self._stamp = stamp_of(self._root, self._newest)

    # What there is -------------------------------------------------------------------------------

    def resume(self, history: History) -> None:
        super().resume(history)
        self._check_identity(self.at["table"], self._identity)

    def first(self) -> Position:
        start = self._settings.start
        if start == EARLIEST:
            return asdict(TablePosition(self._current, snapshot=self._current, table=self._identity))
        version = self._current + 1 if start == LATEST else int(start)
        return asdict(TablePosition(version, table=self._identity))

    def _opened(self) -> tuple[str, int]:
        """The id of the table and its newest version."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            table = DeltaTable(self._root)
            features, properties = table.protocol().reader_features or (), table.metadata().configuration
            _check_features(self.stream.name, self._root, features, properties)
            _check_columns(self.stream, self._root, table.schema().to_json())
            return str(table.metadata().id), table.version()
        except DeltaError as problem:
            raise InputError(
                f"stream {self.stream.name}: {self._root} cannot be read as a Delta table",
                detail=str(problem).splitlines()[0],
                hint="create the table first, or correct the path after FROM",
            ) from None

    def _check_identity(self, known: str, found: str) -> None:
        if found != known:
            raise InputError(
                f"stream {self.stream.name}: {self._root} is another Delta table by now",
                detail=f"The table that was read has the id {known}, this one has {found}.",
                hint="restore the table, or read the new one with another --home",
            )

    def look(self) -> None:
        """Where the newest file of the log is not what it was, the log was deleted in part, which is usual, or with its
        table."""
        if stamp_of(self._root, self._newest) != self._stamp:
            self._check_identity(self.at["table"], self._opened()[0])
        while commit_file(self._root, self._newest + 1).exists():
            self._newest += 1
        self._stamp = stamp_of(self._root, self._newest)

    # What a batch has ----------------------------------------------------------------------------

    def next(self, at: Position) -> Position:
        return asdict(self._end(TablePosition(**at)))

    def pieces(self, extent: Extent, tasks: int) -> Sequence[DeltaPiece]:
        begin, end = extent
        return list(self._pieces(TablePosition(**begin), TablePosition(**end)))

    def _end(self, begin: TablePosition) -> TablePosition:
        """The position behind as many rows as a tick may have. A file of which the log has no number of rows is the
        last one of a tick."""
        at, left = begin, self._settings.most_rows
        while left > 0 and at.version <= self._newest:
            files = self._files(at)
            if at.file >= len(files):
                at = replace(at, version=at.version + 1, file=0, row=0)
                continue
            rows = files[at.file].rows
            rest = rows - at.row if rows is not None else left
            if rest > left:
                return replace(at, row=at.row + left)
            at, left = replace(at, file=at.file + 1, row=0), left - rest
        return at

    def _pieces(self, begin: TablePosition, end: TablePosition) -> Iterator[DeltaPiece]:
        for version in range(begin.version, end.version + 1):
            if version == end.version and not (end.file or end.row):
                return
            files = self._files(replace(begin, version=version))
            first = begin.file if version == begin.version else 0
            last = end.file if version == end.version else len(files) - 1
            for number in range(first, min(last, len(files) - 1) + 1):
                from_row = begin.row if (version, number) == (begin.version, begin.file) else 0
                to_row = end.row if (version, number) == (end.version, end.file) else files[number].rows
                yield from cut(self.stream.name, self._root, files[number], from_row, to_row)

    def _files(self, at: TablePosition) -> tuple[DataFile, ...]:
        if at.version == at.snapshot:
            return self._snapshot(at.version)
        return self._commit(at.version, at.table).files

    def _read(self, version: int, table: str) -> Commit:
        """A version, if its new rows are all that it changes."""
        name = self.stream.name
        commit = read_commit(self._root, version)
        if commit is None:
            raise InputError(
                f"stream {name}: version {version} of the Delta table {self._root} is gone from its log",
                detail="Rows that it has added would be lost. Delta deletes its log after 30 days, unless the property "
                "delta.logRetentionDuration of the table says otherwise.",
                hint="restore the log, or read the table with another --home, from its present rows on",
            )
        if commit.table:
            self._check_identity(table, commit.table)
        if commit.schema:
            _check_columns(self.stream, self._root, commit.schema)
        _check_features(name, self._root, commit.features, dict(commit.properties))
        if commit.changes and self._settings.skips_changes:
            return replace(commit, files=())
        if commit.changes or any(file.is_filtered for file in commit.files):
            raise InputError(
                f"stream {name}: version {version} of the Delta table {self._root} changes rows that were read before: "
                f"{commit.changes or 'it deletes rows of a file'}",
                detail="A stream only grows: joins with such rows have been written.",
                hint="write skipChangeCommits = true to leave out all versions that delete, update or rewrite rows, "
                "and start with --accept",
            )
        return commit

    @lru_cache(maxsize=1)  # noqa: B019 - there is one source for each stream, for the life of the engine
    def _snapshot(self, version: int) -> tuple[DataFile, ...]:
        return files_at(self.stream.name, self._root, version)


def _check_features(stream: str, root: Path, features: Iterable[str], properties: Mapping[str, str]) -> None:
    unknown = sorted(set(features) - _KNOWN_FEATURES)
    if properties.get(_RENAMES, "none") != "none":
        unknown.append(f"columns with other names in its files ({_RENAMES})")
    if unknown:
        raise InputError(
            f"stream {stream}: the Delta table {root} has features that cannot be read: {', '.join(unknown)}",
            hint="copy the rows into a table without them, or read it with your own spark.readStream frame",
        )


def _check_columns(stream: Stream, root: Path, schema: str) -> None:
    """Reject a table that lacks a column of the stream, or has it with another type."""
    from deltalake import Schema

    found = pa.schema(Schema.from_json(schema).to_arrow())
    for column in stream.columns:
        if find_column(stream, f"the Delta table {root}", found, column) is None:
            raise InputError(
                f"stream {stream.name}: the Delta table {root} has no column {column.name}",
                detail=f"Its columns: {', '.join(found.names)}.",
            )
