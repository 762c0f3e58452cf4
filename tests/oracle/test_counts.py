"""INTO count against DuckDB's count: random queries, plans, filters, windows, ticks and restarts."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest import mock

import duckdb
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.answers import oracle_answers, stored_answers
from tests.support.cases import Case, cases
from tests.support.in_process import InProcess
from tests.support.plans import plans
from watersmeet.home import layout
from watersmeet.model import Sink
from watersmeet.runtime.probe import counting


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


@given(st.data(), cases(thetas=(0, 0, 0, 2)))
@settings(max_examples=50)
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
@settings(max_examples=40)
def test_any_plan_counts_what_the_oracle_does(data: st.DataObject, case: Case) -> None:
    """Also where the last step probes a materialized store, and where the walk looks up after every row."""
    counted = {query.name for query in case.queries}
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(counting, "BUDGET", 0):
        engine = counting_engine(Path(folder), case, counted)
        for tick in range(case.ticks):
            if tick == 0 or data.draw(st.booleans()):
                engine.follow(data.draw(plans(engine.problem)))
            if tick in case.restarts or tick == 0:
                engine.restart()
            engine.tick(case.pieces(tick))
        check_counts(engine, counted)
