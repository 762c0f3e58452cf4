"""Partial aggregates and the last step give what Spark's batch gives: one window, computed straight from the model."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.sql.windowed.conftest import Build
from tests.sql.windowed.model_answers import answers
from tests.support.window_sql import as_window_sql
from watersmeet.model import Stream
from watersmeet.model.forms import WindowSql

ROWS = 300
QUERIES = [
    "SELECT kind, count(*) AS c, count(n) AS m, sum(n) AS s, sum(price) AS p, avg(n) AS a FROM bids {w} GROUP BY kind",
    "SELECT sum(amount) AS s, avg(amount) AS a, avg(share) AS b, min(amount) AS l, max(kind) AS h FROM bids {w}",
    "SELECT n, avg(amount) AS a, avg(share) AS b FROM bids {w} GROUP BY n",
    "SELECT kind, stddev(d) AS a, stddev_pop(n) AS b, variance(amount) AS c, var_pop(small) AS e FROM bids {w}"
    " GROUP BY 1",
    "SELECT count_if(ok) AS a, bool_and(ok) AS b, any(ok) AS c, sum(n) FILTER (WHERE NOT ok) AS e FROM bids {w}",
    "SELECT n % 3 AS k, sum(CASE WHEN ok THEN amount * (1 - share) ELSE 0 END) AS s FROM bids {w} GROUP BY n % 3",
    "SELECT kind, sum(n) AS s FROM bids {w} GROUP BY kind HAVING count(*) > 50 AND max(n) > 3 ORDER BY s DESC LIMIT 2",
    "SELECT DISTINCT upper(kind) AS k, ok FROM bids {w} WHERE n > 2",
    "SELECT kind, count(DISTINCT n) AS a, sum(DISTINCT n) AS b, avg(DISTINCT amount) AS c, count(*) AS e,"
    " sum(DISTINCT d) AS f, max(DISTINCT price) AS g FROM bids {w} GROUP BY kind",
    "SELECT count(DISTINCT kind, n) AS a, count(DISTINCT kind) FILTER (WHERE n > 2) AS b, sum(DISTINCT amount) AS c,"
    " count(DISTINCT day) AS e, count(DISTINCT ok) AS f, avg(DISTINCT n) FILTER (WHERE ok) AS g FROM bids {w}",
    "SELECT ok, count(DISTINCT kind) + count(DISTINCT n) AS a FROM bids {w} WHERE price > 3 GROUP BY ok"
    " HAVING count(DISTINCT n) > 1 ORDER BY a LIMIT 2",
    "SELECT count(DISTINCT n) AS a, sum(DISTINCT n) AS b FROM bids {w} WHERE n > 1000",
    "SELECT count(*) AS n, max(price) AS m FROM bids {w} WHERE n > 1000",
    "SELECT max(price) AS m FROM bids {w} WHERE n > 1000 GROUP BY window_start",
    "SELECT d * 0 AS z, count(*) AS n FROM bids {w} GROUP BY d * 0",
    "SELECT kind, sum(10 div n) AS s, sum(amount / 2e0) AS h FROM bids {w} GROUP BY kind",
    "SELECT window_start, window_end, date_format(window_start, 'HH:mm') AS t, max(day) AS d FROM bids {w}",
    "SELECT a.category, count(*) AS n, sum(b.price) AS s, avg(b.amount) AS m, max(a.name) AS x FROM bids {w} b"
    " JOIN auctions {w} a ON b.auction = a.id WHERE b.n > 1 GROUP BY a.category",
    "SELECT sum(b.amount * a.fee) AS s, count(b.n) FILTER (WHERE a.category = 1 AND b.n > 1) AS c, min(b.kind) AS k"
    " FROM bids {w} b, auctions {w} a WHERE b.auction = a.id",
    "SELECT kind, sum(amount) / count(*) AS p, sum(amount) / sum(share) AS q, sum(n) / sum(share) AS r,"
    " avg(amount) / avg(share) AS s, 100.0 * sum(share) / sum(amount) AS t FROM bids {w} GROUP BY kind",
    "SELECT a.category, sum(b.amount * (1 - b.share) - a.fee * b.share + a.fee) AS s, sum(a.fee * b.d) AS t,"
    " sum(CASE WHEN a.category = 1 AND b.ok THEN b.amount * a.fee ELSE 0 END) AS u,"
    " sum(CASE WHEN a.name > 'b' THEN b.n ELSE 0 END) / sum(b.share) AS v, sum(CASE WHEN b.ok THEN a.fee END) AS w"
    " FROM bids {w} b JOIN auctions {w} a ON b.auction = a.id GROUP BY a.category",
    "SELECT p.city, b.kind, count(*) AS n, sum(a.fee) AS f FROM bids {w} b, auctions {w} a, persons {w} p"
    " WHERE b.auction = a.id AND a.seller = p.id GROUP BY p.city, b.kind ORDER BY n DESC, f LIMIT 3",
    "SELECT count(*) AS n, sum(b.fee) AS s FROM auctions {w} a, auctions {w} b, persons {w} p"
    " WHERE a.seller = b.seller AND b.seller = p.id AND p.id = a.seller",
]


def _maybe(chance: random.Random, value: Any) -> Any:
    return None if chance.random() < 0.15 else value


@pytest.fixture(scope="module")
def rows(streams: dict[str, Stream]) -> dict[str, pa.Table]:
    chance = random.Random(15)
    made: dict[str, Any] = {
        "bigint": lambda: chance.randrange(1, 9),
        "int": lambda: chance.randrange(-3, 6),
        "smallint": lambda: chance.randrange(-99, 99),
        "string": lambda: chance.choice(["a", "b", "Zoë", "", "long one"]),
        "double": lambda: chance.randrange(-1000, 1000) / 8,
        "float": lambda: chance.randrange(-1000, 1000) / 8,
        "boolean": lambda: chance.random() < 0.5,
        "date": lambda: date(2024, 2, 1) + timedelta(chance.randrange(60)),
        "decimal(12,2)": lambda: Decimal(chance.randrange(-(10**11), 10**11)).scaleb(-2),
        "decimal(4,2)": lambda: Decimal(chance.randrange(-9999, 9999)).scaleb(-2),
        "decimal(10,4)": lambda: Decimal(chance.randrange(-(10**9), 10**9)).scaleb(-4),
        "decimal(38,10)": lambda: Decimal(chance.randrange(10**20)).scaleb(-10),
        "array<int>": lambda: [1, 2],
        "map<string,int>": lambda: [("x", 1)],
        "struct<a:int,b:string>": lambda: {"a": 1, "b": "x"},
    }
    tables = {}
    for stream in streams.values():
        columns = {}
        for column in stream.columns:
            moment = datetime(1970, 1, 1, 0, 30, tzinfo=None if column.type == "timestamp_ntz" else UTC)
            values = [
                moment if column.type.startswith("timestamp") else _maybe(chance, made[column.type]())
                for _ in range(ROWS)
            ]
            columns[column.name] = pa.array(
                [v.replace(tzinfo=None) if isinstance(v, datetime) else v for v in values], column.arrow
            )
        tables[stream.name] = pa.table(columns)
    return tables


@pytest.fixture(scope="module")
def session(spark: Any, streams: dict[str, Stream], rows: dict[str, pa.Table]) -> Any:
    made = spark.newSession()
    for name, value in {"ansi.enabled": "true", "session.timeZone": "UTC", "shuffle.partitions": "2"}.items():
        made.conf.set(f"spark.sql.{name}", value)
    for stream in streams.values():
        zoned = pa.schema(
            [
                pa.field(column.name, pa.timestamp("us", "UTC") if column.type == "timestamp" else column.arrow)
                for column in stream.columns
            ]
        )
        made.createDataFrame(rows[stream.name].cast(zoned)).coalesce(1).createOrReplaceTempView(
            f"rows_of_{stream.name}"
        )
    return made


def _comparable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """With doubles rounded, whose last digit depends on the order of rows, and times as naive UTC."""
    cut = [float(f"{value:.9e}") if isinstance(value, float) else value for value in row]
    return tuple(value.replace(tzinfo=None) if isinstance(value, datetime) else value for value in cut)


def test_what_raises_in_spark_is_null(query: Build, session: Any) -> None:
    """Of each row, so that one bad row does not stop a window."""
    outputs = "n / 0 AS a, n % 0 AS b, n div 0 AS c, CAST('x' AS INT) AS e, arr[7] AS f, element_at(arr, 9) AS g"
    more = "price * 9223372036854775807 AS h, kind > 5 AS i, kind = day AS j, CAST(300 + n AS TINYINT) AS k"
    built = query(f"SELECT {outputs}, {more} FROM bids {{w}} WHERE n > 0 AND price > 1 AND kind > ''")
    assert isinstance(built.form, WindowSql)
    rows = session.sql(built.form.text, {"window_start": 0, "window_end": 1}).collect()
    assert rows
    assert {value for row in rows for value in row} == {None}
    total = query("SELECT sum(9223372036854775807 + n - n) AS s, median(n) AS c FROM bids {w} WHERE n > 0")
    assert isinstance(total.form, WindowSql)
    (row,) = session.sql(total.form.text, {"window_start": 0, "window_end": 1}).collect()
    assert row[0] is None


def test_literals_reach_spark_as_they_are(query: Build, session: Any) -> None:
    texts = ["it's", "a\\b", "${spark.master} $1", ":window_start", "`--/*", "é\n\t", '"']
    listed = ", ".join(
        f"'{text.replace(chr(92), chr(92) * 2).replace(chr(39), chr(92) + chr(39))}' AS c{at}"
        for at, text in enumerate(texts)
    )
    built = query(f"SELECT {listed}, median(n) AS n FROM bids {{w}}")
    assert isinstance(built.form, WindowSql)
    (row,) = session.sql(built.form.text, {"window_start": 0, "window_end": 1}).collect()
    assert list(row)[:-1] == texts


@pytest.mark.parametrize("sql", QUERIES)
def test_as_in_spark(
    sql: str, query: Build, streams: dict[str, Stream], rows: dict[str, pa.Table], session: Any
) -> None:
    built = query(sql)
    assert built.form.kind in ("slices", "factorized")
    found = session.sql(as_window_sql(built, streams).text, {"window_start": 0, "window_end": built.grid.range})
    expected = [tuple(row.values()) for row in found.toArrow().to_pylist()]
    mine = answers(built, rows, 0)
    assert Counter(map(_comparable, mine)) == Counter(map(_comparable, expected))
