"""Columns of every type with extreme values, in all pairs, and what the examples of the table stand for."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import islice, product

import pyarrow as pa

from watersmeet.model.types import arrow_type

NAN, INF = float("nan"), float("inf")
SIZE = 16  # values of each type; shorter lists are filled up with their first ones
TIME = dt.datetime
VALUES: dict[str, list[object]] = {
    "tinyint": [None, 0, 1, -1, 127, -128, 7, -7, 2, 100],
    "smallint": [None, 0, 1, -1, 32767, -32768, 7, -7, 2024, 12],
    "int": [None, 0, 1, -1, 2147483647, -2147483648, 7, -7, 2, 3, 1704164645, 46341],
    "bigint": [None, 0, 1, -1, 9223372036854775807, -9223372036854775808, 7, -7, 2**53 + 1, 4294967296, 3037000500],
    "float": [
        None,
        0.0,
        -0.0,
        1.0,
        -1.5,
        NAN,
        INF,
        -INF,
        0.10000000149011612,
        3.4028234663852886e38,
        2147483648.0,
        7.5,
        16777216.0,
    ],
    "double": [
        None,
        0.0,
        -0.0,
        1.0,
        -1.5,
        NAN,
        INF,
        -INF,
        0.1,
        1.7976931348623157e308,
        2.5,
        9.223372036854775807e18,
        -9.3e18,
        2147483647.9,
        4.9e-324,
        1.9,
    ],
    "decimal(10,2)": [
        None,
        *(
            Decimal(text)
            for text in (
                "0.00",
                "1.00",
                "-1.00",
                "1.50",
                "-1.50",
                "2.50",
                "99999999.99",
                "-99999999.99",
                "0.01",
                "0.05",
                "7.25",
            )
        ),
    ],
    "decimal(30,4)": [
        None,
        *(
            Decimal(text)
            for text in (
                "0.0000",
                "1.5000",
                "-1.5000",
                "12345678901234567890.1234",
                "99999999999999999999999999.9999",
                "0.1000",
            )
        ),
    ],
    "string": [
        None,
        "",
        " ",
        "a",
        "abc",
        "a_c",
        "é",
        "İ",
        "straße",
        " 12 ",
        "1.5",
        "2024-02-29",
        "true",
        "a\\%b",
        "x\n",
        "b1,c2" * 200,
    ],
    "boolean": [None, True, False],
    "date": [
        None,
        *(
            dt.date.fromisoformat(text)
            for text in (
                "1970-01-01",
                "0001-01-01",
                "9999-12-31",
                "2024-02-29",
                "2023-02-28",
                "1969-12-31",
                "2024-12-30",
                "2000-01-31",
            )
        ),
    ],
    "timestamp": [
        None,
        *(
            TIME.fromisoformat(text)
            for text in (
                "1970-01-01 00:00:00",
                "0001-01-01 00:00:00",
                "9999-12-31 23:59:59.999999",
                "2024-02-29 12:30:45.123456",
                "1969-12-31 23:59:59.5",
                "2024-03-31 02:30:00",
                "2024-02-29 00:00:00",
                "1900-01-31 01:00:00.1",
            )
        ),
    ],
    "array<int>": [None, [], [1], [1, None], [None], [7, 0, -1], [2147483647]],
    "map<string,int>": [None, [], [("a", 1)], [("b", 2), ("a", None)]],
}
VALUES["timestamp_ntz"] = VALUES["timestamp"]
SHORT = {
    **{
        "tinyint": "t",
        "smallint": "s",
        "int": "i",
        "bigint": "g",
        "float": "f",
        "double": "d",
        "decimal(10,2)": "de",
        "decimal(30,4)": "dl",
    },
    **{
        "string": "n",
        "boolean": "b",
        "date": "dt",
        "timestamp": "ts",
        "timestamp_ntz": "tn",
        "array<int>": "arr",
        "map<string,int>": "m",
    },
}
COLUMNS = {f"{short}{side}": kind for kind, short in SHORT.items() for side in (1, 2)}
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*_INTEGERS, "float", "double", "decimal(10,2)")
FAMILIES = {
    **{kind: (kind,) for kind in VALUES},
    **{
        "decimal": ("decimal(10,2)",),
        "long_decimal": ("decimal(30,4)",),
        "ntz": ("timestamp_ntz",),
        "array": ("array<int>",),
        "map": ("map<string,int>",),
    },
    **{"integer": _INTEGERS, "number": _NUMBERS, "simple": (*_NUMBERS, "string", "boolean", "date", "timestamp")},
    "plain": (*_INTEGERS, "decimal(10,2)", "boolean", "date", "timestamp", "string"),
}
_PLACE = re.compile(r"\{([a-z_]+)(2?)\}")


def table() -> pa.Table:
    """All pairs of values of any two types: the column x1 of a type has value r // SIZE in row r, x2 has r % SIZE."""
    data = {"id": pa.array(range(SIZE * SIZE), pa.int64())}
    for name, kind in COLUMNS.items():
        listed = (VALUES[kind] * SIZE)[:SIZE]
        chosen = [listed[row // SIZE if name.endswith("1") else row % SIZE] for row in range(SIZE * SIZE)]
        data[name] = pa.array(chosen, arrow_type(kind))
    return pa.table(data)


def expanded(example: str, most: int = 16) -> Iterator[str]:
    """The example with columns of each type that it is for; a family that stands twice is of one type."""
    families = list(dict.fromkeys(match[1] for match in _PLACE.finditer(example)))
    for kinds in islice(product(*(FAMILIES[family] for family in families)), most):
        chosen = dict(zip(families, kinds, strict=True))
        parts = _PLACE.split(example)
        columns = [SHORT[chosen[family]] + (side or "1") for family, side in zip(parts[1::3], parts[2::3], strict=True)]
        yield parts[0] + "".join(one + after for one, after in zip(columns, parts[3::3], strict=True))
