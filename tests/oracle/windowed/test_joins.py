"""Aggregates over joins in windows give what DuckDB gives for the rows of each window, which makes the join."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.windowed.queries import continuous, declaration, one_stream, rows, two_streams
from tests.oracle.windowed.test_slices import POINTS, randoms
from tests.support.examples import examples
from tests.support.many_keys import FEW, MANY, SOME, as_many_keys
from tests.support.windowed import Asked, WindowedRun
from watersmeet.model.forms import FactorizedAggregates, JoinAggregates, PairAggregates
from watersmeet.sql import build_query

FACTORIZED, PAIRS = FactorizedAggregates.kind, PairAggregates.kind


@settings(max_examples=examples(10))
@given(randoms, st.sampled_from([1, 3]), st.sampled_from([FACTORIZED, PAIRS, ""]), st.sampled_from([FEW, SOME, MANY]))
def test_random_joins_with_restarts_and_deaths(random: Random, partitions: int, kind: str, keys: str) -> None:
    """In each form, and in the one that the planner chooses; also with another number of partitions later."""
    with tempfile.TemporaryDirectory() as folder, as_many_keys(keys):
        run = WindowedRun(Path(folder) / "home", declaration(4, retained=True), partitions)
        run.add("of_one", one_stream(random))
        for at in range(random.randint(1, 3)):
            asked = two_streams(random)
            run.add(f"q{at}", asked, kind=kind if kind in kinds_of(asked, run) else "")
        now = 0
        for number in range(random.randint(3, 7)):
            now += random.choice([0, 2, 6, 30])
            killed = random.choice(POINTS) if random.random() < 0.2 else ""
            arriving = {"r": rows(random, "r", now, 5), "t": rows(random, "t", now + random.choice([0, 8]), 5)}
            run.tick(arriving, killed)
            if number == 2:
                run.add("later", two_streams(random), backfill=random.random() < 0.5, addition="x")
            if random.random() < 0.15:
                run.partitions = random.randint(1, 4)
                run.restart()
        run.flush()
        run.check()


def kinds_of(asked: Asked, run: WindowedRun) -> list[str]:
    forms = build_query("q", asked.sql, run.streams).forms
    assert forms[0].kind == FACTORIZED
    return [form.kind for form in forms]


@settings(max_examples=examples(10))
@given(randoms, st.sampled_from([1, 3]))
def test_aggregates_of_continuous_joins(random: Random, partitions: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = WindowedRun(Path(folder) / "home", declaration(4), partitions)
        for at in range(random.randint(1, 3)):
            run.add(f"q{at}", continuous(random))
            assert isinstance(run.lives[f"q{at}"].query.form, JoinAggregates)
        now = 0
        for _ in range(random.randint(3, 7)):
            now += random.choice([0, 2, 6, 30])
            killed = random.choice(POINTS) if random.random() < 0.2 else ""
            run.tick({"r": rows(random, "r", now, 5), "t": rows(random, "t", now + random.choice([0, 3]), 5)}, killed)
        run.flush()
        run.check()
