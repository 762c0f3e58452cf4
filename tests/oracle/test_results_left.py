"""Results that waited and could not become files, of queries that are resumed or replaced by others."""

from __future__ import annotations

import errno
import os
from collections import Counter
from pathlib import Path

import pytest

from tests.oracle.test_waiting_results import check, live
from tests.support.clock import OwnClock, clock_of
from tests.support.deaths import subscribed
from tests.support.faults.program import lose_folder, repair_folder
from tests.support.faults.small_world import OUTSIDE, TICKS, Rows, SmallWorld, expected, rows_in, together
from tests.support.inside import opened, run_feeds
from watersmeet import Engine
from watersmeet.control.changes import ChangeRequest, Resume
from watersmeet.control.stopped_home import change_stopped
from watersmeet.home.manifest import load_newest
from watersmeet.runtime import release
from watersmeet.runtime.emit import result_files


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> OwnClock:
    """All few results wait, as this clock goes."""
    monkeypatch.setattr(result_files, "MANY", 0)
    return clock_of(monkeypatch, release)


def outside_again(world: SmallWorld) -> Engine:
    """With another query OUTSIDE, of the same columns and folder, that finds nothing."""
    engine = world.engine()
    old = engine.pipeline.queries[OUTSIDE]
    engine.drop(OUTSIDE)
    engine.query(OUTSIDE, old.sql.replace("WHERE", "WHERE o.v > 1000000 AND"), old.sink)
    return engine


def test_a_query_that_was_resumed_is_suspended_again_if_its_results_still_cannot_leave(
    tmp_path: Path, clock: OwnClock
) -> None:
    world = SmallWorld(tmp_path, result_delay="1 hour")
    world.begin()
    world.feed(range(TICKS))
    live(world)

    def fail(point: str, about: object) -> None:
        if point == "results.write" and str(about).startswith(f"{world.out}{os.sep}"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with subscribed(fail):
        world.run()
        first = load_newest(world.home).suspended[OUTSIDE]
        change_stopped(world.home, ChangeRequest(0.0, (Resume(OUTSIDE),)))
        live(world)  # without a tick in which anything leaves
        second = load_newest(world.home).suspended[OUTSIDE]
        assert second.id != first.id and second.tick > first.tick
        world.run()
        assert load_newest(world.home).suspended[OUTSIDE] == second
    change_stopped(world.home, ChangeRequest(0.0, (Resume(OUTSIDE),)))
    world.run()
    check(world)


@pytest.mark.parametrize("when", ["in the first tick", "when it is resumed"])
def test_what_a_replaced_query_has_left_is_put_aside(tmp_path: Path, clock: OwnClock, when: str) -> None:
    """Its results could not be written until another query had its name and its folder."""
    world = SmallWorld(tmp_path, result_delay="1 hour")
    world.begin()
    world.feed(range(TICKS - 2))
    live(world)
    before = load_newest(world.home).totals.results[OUTSIDE]
    assert before and not together(world.found()[OUTSIDE])
    lose_folder(world.out)
    world.run()
    assert {each.queries for each in load_newest(world.home).waiting} == {(OUTSIDE,)}
    world.feed(range(TICKS - 2, TICKS))
    with outside_again(world) as engine:
        loop = opened(engine, accept=True)
        if when == "in the first tick":
            repair_folder(world.out)
            loop.delay.takers = lambda: {"paid"}  # who wants results at once: then what waits leaves
        run_feeds(engine)
        engine.settle(0)
        assert load_newest(world.home).waiting or when == "in the first tick"
    if when == "when it is resumed":
        repair_folder(world.out)
    with outside_again(world) as engine:
        engine.start(once=True)
        engine.resume(OUTSIDE)
        engine.run_once()
    assert not load_newest(world.home).waiting
    assert not together(world.found()[OUTSIDE])
    aside = [rows_in(path.read_bytes()) for path in world.out.glob("_until_tick_*/0*.parquet")]
    found: Rows = sum(aside, Counter())
    assert found.total() == before and not found - expected()[OUTSIDE]
