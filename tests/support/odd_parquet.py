"""Columns of every type that Arrow writes to Parquet, and types to declare them as. Each column has four rows, of which
the third is NULL, and values at the ends of its type."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import date, time
from decimal import Decimal

import pyarrow as pa

_NANOS = 1_767_268_800_123_456_789
_UUID = uuid.UUID("12345678-1234-5678-1234-567812345678").bytes


def _ints(bits: int, signed: bool) -> pa.Array:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return pa.array([low, 7, None, high], getattr(pa, f"{'' if signed else 'u'}int{bits}")())


def _instants(unit: str, zone: str | None) -> pa.Array:
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    values = [_NANOS * per_second // 10**9, -1, None, 0]
    return pa.array(values, pa.int64()).cast(pa.timestamp(unit, tz=zone))


def _decimals(kind: pa.DataType) -> pa.Array:
    digits = "9" * kind.precision
    most = Decimal(digits).scaleb(-kind.scale, context=None) if kind.precision <= 28 else Decimal(7)
    return pa.array([most, -most, None, Decimal(7)], kind)


SCALARS: dict[str, pa.Array] = {
    "bool": pa.array([True, False, None, True]),
    **{f"int{bits}": _ints(bits, True) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": _ints(bits, False) for bits in (8, 16, 32, 64)},
    "float16": pa.array([1.5, -2.0, None, 0.0], pa.float32()).cast(pa.float16()),
    "float32": pa.array([1.5, float("nan"), None, 3.4e38], pa.float32()),
    "float64": pa.array([1.5, float("inf"), None, 1e300], pa.float64()),
    **{
        f"decimal{kind.bit_width}_{kind.precision}_{kind.scale}": _decimals(kind)
        for kind in (
            pa.decimal32(5, 2),
            pa.decimal64(10, 2),
            pa.decimal128(5, 2),
            pa.decimal128(10, 0),
            pa.decimal128(10, 2),
            pa.decimal128(10, 4),
            pa.decimal128(12, 2),
            pa.decimal128(20, 0),
            pa.decimal128(38, 4),
            pa.decimal256(10, 2),
            pa.decimal256(60, 2),
        )
    },
    "string": pa.array(["a", "", None, "7"]),
    "large_string": pa.array(["a", "", None, "7"], pa.large_string()),
    "string_view": pa.array(["a", "", None, "7"], pa.string_view()),
    "binary": pa.array([b"a", b"", None, b"7"]),
    "binary_no_text": pa.array([b"\xff\xfe", b"\x00", None, b"7"]),
    "large_binary": pa.array([b"a", b"", None, b"7"], pa.large_binary()),
    "binary_view": pa.array([b"a", b"", None, b"7"], pa.binary_view()),
    "fixed_binary": pa.array([b"abcd", b"\xff\xfe\x00\x01", None, b"7777"], pa.binary(4)),
    "uuid": pa.array([_UUID, _UUID, None, _UUID], pa.uuid()),
    "json": pa.array(['{"a":1}', "1", None, "[]"], pa.json_()),
    "date32": pa.array([date(2026, 1, 1), date(1900, 1, 1), None, date(1970, 1, 1)]),
    "date64": pa.array([date(2026, 1, 1), date(1900, 1, 1), None, date(1970, 1, 1)], pa.date64()),
    "time32": pa.array([time(1, 2, 3), time(0), None, time(23)], pa.time32("ms")),
    "time64_us": pa.array([time(1, 2, 3), time(0), None, time(23)], pa.time64("us")),
    "time64_ns": pa.array([time(1, 2, 3), time(0), None, time(23)], pa.time64("ns")),
    **{f"duration_{unit}": pa.array([7, -1, None, 0], pa.duration(unit)) for unit in ("s", "ms", "us", "ns")},
    **{f"timestamp_{unit}": _instants(unit, None) for unit in ("s", "ms", "us", "ns")},
    **{f"timestamp_{unit}_utc": _instants(unit, "UTC") for unit in ("s", "ms", "us", "ns")},
    "timestamp_us_berlin": _instants("us", "Europe/Berlin"),
    "null": pa.nulls(4),
    "dictionary_string": pa.array(["a", "", None, "a"]).dictionary_encode(),
    "dictionary_int32": pa.array([7, 8, None, 7], pa.int32()).dictionary_encode(),
}


def _list(of: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, 2, None, 2, 4], pa.int32()), of)


def _struct(**fields: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays(list(fields.values()), list(fields), mask=pa.array([False, False, True, False]))


def _map(keys: pa.Array, values: pa.Array) -> pa.Array:
    return pa.MapArray.from_arrays(pa.array([0, 1, None, 1, 2], pa.int32()), keys, values)


def nested(scalars: Iterable[str]) -> dict[str, pa.Array]:
    """Each of these in a list, in a struct and as the values of a map; and forms of their own."""
    found = {}
    for name in scalars:
        of = SCALARS[name]
        found[f"list_{name}"] = _list(of)
        found[f"struct_{name}"] = _struct(a=of)
        found[f"map_{name}"] = _map(pa.array(["k", "l"]), of.slice(0, 2))
    return found


_INT32, _INT64, _STRING = SCALARS["int32"], SCALARS["int64"], SCALARS["string"]
SHAPES: dict[str, pa.Array] = {
    "large_list": _list(_INT32).cast(pa.large_list(pa.int32())),
    "list_view": pa.array([[1, 2], [], None, [3]], pa.list_view(pa.int32())),
    "fixed_list": pa.array([[1, 2], [3, None], None, [5, 6]], pa.list_(pa.int32(), 2)),
    "list_of_list": pa.array([[[1], None], [], None, [[2, 3]]], pa.list_(pa.list_(pa.int32()))),
    "struct_more": _struct(a=_INT32, b=_STRING),
    "struct_other": _struct(z=_INT32),
    "struct_twice": _struct(a=_INT32, A=_INT32),
    "struct_upper": _struct(A=_INT32),
    "struct_swapped": _struct(b=_STRING, a=_INT32),
    "map_int_keys": _map(pa.array([1, 2], pa.int32()), pa.array([3, 4], pa.int32())),
    "map_string_keys": _map(pa.array(["k", "l"]), pa.array([3, 4], pa.int32())),
    "list_of_struct": pa.array([[{"a": 1}], [], None, [{"a": None}]], pa.list_(pa.struct([("a", pa.int32())]))),
    "list_of_struct_wide": pa.array([[{"a": 1}], [], None, [{"a": 2}]], pa.list_(pa.struct([("a", pa.int64())]))),
}

DECLARED = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"),
    *("DECIMAL(10,2)", "DECIMAL(12,2)", "DECIMAL(12,4)", "DECIMAL(20,0)", "DECIMAL(38,4)"),
    *("STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"),
    *("ARRAY<INT>", "STRUCT<a:BIGINT>", "STRUCT<a:INT,b:STRING>", "MAP<STRING,INT>", "ARRAY<TIMESTAMP>"),
)
MORE_DECLARED = (
    *(f"ARRAY<{kind}>" for kind in ("BIGINT", "DOUBLE", "STRING", "DATE", "DECIMAL(12,2)", "BOOLEAN", "BINARY")),
    *(f"STRUCT<a:{kind}>" for kind in ("INT", "FLOAT", "STRING", "TIMESTAMP", "TIMESTAMP_NTZ", "DECIMAL(10,2)")),
    *(f"MAP<STRING,{kind}>" for kind in ("BIGINT", "DOUBLE", "STRING", "TIMESTAMP", "BINARY")),
    *("MAP<INT,INT>", "MAP<BIGINT,BIGINT>", "ARRAY<ARRAY<INT>>", "ARRAY<ARRAY<BIGINT>>"),
    *("ARRAY<STRUCT<a:INT>>", "ARRAY<STRUCT<a:BIGINT>>", "MAP<STRING,ARRAY<INT>>", "STRUCT<a:STRUCT<b:INT>>"),
)
EVENT_TIMES = ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE", "BIGINT", "INT", "SMALLINT")
