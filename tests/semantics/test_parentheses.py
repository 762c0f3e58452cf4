"""Queries with parentheses everywhere give what Spark gives for the same text, and what Spark rejects is rejected here.

Windowed and relational queries: the text that is given to Spark for a window, or the partial aggregates as the model
says them, over the rows of one window. Continuous joins: the engine's own tick loop over rows that lie in one window.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.semantics.correlated import correlated_queries
from tests.semantics.parenthesized import ROWS, STREAMS, ContinuousGenerator, Generator
from tests.sql.windowed.model_answers import answers
from tests.support.cases import Case, QueryCase, StreamCase
from tests.support.in_process import InProcess
from tests.support.parquet_input import EPOCH, TIMESTAMP
from watersmeet.errors import SqlError
from watersmeet.io.sinks import result_folder
from watersmeet.model import Query, Stream
from watersmeet.model.forms import WindowSql
from watersmeet.sql import build_query

TOGETHER = 20  # queries in a job of Spark
LAST = 999  # the id of rows long after all others, which decide what is missing
Rows = Counter[tuple[Any, ...]]


def stream_cases() -> tuple[StreamCase, ...]:
    found = []
    for name, columns in STREAMS.items():
        rows = [*ROWS[name], (LAST, None, None)]
        times = [EPOCH + dt.timedelta(seconds=at) for at in range(len(ROWS[name]))]
        data = {"ts": pa.array([*times, EPOCH + dt.timedelta(days=30)], TIMESTAMP)}
        for at, column in enumerate(columns):
            data[column] = pa.array([row[at] for row in rows], pa.int64() if column == "id" else pa.int32())
        declared = tuple((column, "INT") for column in columns if column != "id")
        found.append(StreamCase(name, declared, 0, pa.table(data), (len(ROWS[name]),)))
    return tuple(found)


@pytest.fixture(scope="module")
def streams() -> dict[str, Stream]:
    from tests.support.declarations import streams_of  # noqa: PLC0415

    return streams_of("".join(stream.reading("nowhere") for stream in stream_cases()))


class SparkSide:
    def __init__(self, session: Any) -> None:
        self._session = session = session.newSession()
        settings = {
            **{"sql.ansi.enabled": "true", "sql.session.timeZone": "UTC", "sql.shuffle.partitions": "1"},
            **{
                "sql.adaptive.enabled": "false",
                "sql.codegen.wholeStage": "false",
                "sql.codegen.factoryMode": "NO_CODEGEN",
            },
        }
        for name, value in settings.items():
            session.conf.set(f"spark.{name}", value)
        for name, columns in STREAMS.items():
            listed = ", ".join(
                f"(TIMESTAMP '2026-01-01', {', '.join('NULL' if value is None else str(value) for value in row)})"
                for row in ROWS[name]
            )
            typed = ", ".join(
                f"CAST({column} AS {'BIGINT' if column == 'id' else 'INT'}) AS {column}" for column in columns
            )
            for view in (name, f"rows_of_{name}"):
                text = f"SELECT ts, {typed} FROM VALUES {listed} AS v(ts, {', '.join(columns)})"
                session.sql(text).createOrReplaceTempView(view)

    def results(self, texts: Sequence[str]) -> list[Rows | None]:
        """What each gives; None where Spark rejects it."""
        parts = [texts[begin : begin + TOGETHER] for begin in range(0, len(texts), TOGETHER)]
        return [rows for part in parts for rows in self._together(part)]

    def columns(self, text: str) -> list[str]:
        return list(self._session.sql(text).columns)

    def _together(self, texts: Sequence[str]) -> list[Rows | None]:
        """In one job; those that are rejected, by the parser, the analyzer or the optimizer, are found by halves."""
        from py4j.protocol import Py4JJavaError  # noqa: PLC0415
        from pyspark.errors import PySparkException  # noqa: PLC0415

        packed = "to_json(struct(*), map('ignoreNullFields', 'false'))"
        whole = " UNION ALL ".join(f"SELECT {at} AS q, {packed} AS v FROM ({text}) z" for at, text in enumerate(texts))
        found: list[Rows | None] = [Counter() for _ in texts]
        try:
            ends = {"window_start": 0, "window_end": 1} if ":window" in whole else None
            for number, values in self._session.sql(whole, ends).collect():
                rows = found[number]
                assert rows is not None
                rows[_numbers(json.loads(values).values())] += 1
        except (PySparkException, Py4JJavaError):  # the second: an internal error of Spark while it computes
            half = len(texts) // 2
            return self._together(texts[:half]) + self._together(texts[half:]) if half else [None]
        return found


def _numbers(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(None if value is None else int(value) for value in values)


@pytest.fixture(scope="module")
def on_spark(spark: Any) -> SparkSide:
    return SparkSide(spark)


def _built(texts: list[str], window: str, streams: dict[str, Stream]) -> dict[str, Query]:
    """The queries that are accepted, by text."""
    found = {}
    for at, text in enumerate(texts):
        try:
            found[text] = build_query(f"q{at}", f"{text} {window}", streams)
        except SqlError:
            continue
    return found


def _differences(found: dict[str, Rows | None], wanted: dict[str, Rows | None]) -> list[str]:
    wrong = []
    for text, rows in found.items():
        theirs = wanted[text]
        if theirs is None:
            wrong.append(f"accepted here, and rejected by Spark: {text}")
        elif rows is None:
            wrong.append(f"Spark rejects what is written for it: {text}")
        elif rows != theirs:
            more, less = (sorted(each.items(), key=str)[:3] for each in (rows - theirs, theirs - rows))
            wrong.append(f"{text}: {more} too many, {less} missing")
    return wrong


def windowed_differences(on_spark: SparkSide, streams: dict[str, Stream], texts: list[str]) -> tuple[int, list[str]]:
    """How many queries were accepted and compared, and what differs."""
    built = _built(texts, "WINDOW TUMBLE 1 DAY", streams)
    rows = {case.name: case.rows.slice(0, len(ROWS[case.name])) for case in stream_cases()}
    found: dict[str, Rows | None] = {}
    given: dict[str, str] = {}
    for text, query in built.items():
        assert query.is_windowed
        form = query.forms[-1] if query.forms else query.form
        if isinstance(form, WindowSql):
            given[text] = form.text
        else:
            found[text] = Counter(_numbers(row) for row in answers(query, rows, 0))
    found |= dict(zip(given, on_spark.results(list(given.values())), strict=True))
    return len(found), _differences(found, dict(zip(built, on_spark.results(list(built)), strict=True)))


def continuous_differences(
    on_spark: SparkSide, streams: dict[str, Stream], texts: list[str], home: Path
) -> tuple[int, list[str]]:
    built = _built(texts, "WINDOW 1 DAY", streams)
    queries = tuple(QueryCase(built[text].name, f"{text} WINDOW 1 DAY", "") for text in built)
    engine = InProcess(home, Case(stream_cases(), queries, 1, frozenset(), 1))
    engine.run()
    found: dict[str, Rows | None] = {}
    for text, query in zip(built, engine.queries, strict=True):
        files = sorted(result_folder(home, query.name, query.sink).glob("*.parquet"))
        rows = [tuple(row.values()) for file in files for row in pq.read_table(file).to_pylist()]
        found[text] = Counter(_numbers(row) for row in rows if LAST not in row)
    return len(found), _differences(found, dict(zip(built, on_spark.results(list(built)), strict=True)))


def _texts_of(make: Callable[[int], str], seeds: Iterable[int]) -> list[str]:
    return list(dict.fromkeys(make(seed) for seed in seeds))


def _query(seed: int) -> str:
    return Generator(seed).query(depth=2 if seed % 4 == 0 else 1)


def _continuous(seed: int) -> str:
    return ContinuousGenerator(seed).continuous()


# The forms in which a join's kind and its condition were once lost.
RIGHT_SIDES = (
    "r",
    "(r)",
    "((r))",
    "(r JOIN m ON r.b = m.c)",
    "((r) LEFT JOIN (m) ON r.b = m.c)",
    "(SELECT * FROM r) r",
    "(WITH q AS (SELECT * FROM r) SELECT * FROM q) r",
    "((WITH q AS (SELECT * FROM r) SELECT * FROM q)) AS r",
)
KINDS = (
    "JOIN",
    "INNER JOIN",
    "LEFT JOIN",
    "RIGHT OUTER JOIN",
    "FULL JOIN",
    "LEFT SEMI JOIN",
    "ANTI JOIN",
    "CROSS JOIN",
)


def forms() -> list[str]:
    found = []
    for left in ("l", "(l)", "(l CROSS JOIN m AS x)", "m AS x, l"):
        for kind in KINDS:
            for right in RIGHT_SIDES:
                for selected in ("l.a AS v", "count(*) AS v", "l.a AS v, count(*) AS n"):
                    group = " GROUP BY l.a" if "n" in selected.split() else ""
                    found.append(f"SELECT {selected} FROM {left} {kind} {right} ON l.a = r.b{group}")
        for right in RIGHT_SIDES:
            joins = (
                f"NATURAL JOIN {right}",
                f"NATURAL FULL JOIN {right}",
                f"LEFT JOIN {right} USING (k)",
                f", {right}",
            )
            found += [f"SELECT count(*) AS v FROM {left} {join}" for join in joins]
    return found


def test_every_form_of_a_join_is_what_it_is_in_spark(on_spark: SparkSide, streams: dict[str, Stream]) -> None:
    texts = [text for at, text in enumerate(forms()) if at % 61 == 0]
    compared, wrong = windowed_differences(on_spark, streams, texts)
    assert wrong == []
    assert compared > 0.9 * len(texts)


def test_a_sample_of_windowed_queries(on_spark: SparkSide, streams: dict[str, Stream]) -> None:
    compared, wrong = windowed_differences(on_spark, streams, _texts_of(_query, range(12)))
    assert wrong == []
    assert compared > 8


def test_a_sample_of_continuous_queries(on_spark: SparkSide, streams: dict[str, Stream], tmp_path: Path) -> None:
    compared, wrong = continuous_differences(on_spark, streams, _texts_of(_continuous, range(16)), tmp_path)
    assert wrong == []
    assert compared > 10


def test_a_sample_of_correlated_subqueries(on_spark: SparkSide, streams: dict[str, Stream]) -> None:
    _, wrong = windowed_differences(on_spark, streams, correlated_queries()[::1009])
    assert wrong == []


# With the number of columns that each has in Spark.
STARS = (
    ("* FROM l JOIN r USING (id)", 7),
    ("* FROM l LEFT JOIN r USING (k, id)", 6),
    ("* FROM l JOIN r USING (k, id) JOIN m USING (id)", 9),
    ("* FROM l RIGHT JOIN r USING (k)", 7),
    ("* FROM l FULL JOIN r USING (k)", 7),
    ("* FROM l SEMI JOIN r USING (k)", 4),
    ("* FROM l ANTI JOIN r USING (k, id)", 4),
    ("* FROM (l JOIN r USING (k)) JOIN (m JOIN r AS x USING (k)) ON l.a = m.c", 14),
    ("* FROM m JOIN (l JOIN r USING (id)) ON l.a = m.c", 11),
    ("* FROM l NATURAL JOIN (SELECT k, c, id FROM m) m", 5),
    ("l.*, r.* FROM l JOIN r USING (k)", 8),
    ("l.*, r.* FROM l RIGHT JOIN r USING (k, id)", 8),
    ("r.*, l.* FROM l FULL JOIN r USING (k)", 8),
    ("m.*, r.*, l.* FROM l JOIN r USING (id, k) JOIN m USING (k)", 12),
)


def test_stars_have_the_columns_of_spark_in_its_order(on_spark: SparkSide, streams: dict[str, Stream]) -> None:
    """By position. Event times, which no other value is, are -1."""
    texts = []
    for selected, width in STARS:
        names = [f"p{at}" for at in range(width)]
        values = ", ".join(f"coalesce(TRY_CAST(CAST({name} AS STRING) AS INT), -1) AS {name}" for name in names)
        texts.append(f"SELECT {values} FROM (SELECT {selected}) AS z ({', '.join(names)})")
    compared, wrong = windowed_differences(on_spark, streams, texts)
    assert wrong == []
    assert compared == len(STARS)


def test_stars_of_continuous_joins(on_spark: SparkSide, streams: dict[str, Stream]) -> None:
    names = ("l", "SELECT l.ts AS lt, l.id, l.a, l.k FROM l"), ("r", "SELECT r.ts AS rt, r.id, r.b, r.k FROM r")
    for kind in ("JOIN", "LEFT JOIN", "RIGHT JOIN", "SEMI JOIN"):
        for selected in ("*", "l.*"):
            text = f"SELECT {selected} FROM l {kind} r USING (k, id)"
            query = build_query("q", f"{text} WINDOW 1 DAY", streams)
            given = " ".join(["WITH", ", ".join(f"{name} AS ({of})" for name, of in names), text])
            wanted = ["ts" if name in ("lt", "rt") else name for name in on_spark.columns(given)]
            assert [output.name.removeprefix("l_").removeprefix("r_") for output in query.outputs] == wanted, text


def _all_windowed() -> dict[str, list[str]]:
    return {
        "forms of joins": forms(),
        "windowed and relational queries": _texts_of(_query, range(2_200)),
        "correlated subqueries": correlated_queries()[::7],
    }


@pytest.mark.semantics
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("what", ["forms of joins", "windowed and relational queries", "correlated subqueries"])
def test_all_windowed_queries(on_spark: SparkSide, streams: dict[str, Stream], what: str, part: int) -> None:
    texts = _all_windowed()[what][part::10]
    compared, wrong = windowed_differences(on_spark, streams, texts)
    print(f"{what}, part {part}: {len(texts)} generated, {compared} accepted and compared, {len(wrong)} differ")
    assert wrong == []


@pytest.mark.semantics
@pytest.mark.parametrize("part", range(12))
def test_all_continuous_queries(on_spark: SparkSide, streams: dict[str, Stream], tmp_path: Path, part: int) -> None:
    texts = _texts_of(_continuous, range(part * 100, part * 100 + 100))
    compared, wrong = continuous_differences(on_spark, streams, texts, tmp_path)
    print(f"continuous queries, part {part}: {len(texts)} generated, {compared} compared, {len(wrong)} differ")
    assert wrong == []
