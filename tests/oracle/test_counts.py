"""INTO count against DuckDB's count: random queries, plans, filters, windows, ticks and restarts."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.answers import oracle_answers, stored_answers
from tests.support.cases import Case, QueryCase, StreamCase, cases
from tests.support.examples import examples
from tests.support.in_process import InProcess
from tests.support.parquet_input import seconds_after_epoch
from tests.support.plans import no_indexes, plans
from watersmeet.home import layout
from watersmeet.model import Sink
from watersmeet.runtime.probe import counting
from watersmeet.store.counting import count_products


def counting_engine(home: Path, case: Case, counted: set[str]) -> InProcess:
    """An engine whose queries of these names are INTO count."""
    engine = InProcess(home, case)
    engine.change([replace(query, sink=Sink("count")) if query.name in counted else query for query in engine.queries])
    return engine


def counts_in(home: Path) -> Counter[str]:
    files = list((home / layout.COUNTS).glob("*.parquet"))
    if not files:
        return Counter()
    read = duckdb.sql(f"SELECT query, sum(matches)::BIGINT FROM read_parquet('{home / layout.COUNTS}/*') GROUP BY ALL")
    return Counter(dict(read.fetchall() if read else ()))


def check_counts(engine: InProcess, counted: set[str]) -> None:
    expected = oracle_answers(engine.case)
    numbers = Counter({name: rows.total() for name, rows in expected.items()})
    assert counts_in(engine.home) == Counter({name: n for name, n in numbers.items() if name in counted and n})
    assert engine.manifest.totals.results == +numbers
    for name, rows in expected.items():
        if name not in counted:
            assert stored_answers(engine.home / "results" / name) == rows, name


@given(cases())
@settings(max_examples=examples(30))
def test_counts_without_indexes_are_the_oracles(case: Case) -> None:
    names = {query.name for query in case.queries}
    with no_indexes(), tempfile.TemporaryDirectory() as folder:
        engine = counting_engine(Path(folder), case, names)
        for tick in range(case.ticks):
            engine.tick(case.pieces(tick))
        check_counts(engine, names)


@given(st.data(), cases(thetas=(0, 0, 0, 2)))
@settings(max_examples=examples(50))
def test_counts_are_the_oracles(data: st.DataObject, case: Case) -> None:
    """All queries count, or some do, so that a step has ends of both kinds."""
    names = [query.name for query in case.queries]
    counted = set(data.draw(st.one_of(st.just(names), st.lists(st.sampled_from(names), unique=True))))
    with tempfile.TemporaryDirectory() as folder:
        engine = counting_engine(Path(folder), case, counted)
        engine.restart()
        engine.run()
        check_counts(engine, counted)


@given(st.data(), cases(max_queries=6, max_rows=20, max_ticks=6, thetas=(0, 0, 0, 2)))
@settings(max_examples=examples(40))
def test_any_plan_counts_what_the_oracle_does(data: st.DataObject, case: Case) -> None:
    """Also where the last step probes a materialized store, where short lists are multiplied, and where the walk looks
    up after every row."""
    counted = {query.name for query in case.queries}
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(counting, "BUDGET", 0),
        mock.patch.multiple(counting, SAMPLE=data.draw(st.sampled_from((1, 4))), MANY=0, LONG=0),
    ):
        engine = counting_engine(Path(folder), case, counted)
        for tick in range(case.ticks):
            if tick == 0 or data.draw(st.booleans()):
                engine.follow(data.draw(plans(engine.problem)))
            if tick in case.restarts or tick == 0:
                engine.restart()
            engine.tick(case.pieces(tick))
        check_counts(engine, counted)


def star(random: np.random.Generator, window: str) -> Case:
    """A row of s0 has some ten partners in s1 and in s2, by different keys."""
    streams = []
    for name in ("s0", "s1", "s2"):
        seconds = sorted(random.integers(0, 30, 60).tolist())
        data = {"ts": seconds_after_epoch(seconds), "id": np.arange(60), "k0": random.integers(0, 6, 60)}
        rows = pa.table({**data, "k1": random.integers(0, 6, 60), "v": random.integers(-3, 4, 60).astype(np.int32)})
        streams.append(StreamCase(name, (("k0", "BIGINT"), ("k1", "BIGINT"), ("v", "INT")), 0, rows, (20, 40)))
    queries = []
    for number, filters in enumerate(("", " AND a0.v > 0", " AND a1.v > -2 AND a2.v < 2", " AND a2.v <> 0")):
        tables, where = "s0 {0} a0, s1 {0} a1, s2 {0} a2", f"WHERE a0.k0 = a1.k0 AND a0.k1 = a2.k1{filters}"
        newest = "greatest(epoch_us(a0.ts), epoch_us(a1.ts), epoch_us(a2.ts))"
        near = [f"{newest} - epoch_us({alias}.ts) <= {window} * 1000000" for alias in ("a0", "a1", "a2") if window]
        bracket = f"[RANGE {window} SECONDS]" if window else "[UNBOUNDED]"
        sql = f"SELECT a0.id FROM {tables.format(bracket)} {where}"
        conditions = " AND ".join([where, *near])
        queries.append(QueryCase(f"q{number}", sql, f"SELECT a0.id FROM {tables.format('')} {conditions}"))
    return Case(tuple(streams), tuple(queries), 1, frozenset({1}), 2)


@pytest.mark.parametrize("window", ["", "25", "5"])
def test_lists_are_multiplied(tmp_path: Path, window: str) -> None:
    case = star(np.random.default_rng(3), window)
    counted = {query.name for query in case.queries}
    engine = counting_engine(tmp_path, case, counted)
    engine.restart()
    with (
        mock.patch.multiple(counting, SAMPLE=4, MANY=0, LONG=0),
        mock.patch.object(counting, "_count_products", wraps=count_products) as products,
    ):
        engine.run()
    assert products.called
    check_counts(engine, counted)
