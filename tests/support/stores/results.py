"""Results of a query with every type, and a sender of them, for tests of targets without an engine."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from watersmeet.io.connectors.protocol import Sender
from watersmeet.model import Sink

SCHEMA = pa.schema([("tick", pa.int64()), ("number", pa.int32()), ("text", pa.string())])
EVERY_TYPE = pa.schema(
    [
        ("yes", pa.bool_()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("whole", pa.int32()),
        ("long", pa.int64()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("amount", pa.decimal128(38, 10)),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("list", pa.list_(pa.float64())),
        ("record", pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ("pairs", pa.map_(pa.string(), pa.int32())),
    ]
)
_NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 1)
VALUES: dict[str, list[Any]] = {
    "yes": [True, False],
    "tiny": [-128, 127],
    "small": [-32768, 32767],
    "whole": [-(2**31), 2**31 - 1],
    "long": [-(2**63), 2**63 - 1],
    "single": [0.1, float("-inf")],
    "double": [float("nan"), 5e-324],
    "amount": [decimal.Decimal("9999999999999999999999999999.9999999999"), decimal.Decimal("-0.0000000001")],
    "text": ["", 'a "quoted",\r\n\\.\tline, ünïcode 💧'],
    "bytes": [b"", b"\x00\xff\\x"],
    "day": [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
    "moment": [_NOON.replace(tzinfo=datetime.UTC), datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)],
    "local": [_NOON, datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)],
    "list": [[1.5, None, float("inf")], []],
    "record": [{"a": 1, "b": 'x"y'}, {"a": None, "b": None}],
    "pairs": [[("k", 1)], []],
}


def every_value() -> pa.RecordBatch:
    """Two rows of values, and one of NULLs."""
    columns = [pa.array([*VALUES[field.name], None], field.type) for field in EVERY_TYPE]
    return pa.RecordBatch.from_arrays(columns, schema=EVERY_TYPE)


def rows_of(tick: int, count: int) -> pa.RecordBatch:
    numbers = range(count)
    columns = [pa.array([tick] * count, pa.int64()), pa.array(numbers, pa.int32()), pa.array(map(str, numbers))]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def batches(*parts: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    return iter(parts)


def sender(sink: Sink, query: str = "books", home: str = "0123abcd", schema: pa.Schema = SCHEMA) -> Sender:
    return Sender(home, query, sink, schema)


def delta_sink(folder: Path, **options: str) -> Sink:
    return Sink("delta", str(folder), tuple(options.items()))
