"""One query asks for too much while it runs: it is suspended, and the others have the oracle's results."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.deaths import passing
from tests.support.inside import published
from tests.support.poisoned import SLOW, VICTIM, Poisoned
from tests.support.waiting import eventually, happens, join
from watersmeet.errors import RunError
from watersmeet.home.manifest import load_newest
from watersmeet.model import Sink

CROSS = "SELECT l.id AS a, r.id AS b FROM l [RANGE 10 SECONDS] l CROSS JOIN r [RANGE 10 SECONDS] r"
ENDLESS = (
    "SELECT l.id AS a FROM l [RANGE 9 SECONDS] l CROSS JOIN r [RANGE 9 SECONDS] r "
    "CROSS JOIN l [RANGE 9 SECONDS] m CROSS JOIN r [RANGE 9 SECONDS] n"
)
THREE = f"{CROSS} CROSS JOIN l [RANGE 10 SECONDS] m"


@pytest.mark.parametrize("sink", [None, Sink("count")], ids=["written", "counted"])
@pytest.mark.parametrize("select", [CROSS, THREE], ids=["pairs", "triples"])
def test_too_many_matches(tmp_path: Path, select: str, sink: Sink | None) -> None:
    poisoned = Poisoned(tmp_path, {"max_matches": 200})
    poisoned.declare(select, sink)
    poisoned.live(count=4)
    assert not poisoned.suspended
    poisoned.live(count=12)
    assert "more than 200 matches" in poisoned.reason()
    poisoned.check()
    poisoned.live(count=12)
    poisoned.check()
    if sink is None:
        assert sum(poisoned.results().values()) == (16 if select == CROSS else 64)


def test_too_many_matches_on_the_way_to_few_results(tmp_path: Path) -> None:
    poisoned = Poisoned(tmp_path, {"max_matches": 1000, "materialize": "off"})
    poisoned.declare(f"{THREE} WHERE l.id + r.id < 0 AND r.id + m.id < 0")
    poisoned.live(count=8)
    assert not poisoned.suspended
    poisoned.check()


def test_too_many_bytes(tmp_path: Path) -> None:
    poisoned = Poisoned(tmp_path, {"max_result_bytes": 10_000})
    poisoned.declare(
        "SELECT repeat(repeat(l.s, 100), 10) AS a FROM l [RANGE 10 SECONDS] l, r [RANGE 10 SECONDS] r WHERE l.k = r.k"
    )
    poisoned.live()
    assert "exceed 10,000 bytes" in poisoned.reason()
    poisoned.live()
    poisoned.check()


JOIN = "FROM l [RANGE 10 SECONDS] l, r [RANGE 10 SECONDS] r WHERE l.k = r.k"


@pytest.mark.parametrize(
    ("select", "n", "count"),  # about 64 values each: more of these long strings at a time take gigabytes
    [
        pytest.param(f"SELECT {SLOW} AS a {JOIN}", 100, 16, id="output"),
        pytest.param(f"SELECT l.id AS a {JOIN} AND {SLOW} > 5", 600, 64, id="filter"),
        pytest.param(f"SELECT l.id AS a {JOIN} AND {SLOW} = l.n", 600, 64, id="key", marks=pytest.mark.thorough),
        pytest.param(f"SELECT l.id AS a {JOIN} AND {SLOW} + l.id > 5", 600, 16, id="band", marks=pytest.mark.thorough),
        pytest.param(
            f"SELECT l.id AS a {JOIN} AND {SLOW} + l.id <> 5", 100, 16, id="predicate", marks=pytest.mark.thorough
        ),
    ],
)
def test_runaway_expression(tmp_path: Path, select: str, n: int, count: int) -> None:
    poisoned = Poisoned(tmp_path, {"expression_seconds": 0.3})
    poisoned.declare(select)
    poisoned.live()
    assert not poisoned.suspended
    poisoned.live(n=n, count=count)
    assert "took more than 0.3 seconds" in poisoned.reason()
    poisoned.check()
    poisoned.live(n=n)
    assert poisoned.suspended[VICTIM].tick == 2
    poisoned.check()


def test_stop_does_not_wait_for_ever(tmp_path: Path) -> None:
    """A tick that would take hours is given up, and so is the query once it is dropped on the stopped home."""
    poisoned = Poisoned(tmp_path, {"stop_seconds": 0.5, "max_matches": 0})
    poisoned.live()
    poisoned.declare(ENDLESS, Sink("count"))
    poisoned.feed(count=400)
    engine = poisoned.engine()
    problems: list[Any] = []

    def wait() -> None:
        try:
            engine.wait()
        except RunError as problem:
            problems.append(problem)

    with passing("gather.after") as probing:
        engine.start()
        waiting = threading.Thread(target=wait)
        waiting.start()
        happens(probing)
        engine.stop()
    join(waiting)
    assert load_newest(poisoned.home).tick == 1
    del poisoned.declared[VICTIM]
    with poisoned.running() as engine:
        engine.run_once()
    poisoned.check()


def test_a_drop_ends_the_work_for_a_query_in_the_running_tick(tmp_path: Path) -> None:
    poisoned = Poisoned(tmp_path, {"stop_seconds": 0.5, "max_matches": 0})
    poisoned.live()
    poisoned.declare(ENDLESS, Sink("count"))
    poisoned.feed(count=400)
    with poisoned.running() as engine:
        with passing("gather.after") as probing:
            engine.start()
            happens(probing)
        engine.drop(VICTIM)
        eventually(lambda: all(stream.rows == poisoned.rows for stream in engine.stats().streams))
        published(engine)
        poisoned.check()
        poisoned.feed()
        eventually(lambda: all(stream.rows == poisoned.rows for stream in engine.stats().streams))
        assert not engine.newest.suspended and VICTIM not in engine.newest.queries
        assert not list((poisoned.home / "orders" / "dropped").iterdir())
    poisoned.check()
