"""Aggregates over joins in windows give what DuckDB gives for the rows of each window, which makes the join."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.windowed.queries import continuous, declaration, one_stream, rows, two_streams
from tests.oracle.windowed.test_slices import POINTS
from tests.support.examples import examples
from tests.support.windowed import WindowedRun
from watersmeet.model.forms import FactorizedAggregates, JoinAggregates


@settings(max_examples=examples(10))
@given(st.randoms(use_true_random=False), st.sampled_from([1, 3]))
def test_random_joins_with_restarts_and_deaths(random: Random, partitions: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = WindowedRun(Path(folder) / "home", declaration(4, retained=True), partitions)
        run.add("of_one", one_stream(random))
        for at in range(random.randint(1, 3)):
            run.add(f"q{at}", two_streams(random))
            assert isinstance(run.lives[f"q{at}"].query.form, FactorizedAggregates)
        now = 0
        for number in range(random.randint(3, 7)):
            now += random.choice([0, 2, 6, 30])
            killed = random.choice(POINTS) if random.random() < 0.2 else ""
            arriving = {"r": rows(random, "r", now, 5), "t": rows(random, "t", now + random.choice([0, 8]), 5)}
            run.tick(arriving, killed)
            if number == 2:
                run.add("later", two_streams(random), backfill=random.random() < 0.5, addition="x")
        run.flush()
        run.check()


@settings(max_examples=examples(10))
@given(st.randoms(use_true_random=False), st.sampled_from([1, 3]))
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
