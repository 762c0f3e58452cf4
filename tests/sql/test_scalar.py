"""Scalar SQL keeps Spark's meaning: every accepted expression is executed on DuckDB and its value compared."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pytest

from watersmeet.model import Expression, JoinForm, Stream, member_column
from watersmeet.store.evaluate import evaluate

Build = Callable[[str], JoinForm]

DAY = datetime.date
AT = datetime.datetime
CASES: list[tuple[str, str, object]] = [
    # numbers
    ("x / y", "double", 3.5),
    ("x / 0", "double", None),
    ("x % y", "int", 1),
    ("-x % y", "int", -1),
    ("x % 0", "int", None),
    ("pmod(-x, 2)", "int", 1),
    ("x div y", "bigint", 3),
    ("-x div y", "bigint", -3),
    ("x + y * 2", "int", 11),
    ("x * 2147483647", "int", None),
    ("de * 2", "decimal(12,2)", Decimal("3.00")),
    ("floor(d)", "bigint", 1),
    ("ceil(-d)", "bigint", -1),
    ("round(2.5)", "decimal(2,0)", 3),
    ("(x & y) | 1", "int", 3),
    ("x ^ y", "int", 5),
    ("10L", "bigint", 10),
    ("greatest(x, y, NULL)", "int", 7),
    # strings
    ("n || '-' || x", "string", "abc-7"),
    ("concat(n, 1)", "string", "abc1"),
    ("substring(n, 2, 1)", "string", "b"),
    ("substr(n, -2)", "string", "bc"),
    ("upper(trim(n))", "string", "ABC"),
    ("split_part(n, 'b', 1)", "string", "a"),
    ("instr(n, 'c')", "int", 3),
    ("'it''s' || \"!\"", "string", "it's!"),
    ("n LIKE 'a%'", "boolean", True),
    ("n NOT LIKE 'a%'", "boolean", False),
    (r"'a_c' LIKE 'a\\_c'", "boolean", True),
    (r"n LIKE 'a\\_c'", "boolean", False),
    ("NOT n LIKE ANY ('x%', 'a%')", "boolean", False),
    ("n NOT LIKE ANY ('x%', 'a%')", "boolean", True),
    ("n NOT LIKE ALL ('x%', 'a%')", "boolean", False),
    ("n NOT ILIKE SOME ('X%', 'A%')", "boolean", True),
    ("n RLIKE '^a.c$'", "boolean", True),
    ("regexp_replace(n, '[ab]', 'x')", "string", "xxc"),
    # times
    ("year(ts)", "int", 2024),
    ("hour(ts)", "int", 3),
    ("dayofweek(ts)", "int", 3),
    ("weekday(dt)", "int", 1),
    ("date_add(dt, 3)", "date", DAY(2024, 1, 5)),
    ("date_sub(dt, x)", "date", DAY(2023, 12, 26)),
    ("add_months(dt, 1)", "date", DAY(2024, 2, 2)),
    ("trunc(dt, 'month')", "date", DAY(2024, 1, 1)),
    ("datediff(dt, DATE '2023-12-31')", "int", 2),
    ("date_trunc('hour', ts)", "timestamp", AT(2024, 1, 2, 3)),
    ("ts + INTERVAL '1' DAY", "timestamp", AT(2024, 1, 3, 3, 4, 5)),
    ("timestamp '2024-01-01 02:00:00+02'", "timestamp", AT(2024, 1, 1)),
    ("CAST('2024-01-01 02:00:00' AS TIMESTAMP)", "timestamp", AT(2024, 1, 1, 2)),
    ("to_timestamp('2024-01-01 02:00:00+02:00')", "timestamp", AT(2024, 1, 1)),
    ("CAST(ts AS TIMESTAMP) = ts", "boolean", True),
    ("ts > '2024-01-01'", "boolean", True),
    ("unix_timestamp(ts)", "bigint", 1704164645),
    ("from_unixtime(1704164645)", "string", "2024-01-02 03:04:05"),
    ("from_unixtime(k)", "string", "2024-01-02 03:04:05"),
    ("timestamp_seconds(k)", "timestamp", AT(2024, 1, 2, 3, 4, 5)),
    ("date_format(ts, 'yyyy/MM')", "string", "2024/01"),
    ("to_date('2024-05-06')", "date", DAY(2024, 5, 6)),
    ("timestampdiff(SECOND, tn, ts)", "bigint", 97445),
    # conditions, casts, nested values
    ("CASE WHEN x > 1 AND n = 'abc' THEN d ELSE 0 END", "double", 1.5),
    ("if(ok, x, y)", "int", 7),
    ("coalesce(NULL, x)", "int", 7),
    ("isnull(x) OR isnotnull(y)", "boolean", True),
    ("x BETWEEN 1 AND 7 AND y NOT IN (1, 3)", "boolean", True),
    ("x IS NOT NULL AND !(x = 1)", "boolean", True),
    ("x <=> NULL", "boolean", False),
    ("n = 1", "boolean", None),
    ("CAST(n AS INT)", "int", None),
    ("CAST(x AS STRING)", "string", "7"),
    ("de::DECIMAL(4, 1)", "decimal(4,1)", Decimal("1.5")),
    ("st.f + arr[0] + m['a']", "int", 3),
    ("element_at(arr, 2)", "int", 2),
    ("size(arr)", "int", 2),
    ("CAST(1.9 AS INT)", "int", 1),
    ("CAST(x / 2 AS INT)", "int", 3),
    ("CAST(ts AS BIGINT)", "bigint", 1704164645),
    ("array_contains(arr, 2)", "boolean", True),
]
ROW = {
    **{"k": 1704164645, "x": 7, "y": 2, "d": 1.5, "n": "abc", "ts": AT(2024, 1, 2, 3, 4, 5), "dt": DAY(2024, 1, 2)},
    **{"m": {"a": 1}, "arr": [1, 2], "de": Decimal("1.50"), "b": b"x", "st": {"f": 1}, "ok": True},
    **{"tn": AT(2024, 1, 1)},
}


Tables = dict[str, pa.Table]


@pytest.fixture(scope="module")
def tables(streams: dict[str, Stream]) -> Tables:
    """The one row, under bare column names as filters and keys see it and under those that outputs see."""
    schema = streams["wide"].schema
    values = {**ROW, "m": list(ROW["m"].items())}  # type: ignore[attr-defined]
    arrays = [pa.array([values[field.name]], field.type) for field in schema]
    names = [member_column("a", field.name) for field in schema]
    return {"bare": pa.table(arrays, schema=schema), "members": pa.table(arrays, names=names)}


def value_of(rows: pa.Table, expression: Expression) -> object:
    return evaluate(rows, [expression.text]).values[0].to_pylist()[0]


@pytest.mark.parametrize(("expression", "kind", "value"), CASES)
def test_output(query: Build, tables: Tables, expression: str, kind: str, value: object) -> None:
    (output,) = query(f"SELECT {expression} AS value FROM wide a WINDOW 1 DAY").outputs
    assert output.type == output.expression.type == kind
    assert value_of(tables["members"], output.expression) == value


@pytest.mark.parametrize(("expression", "kind", "value"), [case for case in CASES if case[1] == "boolean"])
def test_filter(query: Build, tables: Tables, expression: str, kind: str, value: object) -> None:
    found = query(f"SELECT a.k FROM wide a WHERE ({expression}) WINDOW 1 DAY").aliases[0].filter
    assert found is not None
    assert bool(value_of(tables["bare"], found)) == bool(value)


@pytest.mark.parametrize(
    ("key", "value"),
    [("lower(a.n)", "abc"), ("a.x + 1", 8), ("CAST(a.n AS INT)", None), ("date_add(a.dt, 1)", DAY(2024, 1, 3))],
)
def test_key(query: Build, tables: Tables, key: str, value: object) -> None:
    (equality,) = query(
        f"SELECT b.k FROM wide a, wide b WHERE {key} = {key.replace('a.', 'b.')} WINDOW 1 DAY"
    ).equalities
    assert equality.left_key == equality.right_key
    assert value_of(tables["bare"], equality.left_key.expression) == value


@pytest.mark.parametrize(
    "expression",
    ["x % 0", "x * 2147483647", "CAST(n AS INT)", "n = 1", "x * 2147483647 < 5 OR x * 2147483647 > 6"],
)
def test_a_value_that_cannot_be_computed_is_null_and_counted(query: Build, tables: Tables, expression: str) -> None:
    (output,) = query(f"SELECT {expression} AS value FROM wide a WINDOW 1 DAY").outputs
    done = evaluate(tables["members"], [output.expression.text, "1"])
    assert [values.to_pylist() for values in done.values] == [[None], [1]]
    assert done.failures == [1, 0]
