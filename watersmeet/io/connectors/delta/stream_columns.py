"""The columns of a Delta table as columns of a stream, and how a task reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.errors import REPLACE_FILE, InputError
from watersmeet.io.sources import reads_as
from watersmeet.model import Column, Stream
from watersmeet.model.types import type_of_arrow

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


def check_features(stream: str, root: Path, features: Iterable[str], properties: Mapping[str, str]) -> None:
    unknown = sorted(set(features) - _KNOWN_FEATURES)
    if properties.get(_RENAMES, "none") != "none":
        unknown.append(f"columns with other names in its files ({_RENAMES})")
    if unknown:
        raise InputError(
            f"stream {stream}: the Delta table {root} has features that cannot be read: {', '.join(unknown)}",
            hint="copy the rows into a table without them, or read it with your own spark.readStream frame",
        )


def check_columns(stream: Stream, root: Path, schema: str) -> None:
    """Reject a table that lacks a column of the stream, or has it with another type."""
    from deltalake import Schema

    found = pa.schema(Schema.from_json(schema).to_arrow())
    by_name = {field.name.lower(): field for field in found}
    for column in stream.columns:
        field = by_name.get(column.name.lower())
        if field is None:
            raise InputError(
                f"stream {stream.name}: the Delta table {root} has no column {column.name}",
                detail=f"Its columns: {', '.join(found.names)}.",
            )
        if not reads_as(field.type, column):
            raise InputError(
                f"stream {stream.name}: the Delta table {root} has {column.name} as "
                f"{type_of_arrow(field.type).upper()}; the stream declares {column.type.upper()}"
            )


def read_rows(
    stream: Stream, path: str, begin: int, end: int | None, partition: tuple[tuple[str, str | None], ...]
) -> Iterator[pa.RecordBatch]:
    """Rows of a file of the table as the stream declares them. The log promises the file; without it the tick fails."""
    try:
        with pq.ParquetFile(path, memory_map=True, coerce_int96_timestamp_unit="us") as file:
            yield from _rows(stream, file, begin, end, dict(partition))
    except FileNotFoundError:
        raise InputError(
            f"stream {stream.name}: {path} is gone, and its rows were not read yet",
            detail="The table was vacuumed before the engine came so far.",
            hint="restore the file, or read the table with another --home, from its present rows on",
        ) from None
    except (pa.ArrowException, OSError) as problem:
        raise InputError(
            f"stream {stream.name}: {path} is damaged", detail=str(problem).splitlines()[0], hint=REPLACE_FILE
        ) from None


def _rows(
    stream: Stream, file: pq.ParquetFile, begin: int, end: int | None, partition: dict[str, str | None]
) -> Iterator[pa.RecordBatch]:
    names = {name.lower(): name for name in file.schema_arrow.names}
    fixed = {name.lower(): value for name, value in partition.items()}
    wanted = [names[column.name.lower()] for column in stream.columns if column.name.lower() in names]
    at = 0
    for group in range(file.metadata.num_row_groups):
        size = file.metadata.row_group(group).num_rows
        first, last = max(begin - at, 0), min(size, (end - at) if end is not None else size)
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
