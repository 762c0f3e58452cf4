"""Resident tasks are struck at every point of a task, in every way, and the engine goes on by itself.

`./run test-faults`. A strike loses what a resident has done of an order, wholly or in part. The order is repeated, and
at the end of each home's story every query's folder holds what DuckDB answers over the whole input.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.fault import daemon
from tests.fault.killing import FAILED, Victim, check_results, check_state, clean_start, processes_of

pytestmark = pytest.mark.soak

NewVictim = Callable[..., Victim]
# By point, the pass at which a resident is struck. The numbers keep the strikes apart: a task that fails four times
# stops the engine. `kept` is the plan that has materialized stores.
STRIKES = {
    "resident.begin": 1,
    "resident.order": 2,
    "resident.reply": 4,
    "gather.write": 14,
    "gather.written": 23,
    "keep.write": 8,
    "keep.written": 13,
    "merge.write": 2,
    "merge.written": 5,
    "results.write": 20,
    "results.written": 42,
}
BETWEEN = {"gather.after": 9, "phase.between": 11}  # reached by the task where a tick is one order
WAYS = {
    "self": "killed",
    "stop": "stopped",
    "connection": "cut off",
    "jobs": "cancelled",  # all jobs of Spark
}
SHORT = ["--resident-seconds", "3"]  # without a sign of life


def test_every_point_of_a_task_is_struck() -> None:
    assert STRIKES.keys() == {*daemon.RESIDENT_POINTS, *daemon.WRITING_POINTS}


@pytest.mark.parametrize("in_parts", [False, True], ids=["a tick is one order", "in parts"])
@pytest.mark.parametrize("way", WAYS, ids=WAYS.values())
def test_residents_are_struck_at_every_point(victim: NewVictim, way: str, in_parts: bool) -> None:
    home = victim(ticks=16, plans=("kept",), options=[*SHORT, *(["--in-parts"] if in_parts else [])])
    points = STRIKES if in_parts else {**STRIKES, **BETWEEN}
    home.finish(*(f"{point}:{number}:{way}" for point, number in points.items()))
    assert home.starts == 1
    check_results(home)
    clean_start(home)  # the files of the tries that were lost stay until the next start
    check_state(home)


def test_residents_are_struck_with_three_places(victim: NewVictim) -> None:
    """Gathering and merging is their work there. Other jobs are Spark's own, so that nobody cancels all of them."""
    home = victim(ticks=10, partitions=3, plans=("kept",), options=SHORT)
    home.finish(
        "resident.begin:1:connection",
        "resident.order:3",
        "resident.order:5:stop",
        "resident.reply:6:connection",
        "gather.write:9",
        "gather.write:6:connection",
        "gather.written:18:stop",
        "merge.write:2",
        "merge.written:3",
    )
    check_results(home)
    clean_start(home)
    check_state(home)


def test_strikes_and_deaths_of_the_engine_take_turns(victim: NewVictim) -> None:
    home = victim(ticks=14, plans=("kept", "own"), options=[*SHORT, "--in-parts"])
    home.killed_at("gather.write:4:connection", "resident.reply:6", "resident.order:8:driver")
    home.killed_at("resident.begin:2", "merge.write:1:jobs", "probe.after:3")
    home.killed_at("results.write:4:stop", "resident.reply:9:tree")
    home.finish("resident.begin:1:jobs", "gather.written:5", "resident.reply:3:connection")
    check_results(home)
    clean_start(home)
    check_state(home)


@pytest.mark.parametrize("in_parts", [False, True], ids=["a tick is one order", "in parts"])
def test_without_residents_tasks_of_jobs_die(victim: NewVictim, in_parts: bool) -> None:
    options = ["--residents", "0", *(["--in-parts"] if in_parts else [])]
    home = victim(ticks=14, plans=("kept",), options=options)
    home.finish(*(f"{point}:{STRIKES[point]}" for point in daemon.WRITING_POINTS))
    check_results(home)
    clean_start(home)
    check_state(home)


def test_a_spark_with_one_slot_has_no_residents(victim: NewVictim) -> None:
    home = victim(ticks=6, master="local[1,4]")
    assert home.run("resident.begin:1", "gather.write:5", "results.write:9") == ["gather.write", "results.write"]
    assert home.last_code == 0
    check_results(home)


def test_a_spark_that_tries_no_task_again(victim: NewVictim) -> None:
    """As a plain `local[n]` of a user does: with a resident, its whole job ends, and another one is begun."""
    home = victim(ticks=8, master="local[4]")
    home.finish("resident.begin:2", "resident.order:3", "results.write:9", "resident.reply:3:connection")
    check_results(home)
    clean_start(home)
    check_state(home)


def test_residents_end_with_their_engine(victim: NewVictim) -> None:
    home = victim(ticks=6)
    home.killed_at("resident.order:3:driver")
    end = time.monotonic() + 60
    while left := processes_of(home.folder):
        assert time.monotonic() < end, f"still there: {left}"
        time.sleep(0.1)
    home.finish()
    check_results(home)
    check_state(home)


def test_a_task_that_is_struck_each_time_stops_the_engine_and_the_next_start_goes_on(victim: NewVictim) -> None:
    home = victim(ticks=6, options=["--in-parts"])
    # The first pass of tick 2, and whatever comes after it.
    run = home.start("gather.write:4", *["gather.write:1"] * 11)
    run.wait(may_fail=True)
    assert home.last_code == FAILED
    assert "a task failed 4 times; nothing of its tick was committed, and the next run repeats it" in run.tail()
    home.finish()
    check_results(home)
    check_state(home)
