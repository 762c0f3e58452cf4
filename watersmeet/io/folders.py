"""Folders of Parquet files as sources that Watersmeet reads itself: which files are new, and how they are read.

Spark's own file source costs a quarter of a second for each batch, and its rows go through Java to Python; see
decision 10. Its guarantees hold here too: files are read in the order of their dates, each once (positions.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.errors import REPLACE_FILE, InputError
from watersmeet.io.sources import open_parquet
from watersmeet.model import Stream

LIMIT = "maxfilespertrigger"  # Spark's name for it, in lower case


def is_folder(stream: Stream) -> bool:
    """Whether a stream is a plain folder of this machine, read with options that are understood here."""
    source = stream.source
    if source is None or source.format != "parquet" or any(sign in source.path for sign in "*?[{:"):
        return False
    if not os.path.isdir(source.path):
        return False
    return all(name.lower() == LIMIT and value.isdigit() and int(value) > 0 for name, value in source.options)


class Folder:
    """The files of one stream that wait to be taken, the oldest first."""

    def __init__(self, stream: Stream, taken: set[str]) -> None:
        assert stream.source is not None
        self.root = os.path.abspath(stream.source.path)
        options = {name.lower(): value for name, value in stream.source.options}
        self._most = int(options[LIMIT]) if LIMIT in options else None
        self._taken = taken
        self._waiting: list[str] = []

    def look(self) -> None:
        """See which files there are, if none is known to wait."""
        if not self._waiting:
            dated = []
            for name in _names(self.root):
                if name not in self._taken:
                    try:
                        dated.append((os.stat(os.path.join(self.root, name)).st_mtime_ns, name))
                    except FileNotFoundError:
                        continue  # gone since it was listed
            self._waiting = [name for _, name in sorted(dated)]

    def take(self) -> list[str]:
        most = self._most or len(self._waiting)
        taken, self._waiting = self._waiting[:most], self._waiting[most:]
        self._taken.update(taken)
        return taken

    def path(self, name: str) -> str:
        return os.path.join(self.root, name)


def _names(root: str) -> Iterator[str]:
    """All files below a folder, but those whose names say that they are not data, or not yet."""
    for folder, below, files in os.walk(root):
        below[:] = sorted(name for name in below if not name.startswith((".", "_")))
        for name in files:
            if not name.startswith((".", "_")) and not name.endswith("._COPYING_"):
                yield os.path.relpath(os.path.join(folder, name), root)


@dataclass(frozen=True)
class Piece:
    """A file, or a share of the row groups of a large one, for one task to read."""

    stream: str
    path: str
    bytes: int
    share: int = 0
    shares: int = 1


_SPLIT = 64 << 20  # larger files are read by several tasks
_TOGETHER = 2 << 20  # the files of a stream that are not larger together are read by one


def size_of(files: Mapping[str, list[str]]) -> int:
    return sum(_size(path) for paths in files.values() for path in paths)


def share(files: Mapping[str, list[str]], tasks: int) -> tuple[tuple[Piece, ...], ...]:
    """Who reads what: the largest first, each to the task that has least. A task makes one bucket of a stream."""
    units: list[list[Piece]] = []
    for stream, paths in files.items():
        pieces = [piece for path in paths for piece in _pieces(stream, path)]
        if sum(piece.bytes for piece in pieces) <= _TOGETHER:
            units += [pieces] if pieces else []
        else:
            units += [[piece] for piece in pieces]
    units.sort(key=lambda unit: -sum(piece.bytes for piece in unit))
    work: list[list[Piece]] = [[] for _ in range(min(tasks, len(units)))]
    for unit in units:
        min(work, key=lambda pieces: sum(piece.bytes for piece in pieces)).extend(unit)
    return tuple(tuple(pieces) for pieces in work)


def _pieces(stream: str, path: str) -> Iterator[Piece]:
    """Only tasks open files, so how many row groups a large one has is for them to see."""
    size = _size(path)
    shares = max(1, -(-size // _SPLIT))
    yield from (Piece(stream, path, size // shares, at, shares) for at in range(shares))


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0  # the task that reads it reports what is wrong


def read_piece(stream: Stream, piece: Piece) -> Iterator[pa.RecordBatch]:
    """The rows as the stream declares them. InputError where the file is not one of this stream, or is damaged."""
    file, names = open_parquet(stream, piece.path)
    return _row_groups(stream, piece, file, names)


def _row_groups(stream: Stream, piece: Piece, file: pq.ParquetFile, names: list[str]) -> Iterator[pa.RecordBatch]:
    declared = [column.name for column in stream.columns]
    with file:
        for at in range(piece.share, file.metadata.num_row_groups, piece.shares):
            try:
                table = file.read_row_group(at, columns=names, use_threads=False).select(names)
                rows = table.rename_columns(declared).combine_chunks()
            except (pa.ArrowException, OSError) as problem:
                raise InputError(
                    f"stream {stream.name}: {piece.path} is damaged: only a part of it could be read",
                    detail=str(problem).splitlines()[0],
                    hint=REPLACE_FILE,
                ) from None
            yield from rows.to_batches()
