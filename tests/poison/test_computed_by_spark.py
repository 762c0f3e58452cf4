"""A call that takes Spark for ever suspends the queries that have it; others, also by Spark, have their results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from tests.poison.test_on_spark import JOIN, PLAIN, fed
from tests.support.poisoned import VICTIM, Poisoned
from tests.support.waiting import eventually
from watersmeet.home.manifest import load_newest
from watersmeet.runtime.exec import limited_job
from watersmeet.runtime.exec.by_spark import SparkColumns
from watersmeet.runtime.exec.call_steps import STEPS_A_SECOND, blocks
from watersmeet.runtime.tick.computation import ComputeOrder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = 6
SLOW = "levenshtein(r.s, reverse(r.s))"


class SlowCallsClock:
    """A clock for jobs that stands still. A test lets a second pass at each look at a job that has the slow call."""

    def __init__(self) -> None:
        self.now = 0.0
        self.runs = self.is_slow = False

    def monotonic(self) -> float:
        self.now += self.runs and self.is_slow
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SlowCallsClock:
    clock, job = SlowCallsClock(), SparkColumns._job

    def noted(self: SparkColumns, order: ComputeOrder, *rest: Any) -> list[Any]:
        clock.is_slow = any("levenshtein" in column.shown for column in order.columns)
        return job(self, order, *rest)

    monkeypatch.setattr(SparkColumns, "_job", noted)
    monkeypatch.setattr(limited_job, "time", clock)
    return clock


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("rows", "length", "reason"),
    [(40, 20_000, "it took more than 6 seconds"), (8, 50_000, "for a row it takes more than 6 seconds")],
    ids=["a block of rows", "a row"],
)
def test_a_call_that_takes_too_long(
    spark: SparkSession, tmp_path: Path, clock: SlowCallsClock, rows: int, length: int, reason: str
) -> None:
    poisoned = Poisoned(tmp_path, {"executor": "spark", "expression_seconds": SECONDS}, spark=spark)
    poisoned.declare(f"SELECT l.id AS a, r.id AS b, {SLOW} AS c {JOIN}")
    poisoned.declare(f"SELECT l.id AS a, r.id AS b {JOIN} AND {SLOW} + l.id > 5", name="another")
    poisoned.declare(f"{PLAIN} AND exp(r.d) > 1 AND reverse(l.s) <> initcap(r.s)", name="beside")

    def check() -> None:
        poisoned.check()
        assert poisoned.results("beside") == poisoned.results("plain")

    with poisoned.running() as engine:
        engine.start()
        fed(poisoned, engine)
        assert not engine.newest.suspended
        check()
        tick = engine.newest.tick + 1
        clock.runs = True
        fed(poisoned, engine, count=rows, s=pa.array(["abcdefghij" * (length // 10)] * rows))
        clock.runs = False
        found = engine.newest.suspended
        assert set(found) == {VICTIM, "another"}
        assert all(one.tick >= tick and reason in one.reason and "levenshtein" in one.reason for one in found.values())
        check()
        fed(poisoned, engine)
        check()
    assert not list((poisoned.home / "orders").glob("computing/*"))
    before = poisoned.results()
    with poisoned.running() as engine:
        engine.start()
        fed(poisoned, engine)
        assert set(engine.newest.suspended) == {VICTIM, "another"}
        poisoned.second += 100  # the long values expire
        fed(poisoned, engine)
        check()
        poisoned.second += 100
        fed(poisoned, engine)
        known = poisoned.rows
        assert "are missing" in engine.resume(VICTIM)
        poisoned.second += 100
        fed(poisoned, engine)
        assert set(engine.newest.suspended) == {"another"}
        check()
        new = poisoned.results() - before
        plain = poisoned.results("plain")
        assert {row[:2] for row in new} == {row for row in plain if row[0] >= known}
        assert new and not before - poisoned.results()


def test_blocks_end_where_spark_has_done_enough() -> None:
    assert list(blocks(np.zeros(20), 8)) == [(0, 8), (8, 16), (16, 20)]
    assert list(blocks(np.zeros(0), 8)) == []
    much = STEPS_A_SECOND
    assert list(blocks(np.array([much / 2, much / 2, 1, 3 * much, much, 0, 0]), 8)) == [(0, 2), (2, 3), (3, 4), (4, 7)]


def test_a_stop_does_not_wait_for_what_spark_computes(spark: SparkSession, tmp_path: Path) -> None:
    options = {"executor": "spark", "expression_seconds": 0, "stop_seconds": 0}
    poisoned = Poisoned(tmp_path, options, spark=spark)
    poisoned.declare(f"SELECT l.id AS a, {SLOW} AS c {JOIN}")
    with poisoned.running() as engine:
        engine.start()
        fed(poisoned, engine)
        poisoned.feed(count=200, s=pa.array(["abcdefghij" * 2000] * 200))
        eventually(lambda: any((poisoned.home / "orders").glob("computing/*-*")))
        engine.stop()
    assert load_newest(poisoned.home).totals.rows["r"] == 8
    del poisoned.declared[VICTIM]
    with poisoned.running() as engine:
        engine.run_once()
    poisoned.check()
