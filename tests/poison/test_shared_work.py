"""Work that several queries share takes too much: those at fault are suspended, and the others have their results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.poison.test_on_spark import PLAIN, fed
from tests.support.poisoned import Poisoned
from tests.support.residents import connected_residents
from tests.support.waiting import eventually
from watersmeet.errors import RunError
from watersmeet.plan.ruleset import Step
from watersmeet.runtime.probe import walk
from watersmeet.runtime.probe.partial_results import PartialResults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAIR = "FROM l [RANGE {0}] l, r [RANGE {0}] r WHERE"
ALL = f"SELECT l.id AS a, r.id AS b {PAIR.format('10 SECONDS')} l.n = r.n"
MANY = "more than 100 matches"


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_query_with_the_wide_window_is_at_fault(tmp_path: Path, partitions: int) -> None:
    """It shares its step with healthy queries, whose own windows hold few matches."""
    poisoned = Poisoned(tmp_path, {"max_matches": 100, "partitions": partitions})
    poisoned.declare(f"SELECT l.id AS a, r.id AS b {PAIR.format('1 HOUR')} l.k = r.k", name="wide")
    for _ in range(3):
        poisoned.live()
        assert not poisoned.suspended
        poisoned.second += 100  # beyond the windows of the healthy ones
    poisoned.live(count=16)
    assert MANY in poisoned.reason("wide")
    poisoned.check()
    poisoned.live()
    poisoned.check()


@pytest.mark.parametrize("materialize", ["on", "off"])
def test_a_filter_that_few_rows_pass_is_not_at_fault(tmp_path: Path, materialize: str) -> None:
    poisoned = Poisoned(tmp_path, {"max_matches": 100, "materialize": materialize})
    poisoned.declare(ALL, name="all")
    poisoned.declare(f"{ALL} AND l.id % 16 = 1", name="some")
    poisoned.live(count=16)
    assert MANY in poisoned.reason("all")
    poisoned.live(count=4)
    assert set(poisoned.suspended) == {"all"}
    assert set(poisoned.results("some")) == {(at, other) for at in (1, 17) for other in range(20)}
    poisoned.check()


def test_queries_with_the_same_matches_are_at_fault_together(tmp_path: Path) -> None:
    poisoned = Poisoned(tmp_path, {"max_matches": 100})
    three = ALL.replace(" WHERE", ", l [RANGE 10 SECONDS] m WHERE m.n = r.n AND m.id + l.id < 0 AND")
    poisoned.declare(f"{three} AND l.id >= 0", name="first")
    poisoned.declare(three, name="second")
    poisoned.live(count=16)
    assert set(poisoned.suspended) == {"first", "second"}
    assert all(MANY in suspension.reason for suspension in poisoned.suspended.values())
    poisoned.check()
    poisoned.live()
    poisoned.check()


class NoMemory:
    """Steps of queries whose names begin with `hungry` find no memory, so many times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
        self.times = times
        real = walk.Walk._expand

        def expand(walking: walk.Walk, step: Step, *arguments: object) -> PartialResults:
            queries = walking.order.rules.queries_of(step)
            if self.times and all(query.startswith("hungry") for query in queries):
                self.times -= 1
                raise MemoryError
            return real(walking, step, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(walk.Walk, "_expand", expand)


def test_memory_that_is_short_once_suspends_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poisoned = Poisoned(tmp_path)
    poisoned.declare(ALL, name="hungry")
    shortage = NoMemory(monkeypatch, times=1)
    poisoned.live()
    assert not shortage.times and not poisoned.suspended
    assert sum(poisoned.results("hungry").values()) == 64
    poisoned.check()


def test_memory_that_stays_short_suspends_the_queries_of_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned = Poisoned(tmp_path)
    poisoned.declare(ALL, name="hungry_1")
    poisoned.declare(f"{ALL} AND l.id >= 0", name="hungry_2")
    shortage = NoMemory(monkeypatch, times=2)
    poisoned.live()
    assert not shortage.times
    assert set(poisoned.suspended) == {"hungry_1", "hungry_2"}
    assert all("ran out of memory" in suspension.reason for suspension in poisoned.suspended.values())
    poisoned.check()
    poisoned.live()
    poisoned.check()


def test_memory_that_is_short_for_everybody_stops_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poisoned = Poisoned(tmp_path)

    def arrivals(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched, pytest.raises(RunError, match="task_memory"):
        patched.setattr(walk.Walk, "_arrivals", arrivals)
        poisoned.live()
    poisoned.live()
    poisoned.check()


def test_residents_without_memory_for_a_step_are_replaced(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two queries share a step that tests pairs of rows with long strings: more than a task may have at a time."""
    poisoned = Poisoned(tmp_path, {"executor": "spark", "task_memory": 500}, spark=spark)
    hungry = ("hungry_1", "hungry_2")
    for name, more in zip(hungry, ("", " AND l.id >= 0"), strict=True):
        poisoned.declare(f"{PLAIN} AND concat(l.s, r.s) <> 'x'{more}", name=name)
    processes = connected_residents(monkeypatch)
    with poisoned.running() as engine:
        engine.start()
        fed(poisoned, engine)
        poisoned.check()
        plain = poisoned.results("plain")
        assert all(poisoned.results(name) == plain for name in hungry)
        before = set(processes)
        fed(poisoned, engine, count=800, s=pa.array(["x" * 8000] * 800))
        assert set(engine.newest.suspended) == set(hungry)
        assert all("ran out of memory" in one.reason for one in engine.newest.suspended.values())
        assert before
        eventually(lambda: not before <= set(processes) and len(processes) == len(before))
        poisoned.check()
        fed(poisoned, engine)
        poisoned.check()
    with poisoned.running() as engine:
        engine.start()
        fed(poisoned, engine)
        assert set(engine.newest.suspended) == set(hungry)
        poisoned.check()
        poisoned.second += 100  # the long strings are in no window
        fed(poisoned, engine)
        known = poisoned.rows
        # The long strings of l may have had a tick of their own, in which they met the short ones of r.
        until_then = {name: poisoned.results(name) for name in hungry}
        assert all(results <= poisoned.results("plain") for results in until_then.values())
        engine.resume(*hungry)
        poisoned.second += 100
        fed(poisoned, engine)
        assert not engine.newest.suspended
        poisoned.check()
        new = {row for row in poisoned.results("plain") if row[0] >= known}
        assert new and all(set(poisoned.results(name) - until_then[name]) == new for name in hungry)
