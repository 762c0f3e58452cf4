"""Whether a Delta table has the columns of a stream, in a way that can be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from watersmeet.errors import InputError
from watersmeet.io.parquet_files import find_column
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
    for column in stream.columns:
        if find_column(stream, f"the Delta table {root}", found, column) is None:
            raise InputError(
                f"stream {stream.name}: the Delta table {root} has no column {column.name}",
                detail=f"Its columns: {', '.join(found.names)}.",
            )
