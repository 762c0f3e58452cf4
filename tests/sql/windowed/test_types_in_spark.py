"""Names and types of outputs are those that Spark gives to the same text, and Spark accepts every text."""

from __future__ import annotations

import os
import re
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.semantics.examples import AGGREGATE_ENTRIES
from tests.sql.windowed.conftest import Build
from tests.sql.windowed.random_queries import Generator
from tests.sql.windowed.test_workloads import CLASSES, FOLDER
from tests.support.declarations import streams_of
from tests.support.window_sql import as_window_sql
from watersmeet.errors import SqlError
from watersmeet.model import Stream
from watersmeet.sql import build_query

QUERIES = [
    text.strip().replace("\n  ", " ")
    for text in re.sub("^--.*", "", (Path(__file__).parent / "accepted.sql").read_text()).split(";\n")
    if text.strip()
]
RANDOM = 100
COLUMNS = (
    "price",
    "amount",
    "share",
    "kind",
    "d",
    "f",
    "n",
    "small",
    "ok",
    "day",
    "at",
    "ntz",
    "arr",
    "m",
    "st",
    "long",
)


@pytest.fixture(scope="module")
def session(spark: Any, streams: dict[str, Stream]) -> Any:
    return _over_empty_views(spark, streams)


def _over_empty_views(spark: Any, streams: dict[str, Stream]) -> Any:
    made = spark.newSession()
    made.conf.set("spark.sql.ansi.enabled", "true")
    made.conf.set("spark.sql.session.timeZone", "UTC")
    for stream in streams.values():
        columns = ", ".join(f"`{column.name}` {column.type}" for column in stream.columns)
        made.createDataFrame([], columns).createOrReplaceTempView(f"rows_of_{stream.name}")
    return made


def _schema(session: Any, text: str) -> list[tuple[str, str]]:
    found = session.sql(text, {"window_start": 0, "window_end": 3_600_000_000})
    return [(field.name, field.dataType.simpleString()) for field in found.schema]


@pytest.mark.parametrize("sql", QUERIES)
def test_queries(sql: str, query: Build, session: Any, streams: dict[str, Stream]) -> None:
    built = query(sql)
    text = as_window_sql(built, streams).text
    assert _schema(session, text) == [(output.name, output.type) for output in built.outputs]
    planned = session.sql(text, {"window_start": 0, "window_end": 1})._jdf.queryExecution().executedPlan()
    assert planned is not None


def test_every_aggregate_of_every_type(query: Build, session: Any, streams: dict[str, Stream]) -> None:
    """What is accepted has Spark's type. What Spark rejects is rejected here, too."""
    wrong, accepted = [], 0
    for entry in AGGREGATE_ENTRIES:
        for example, column in product(entry.examples, COLUMNS):
            for name in entry.names:
                called = example.replace(entry.names[0] + "(", name + "(", 1)
                called = (
                    called.replace("x > 0", column).replace("x", column).replace(f"ma{column}", "max").replace("y", "n")
                )
                called = called.replace(f"ma{column}_by", "max_by").replace(f"appro{column}", "approx")
                try:
                    built = query(f"SELECT {called} AS v FROM bids {{w}}")
                except SqlError:
                    continue
                accepted += 1
                found = _schema(session, as_window_sql(built, streams).text)
                if found != [("v", built.outputs[0].type)]:
                    wrong.append(f"{called}: {built.outputs[0].type} here, {found} in Spark")
    assert not wrong, "\n".join(wrong)
    assert accepted > 200


def test_random_queries(query: Build, session: Any, streams: dict[str, Stream]) -> None:
    """`SEMANTICS_SEED` chooses others."""
    seed = int(os.environ.get("SEMANTICS_SEED", "15"))
    wrong, kinds = [], Counter[str]()
    for number in range(RANDOM):
        sql = Generator(seed * 10_000 + number).query()
        try:
            built = query(sql)
        except SqlError as error:
            kinds["rejected"] += 1
            if not error.hint and not error.detail:
                wrong.append(f"{sql}\n  is rejected without a hint: {error.problem}")
            continue
        kinds[built.form.kind] += 1
        try:
            found = _schema(session, as_window_sql(built, streams).text)
        except Exception as error:
            wrong.append(f"{sql}\n  {str(error).partition('JVM')[0][:300]}")
            continue
        mine = [(output.name, output.type) for output in built.outputs]
        if found != mine:
            wrong.append(f"{sql}\n  {mine} here, {found} in Spark")
    assert not wrong, "\n".join(wrong[:10])
    assert kinds["rejected"] < RANDOM / 3, kinds
    assert min(kinds["slices"], kinds["task"]) > 0, kinds


@pytest.mark.parametrize("workload", CLASSES)
def test_workloads(workload: str, spark: Any) -> None:
    streams = streams_of((FOLDER / workload / "streams.sql").read_text())
    session = _over_empty_views(spark, streams)
    for name in CLASSES[workload]:
        built = build_query(name, (FOLDER / workload / f"{name}.sql").read_text(), streams)
        assert built.is_windowed
        text = as_window_sql(built, streams).text
        assert _schema(session, text) == [(output.name, output.type) for output in built.outputs], name
