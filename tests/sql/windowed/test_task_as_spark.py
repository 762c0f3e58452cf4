"""What a task computes over the rows of a window is what Spark computes over them: for generated relational queries,
over rows with NULLs, duplicates, NaN, -0.0 and extremes, over few rows and none. The semantics tier compares more.

`SEMANTICS_SEED` chooses other queries."""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.sql.windowed.conftest import Build
from tests.sql.windowed.relational_queries import Relational
from tests.sql.windowed.test_types_in_spark import QUERIES
from watersmeet.errors import SqlError
from watersmeet.model import Query, Stream
from watersmeet.model.forms import TaskSql, WindowSql
from watersmeet.windows.sql.in_duckdb import WindowBounds, results

SEED = int(os.environ.get("SEMANTICS_SEED", "15"))
WINDOW = (1_800_000_000, 5_400_000_000)
SETTINGS = {
    **{"ansi.enabled": "true", "session.timeZone": "UTC", "shuffle.partitions": "1", "adaptive.enabled": "false"},
    **{"codegen.wholeStage": "false", "codegen.factoryMode": "NO_CODEGEN", "autoBroadcastJoinThreshold": "-1"},
}
Rows = dict[str, pa.Table]

VALUES: dict[str, Callable[[random.Random], object]] = {
    "bigint": lambda chance: chance.choice([0, 1, 1, 2, 3, -1, 2**33, -(2**33)]),
    "int": lambda chance: chance.choice([0, 1, 1, 2, 3, -3, 2**31 - 1, -(2**31)]),
    "smallint": lambda chance: chance.choice([0, 1, 2, 3, -99, 32767, -32768]),
    "string": lambda chance: chance.choice(["a", "b", "Zoë", "", " ", "A", "long one", "\U0001f600", "\uffff"]),
    "double": lambda chance: chance.choice([0.0, -0.0, 1.0, 2.0, 0.125, -3.5, math.nan, math.inf, -math.inf, 5e-324]),
    "float": lambda chance: chance.choice([0.0, -0.0, 1.0, 2.0, 0.125, -3.5, math.nan, math.inf, -math.inf]),
    "boolean": lambda chance: chance.random() < 0.5,
    "date": lambda chance: date(2024, 2, 28) + timedelta(chance.randrange(3)),
    "decimal(12,2)": lambda chance: Decimal(chance.choice([0, 100, 150, -150, 999999999999, -999999999999])).scaleb(-2),
    "decimal(4,2)": lambda chance: Decimal(chance.choice([0, 100, 150, 9999, -9999, 33])).scaleb(-2),
    "decimal(10,4)": lambda chance: Decimal(chance.choice([0, 10000, 15000, 30000, 9999999999])).scaleb(-4),
    "decimal(38,10)": lambda chance: Decimal(chance.randrange(10**20)).scaleb(-10),
    "array<int>": lambda chance: [1, 2],
    "map<string,int>": lambda chance: [("x", 1)],
    "struct<a:int,b:string>": lambda chance: {"a": 1, "b": "x"},
}


def made_rows(streams: dict[str, Stream], seed: int, count: int) -> Rows:
    chance = random.Random(seed)

    def value(kind: str) -> object:
        if kind.startswith("timestamp"):
            return datetime(1970, 1, 1, 0, 30, chance.randrange(3), tzinfo=None)
        return None if chance.random() < 0.15 else VALUES[kind](chance)

    return {
        stream.name: pa.table(
            {
                column.name: pa.array([value(column.type) for _ in range(count)], column.arrow)
                for column in stream.columns
            }
        )
        for stream in streams.values()
    }


class Pair:
    """Both ways to compute windows, over the same rows."""

    def __init__(self, spark: Any, streams: dict[str, Stream]) -> None:
        self._session = spark.newSession()
        for name, value in SETTINGS.items():
            self._session.conf.set(f"spark.sql.{name}", value)
        self._streams = streams
        self.rows: Rows = {}

    def use(self, rows: Rows) -> None:
        self.rows = rows
        for stream in self._streams.values():
            fields = [
                pa.field(column.name, pa.timestamp("us", "UTC") if column.type == "timestamp" else column.arrow)
                for column in stream.columns
            ]
            frame = self._session.createDataFrame(rows[stream.name].cast(pa.schema(fields))).coalesce(1)
            frame.createOrReplaceTempView(f"rows_of_{stream.name}")

    def by_spark(self, form: WindowSql) -> list[tuple[object, ...]]:
        found = self._session.sql(form.text, {"window_start": WINDOW[0], "window_end": WINDOW[1]}).toArrow()
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def by_task(self, form: TaskSql) -> list[tuple[object, ...]]:
        bounds = WindowBounds(lambda: 0.0, 1.0, Path("nowhere"), "q", 0.0, {})
        views = {view.name: self.rows[view.stream].select(list(view.columns)) for view in form.views}
        views = {
            name: table if table.column_names else pa.table({"": pa.nulls(self.rows[name[8:]].num_rows)})
            for name, table in views.items()
        }
        listed: list[tuple[object, ...]] = []
        for table in results(form, views, WINDOW, bounds, 0):
            listed += zip(*(column.to_pylist() for column in table.columns), strict=True)
        return listed


def comparable(row: tuple[Any, ...]) -> tuple[object, ...]:
    """NaN as a value, doubles without the last digits, which depend on the order of rows, and times as naive UTC."""

    def value(each: Any) -> object:
        if isinstance(each, float):
            return "NaN" if math.isnan(each) else float(f"{each:.9e}")
        if isinstance(each, datetime) and each.tzinfo:
            return each.astimezone(UTC).replace(tzinfo=None)
        return each

    return tuple(map(value, row))


