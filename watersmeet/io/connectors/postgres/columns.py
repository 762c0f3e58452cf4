"""Columns of results as columns of Postgres: their types, and whether a table that exists can take them.

| results | created as | an existing column may also be |
|---|---|---|
| BOOLEAN | boolean | |
| TINYINT, SMALLINT | smallint | integer, bigint |
| INT | integer | bigint |
| BIGINT | bigint | |
| FLOAT | real | double precision |
| DOUBLE | double precision | |
| DECIMAL(p, s) | numeric(p, s) | numeric, or one with no fewer digits before and after the point |
| STRING | text | character varying without a length |
| BINARY | bytea | |
| DATE | date | |
| TIMESTAMP | timestamp with time zone | |
| TIMESTAMP_NTZ | timestamp without time zone | |
| ARRAY, STRUCT, MAP | jsonb | json |
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

_SIMPLE: tuple[tuple[pa.DataType, str, tuple[str, ...]], ...] = (
    (pa.bool_(), "boolean", ()),
    (pa.int8(), "smallint", ("integer", "bigint")),
    (pa.int16(), "smallint", ("integer", "bigint")),
    (pa.int32(), "integer", ("bigint",)),
    (pa.int64(), "bigint", ()),
    (pa.float32(), "real", ("double precision",)),
    (pa.float64(), "double precision", ()),
    (pa.string(), "text", ("character varying",)),
    (pa.binary(), "bytea", ()),
    (pa.date32(), "date", ()),
    (pa.timestamp("us", "UTC"), "timestamp with time zone", ()),
    (pa.timestamp("us"), "timestamp without time zone", ()),
)
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")


@dataclass(frozen=True)
class Found:
    """A column of an existing table."""

    name: str
    type: str  # as Postgres' format_type writes it
    is_optional: bool  # it may be left out: it has a default, is generated, or may be NULL


def type_of(kind: pa.DataType) -> str:
    """The type of a column that is created."""
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if pa.types.is_nested(kind):
        return "jsonb"
    return next(name for arrow, name, _ in _SIMPLE if arrow == kind)


def assigned(schema: pa.Schema, table: Sequence[Found]) -> dict[str, str]:
    """For each column of results its column in the table: the same name, or the only one that differs in case alone."""
    exact = {column.name for column in table}
    folded: dict[str, list[str]] = {}
    for column in table:
        folded.setdefault(column.name.lower(), []).append(column.name)
    names = {}
    for name in schema.names:
        similar = folded.get(name.lower(), [])
        if name in exact:
            names[name] = name
        elif len(similar) == 1:
            names[name] = similar[0]
    return names


def differences(schema: pa.Schema, table: Sequence[Found]) -> list[str]:
    """Why a table cannot take results, one reason for each column."""
    names = assigned(schema, table)
    found = {column.name: column for column in table}
    reasons = [f"it has no column {name}" for name in schema.names if name not in names]
    for field in schema:
        column = found.get(names.get(field.name, ""))
        if column is not None and not _takes(field.type, column.type):
            reasons.append(f"its column {column.name} is {column.type}, not {type_of(field.type)}")
    used = set(names.values())
    return reasons + [
        f"its column {column.name} is NOT NULL and has no default, and the query has no such column"
        for column in table
        if column.name not in used and not column.is_optional
    ]


def _takes(kind: pa.DataType, found: str) -> bool:
    if found == type_of(kind):
        return True
    if pa.types.is_decimal(kind):
        digits = _NUMERIC.fullmatch(found)
        if digits is None:
            return found == "numeric"
        precision, scale = int(digits[1]), int(digits[2])
        return bool(scale >= kind.scale and precision - scale >= kind.precision - kind.scale)
    if pa.types.is_nested(kind):
        return found == "json"
    return any(found in wider for arrow, _, wider in _SIMPLE if arrow == kind)
