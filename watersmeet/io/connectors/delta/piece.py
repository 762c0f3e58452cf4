"""Rows of a file of a Delta table, for one task to read."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.errors import REPLACE_FILE, InputError
from watersmeet.io.connectors.delta.log import DataFile
from watersmeet.io.parquet_files import as_declared, concerning, find_column, read_row_group
from watersmeet.model import Column, Stream

_SPLIT = 64 << 20  # bytes; larger files are read by several tasks
Partition = tuple[tuple[str, str | None], ...]  # values of the columns that a file does not have


@dataclass(frozen=True)
class DeltaPiece:
    """Rows of a file of a table."""

    stream: str
    path: str
    bytes: int
    begin: int
    end: int | None  # None: to the end
    partition: Partition = ()
    file = ""  # it is a part of the table, so it is not set aside
    shares = 1

    def read(self, stream: Stream, kept: dict[Stream, Any]) -> Iterator[pa.RecordBatch]:
        try:
            with concerning(stream, self.path, "is damaged"):
                if not os.path.exists(self.path):
                    raise InputError(
                        f"stream {self.stream}: {self.path} is gone, and its rows were not read yet",
                        detail="The table was vacuumed before the engine came so far.",
                        hint="restore the file, or read the table with another --home, from its present rows on",
                    )
                with pq.ParquetFile(self.path, memory_map=True, coerce_int96_timestamp_unit="us") as file:
                    yield from self._rows(stream, file)
        except InputError as problem:
            raise InputError(problem.problem, detail=problem.detail, hint=problem.hint or REPLACE_FILE) from None

    def _rows(self, stream: Stream, file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
        fields = [find_column(stream, self.path, file.schema_arrow, column) for column in stream.columns]
        names = [None if field is None else field.name for field in fields]
        wanted = [name for name in names if name is not None] or file.schema_arrow.names[:1]  # to have their number
        at = 0
        for group in range(file.metadata.num_row_groups):
            if at + file.metadata.row_group(group).num_rows <= self.begin:
                at += file.metadata.row_group(group).num_rows
                continue
            for batch in read_row_group(file, group, wanted):
                first = max(self.begin - at, 0)
                last = batch.num_rows if self.end is None else min(batch.num_rows, self.end - at)
                at += batch.num_rows
                if first < last:
                    rows = batch.slice(first, last - first)
                    columns = zip(stream.columns, names, strict=True)
                    yield as_declared(stream, self.path, [self._column(column, name, rows) for column, name in columns])
            if self.end is not None and at >= self.end:
                return

    def _column(self, column: Column, name: str | None, rows: pa.RecordBatch) -> pa.Array:
        """From the file, from the folder of the file, or NULL in a file that is older than the column."""
        if name is not None:
            return rows.column(name)
        text = {each.lower(): value for each, value in self.partition}.get(column.name.lower()) or None
        if text is None:
            return pa.nulls(rows.num_rows, column.arrow)
        if pa.types.is_timestamp(column.arrow):
            text = text.removesuffix("Z").replace("T", " ")
        return pa.repeat(pa.scalar(text, pa.string()).cast(column.arrow), rows.num_rows)


def cut(stream: str, root: Path, file: DataFile, begin: int, end: int | None) -> Iterator[DeltaPiece]:
    """Rows of a file, in several pieces where they are many."""
    path = str(root / file.path)
    if end is None or not file.rows:
        yield DeltaPiece(stream, path, file.bytes, begin, end, partition=file.partition)
        return
    size = file.bytes * (end - begin) // file.rows
    shares = max(1, -(-size // _SPLIT))
    bounds = [begin + (end - begin) * share // shares for share in range(shares + 1)]
    for first, last in itertools.pairwise(bounds):
        if last > first:
            yield DeltaPiece(stream, path, size // shares, first, last, partition=file.partition)