def forms(query: Query) -> tuple[TaskSql, WindowSql] | None:
    by_kind = {form.kind: form for form in query.forms or (query.form,)}
    if "task" not in by_kind:
        return None
    task, spark = by_kind["task"], by_kind["batch"]
    assert isinstance(task, TaskSql)
    assert isinstance(spark, WindowSql)
    return task, spark


def differences(sql: str, query: Build, pair: Pair, kinds: Counter[str]) -> str:
    """What differs between the two ways, if something does."""
    try:
        built = query(sql)
    except SqlError:
        kinds["rejected"] += 1
        return ""
    found = forms(built)
    if found is None:
        kinds[built.form.kind] += 1
        return ""
    try:
        mine = Counter(map(comparable, pair.by_task(found[0])))
    except Exception as problem:
        return f"{sql}\n  {problem}\n  {found[0].text}"
    try:
        expected = Counter(map(comparable, pair.by_spark(found[1])))
    except Exception as problem:  # of a value: the query would be suspended
        kinds["raises in Spark"] += 1
        return "" if "[CAST_INVALID_INPUT]" in str(problem) else f"{sql}\n  {str(problem)[:300]}"
    kinds["compared"] += 1
    if mine == expected:
        return ""
    here, there = (list(some.items())[:3] for some in (mine - expected, expected - mine))
    return f"{sql}\n  here {here}, in Spark {there}\n  {found[0].text}"


@pytest.fixture(scope="module")
def pair(spark: Any, streams: dict[str, Stream]) -> Pair:
    return Pair(spark, streams)


@pytest.mark.parametrize("count", [12, 0])
def test_accepted_queries(count: int, query: Build, pair: Pair, streams: dict[str, Stream]) -> None:
    pair.use(made_rows(streams, 1, count))
    kinds = Counter[str]()
    wrong = [found for sql in QUERIES if (found := differences(sql, query, pair, kinds))]
    assert not wrong, "\n".join(wrong)
    assert kinds["compared"] > 25, kinds


CATEGORIES = "(SELECT a.category FROM auctions {w} a)"
COMPARED = (
    "SELECT b.kind AS k, count(*) OVER (PARTITION BY (SELECT max(a.id) FROM auctions {w} a)) AS c FROM bids {w} b",
    "SELECT rank() OVER (ORDER BY b.n) AS r, (SELECT count(*) FROM auctions {w} a) AS c FROM bids {w} b",
    "SELECT rank() OVER (ORDER BY b.n) AS r, EXISTS (SELECT max(a.id) FROM auctions {w} a WHERE a.category = b.n "
    "HAVING count(*) > 1) AS c FROM bids {w} b",
    "SELECT b.kind AS k, rank() OVER (ORDER BY max(b.d)) AS r, max(b.n) + sum(b.small) AS m FROM bids {w} b "
    "GROUP BY b.kind HAVING count(b.n) > 1",
    "SELECT b.ok AS k, upper(b.kind) AS u, sum(sum(b.small)) OVER () AS t, rank() OVER (PARTITION BY upper(b.kind) "
    "ORDER BY sum(b.small)) AS r FROM bids {w} b GROUP BY b.ok, upper(b.kind)",
    f"SELECT b.n AS n FROM bids {{w}} b WHERE NOT (b.ok AND b.n IN {CATEGORIES})",
    f"SELECT b.n AS n FROM bids {{w}} b WHERE NOT (b.ok OR (NOT b.n IN {CATEGORIES}))",
    f"SELECT b.n AS n FROM bids {{w}} b WHERE b.ok OR b.n NOT IN {CATEGORIES}",
)


def test_subqueries_among_others(query: Build, pair: Pair, streams: dict[str, Stream]) -> None:
    pair.use(made_rows(streams, 3, 30))
    kinds = Counter[str]()
    assert not [found for sql in COMPARED if (found := differences(sql, query, pair, kinds))]
    assert kinds == {"compared": len(COMPARED)}


def test_in_as_a_value_is_never_null_in_spark(query: Build, pair: Pair, streams: dict[str, Stream]) -> None:
    pair.use(made_rows(streams, 3, 30))
    for value in (f"b.n IN {CATEGORIES}", f"b.n NOT IN {CATEGORIES}"):
        built = query(f"SELECT {value} AS v FROM bids {{w}} b")
        assert isinstance(built.form, WindowSql) and not any(row == (None,) for row in pair.by_spark(built.form))
        for where in (f"({value}) IS NULL", f"CASE WHEN b.ok THEN {value} END", f"({value}) = b.ok"):
            assert query(f"SELECT b.n AS n FROM bids {{w}} b WHERE {where}").form.kind == WindowSql.kind
    assert None in pair.rows["auctions"].column("category").to_pylist()


def compared(query: Build, pair: Pair, streams: dict[str, Stream], each: int) -> None:
    """So many queries, over rows of several sizes."""
    kinds, wrong = Counter[str](), []
    for at, count in enumerate((12, 40, 1)):
        pair.use(made_rows(streams, SEED + at, count))
        for number in range(each):
            found = differences(Relational((SEED + at) * 100_000 + number).query(), query, pair, kinds)
            if found:
                wrong.append(found)
    assert not wrong, f"{len(wrong)} of {kinds}\n" + "\n".join(wrong[:10])
    assert kinds["compared"] > each, kinds


def test_random_queries(query: Build, pair: Pair, streams: dict[str, Stream]) -> None:
    compared(query, pair, streams, 20)
