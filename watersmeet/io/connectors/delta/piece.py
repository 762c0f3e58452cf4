"""Rows of a file of a Delta table, for one task to read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.errors import REPLACE_FILE, InputError
from watersmeet.io.connectors.delta.log import DataFile
from watersmeet.model import Column, Stream

_SPLIT = 64 << 20  # bytes; larger files are read by several tasks
Partition = tuple[tuple[str, str | None], ...]  # values of the columns that a file does not have


@dataclass(frozen=True)
class DeltaPiece:
    stream: str
    path: str
    bytes: int
    begin: int
    end: int | None  # None: to the end
    partition: Partition = ()

    def read(self, stream: Stream) -> Iterator[pa.RecordBatch]:
        try:
            with pq.ParquetFile(self.path, memory_map=True, coerce_int96_timestamp_unit="us") as file:
                yield from self._rows(stream, file)
        except FileNotFoundError:
            raise InputError(
                f"stream {self.stream}: {self.path} is gone, and its rows were not read yet",
                detail="The table was vacuumed before the engine came so far.",
                hint="restore the file, or read the table with another --home, from its present rows on",
            ) from None
        except (pa.ArrowException, OSError) as problem:
            raise InputError(
                f"stream {self.stream}: {self.path} is damaged",
                detail=str(problem).splitlines()[0],
                hint=REPLACE_FILE,
            ) from None

    def _rows(self, stream: Stream, file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
        names = {name.lower(): name for name in file.schema_arrow.names}
        fixed = {name.lower(): value for name, value in self.partition}
        wanted = [names[column.name.lower()] for column in stream.columns if column.name.lower() in names]
        at = 0
        for group in range(file.metadata.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            first, last = max(self.begin - at, 0), size if self.end is None else min(size, self.end - at)
            at += size
            if first >= last:
                continue
            found = file.read_row_group(group, columns=wanted, use_threads=False).slice(first, last - first)
            columns = [_column(column, found, names, fixed) for column in stream.columns]
            table = pa.Table.from_arrays(columns, names=[column.name for column in stream.columns])
            yield from table.combine_chunks().to_batches()


def _column(
    column: Column, rows: pa.Table, names: dict[str, str], fixed: dict[str, str | None]
) -> pa.ChunkedArray | pa.Array:
    """From the file, from the folder of the file, or NULL in a file that is older than the column."""
    name = column.name.lower()
    if name in names:
        return rows.column(names[name])
    text = fixed.get(name) or None
    if text is None:
        return pa.nulls(rows.num_rows, column.arrow)
    if pa.types.is_timestamp(column.arrow):
        text = text.removesuffix("Z").replace("T", " ")
    return pa.repeat(pa.scalar(text, pa.string()).cast(column.arrow), rows.num_rows)


def cut(stream: str, root: Path, file: DataFile, begin: int, end: int | None) -> Iterator[DeltaPiece]:
    """Rows of a file, in several pieces where they are many."""
    path = str(root / file.path)
    if end is None or not file.rows:
        yield DeltaPiece(stream, path, file.bytes, begin, end, file.partition)
        return
    size = file.bytes * (end - begin) // file.rows
    shares = max(1, -(-size // _SPLIT))
    bounds = [begin + (end - begin) * share // shares for share in range(shares + 1)]
    for first, last in itertools.pairwise(bounds):
        if last > first:
            yield DeltaPiece(stream, path, size // shares, first, last, file.partition)
