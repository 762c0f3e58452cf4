"""A Parquet file as a file of a stream: whatever is wrong with it concerns that file alone.

All that reads a file of a stream does so within `concerning`, so that no type, size or damage of a file can do more
than have it set aside.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.errors import InputError
from watersmeet.io.column_types import converted, places_of, reads_as, type_name
from watersmeet.model import Column, Stream

_AT_ONCE = 256 << 20  # bytes: a larger row group is read in parts
_PART = 64 << 20
_LARGEST = 1 << 30  # bytes of rows that are read at once, which a task holds several times
_LONGEST = 500  # characters of what a library says


@contextlib.contextmanager
def concerning(stream: Stream, path: str, problem: str) -> Iterator[None]:
    """Whatever fails inside is an InputError that names the file."""
    try:
        yield
    except InputError:
        raise
    except MemoryError:
        raise InputError(
            f"stream {stream.name}: {path} needs more memory than a task may have",
            detail="Write it with smaller row groups or values, or raise the option task_memory.",
        ) from None
    except Exception as cause:  # of any kind: a library that reads files may raise anything
        said = str(cause).strip().partition("\n")[0][:_LONGEST] or type(cause).__name__
        raise InputError(f"stream {stream.name}: {path} {problem}", detail=said) from None


class StreamFile:
    """A file of which the head has been read: it has the columns of the stream, with types that are read."""

    def __init__(self, stream: Stream, path: str) -> None:
        self._stream = stream
        self._path = path
        with concerning(stream, path, "is not a readable Parquet file"):
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise InputError(f"stream {stream.name}: {path} is not a regular file")
            self._file = pq.ParquetFile(path, memory_map=True, coerce_int96_timestamp_unit="us")
            try:
                found = self._file.schema_arrow
                self._names = [_required(stream, path, found, column).name for column in stream.columns]
            except BaseException:
                self.close()
                raise

    @property
    def row_groups(self) -> int:
        return int(self._file.metadata.num_row_groups)

    def rows(self, group: int) -> Iterator[pa.RecordBatch]:
        """The rows of a row group, as the stream declares them."""
        with concerning(self._stream, self._path, "is damaged: only a part of it could be read"):
            for batch in read_row_group(self._file, group, self._names):
                if batch.nbytes > _LARGEST:
                    raise MemoryError
                yield as_declared(self._stream, self._path, batch.select(self._names).columns)

    def close(self) -> None:
        self._file.close()


def read_row_group(file: pq.ParquetFile, group: int, names: list[str]) -> Iterator[pa.RecordBatch]:
    """The columns with these names, and maybe others; a large row group in parts, so that it need not be in memory."""
    facts = file.metadata.row_group(group)
    if facts.total_byte_size <= _AT_ONCE:
        yield from file.read_row_group(group, columns=names, use_threads=False).combine_chunks().to_batches()
        return
    size = max(1, facts.num_rows * _PART // facts.total_byte_size)
    yield from file.iter_batches(size, row_groups=[group], columns=names, use_threads=False)


def as_declared(stream: Stream, path: str, found: Sequence[pa.Array]) -> pa.RecordBatch:
    """The columns of some rows of a file, with the types that the stream declares."""
    arrays = []
    for column, array in zip(stream.columns, found, strict=True):
        if array.type == column.arrow:
            arrays.append(array)
            continue
        kinds = f"{column.name} ({type_name(array.type)}) that cannot be read as {column.type.upper()}"
        with concerning(stream, path, f"has values of {kinds}"):
            arrays.append(converted(array, column.arrow))
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in stream.columns])


def _required(stream: Stream, path: str, found: pa.Schema, column: Column) -> pa.Field:
    field = find_column(stream, path, found, column)
    if field is None:
        raise InputError(
            f"stream {stream.name}: {path} has no column {column.name}",
            detail=f"Its columns: {', '.join(found.names)}.",
        )
    return field


def find_column(stream: Stream, place: str, found: pa.Schema, column: Column) -> pa.Field | None:
    """The field of a file or a table for a column of the stream. Raises InputError if there are several, or if its
    values are not of the declared type."""
    places = places_of(column.name, found.names)
    if not places:
        return None
    if len(places) > 1:
        raise InputError(
            f"stream {stream.name}: {place} has {len(places)} columns for {column.name}: "
            + ", ".join(found.names[at] for at in places),
            detail="Names ignore case. Write one of them, or all under different names.",
        )
    field = found.field(places[0])
    if not reads_as(field.type, column.arrow):
        raise InputError(
            f"stream {stream.name}: {place} has {column.name} as {type_name(field.type)}; "
            f"the stream declares {column.type.upper()}",
            detail=f"Write {field.name} as {column.type.upper()}, or declare what the file has.",
        )
    return field
