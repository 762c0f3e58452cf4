"""Resident tasks are struck at every point of a task, in every way, and the engine goes on by itself.

`./run test-faults`. A strike loses what a resident has done of an order, wholly or in part. The order is repeated, and
at the end of each home's story every query's folder holds what DuckDB answers over the whole input.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.faults import daemon
from tests.support.faults.strikes import IN_TURN
from tests.support.faults.victim import FAILED, Victim, check_results, check_state, clean_start, processes_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.soak

NewVictim = Callable[..., Victim]
# By point, the pass at which a resident is struck; with the plan `kept`, which has materialized stores. The numbers
# keep the strikes apart: a task that fails four times stops the engine.
IN_PARTS = {
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
# Where a tick is one order, all of it is one task, which also passes the points between gathering and probing. One that
# was cut off works on for a while, so that the same rows pass points twice: each is counted from the strike before it.
WHOLE = {
    "+resident.begin": 1,
    "+resident.order": 2,
    "+resident.reply": 2,
    "+gather.write": 6,
    "+gather.after": 2,
    "+merge.write": 1,
    "+phase.between": 3,
    "+keep.write": 3,
    "+gather.written": 6,
    "+keep.written": 3,
    "+merge.written": 1,
    "+results.write": 7,
    "+results.written": 7,
}
# With results that wait for the next tick.
WAITING = {
    "waiting.write": 4,
    "waiting.written": 11,
    "results.write": 20,
    "results.written": 42,
}
WAYS = {
    "self": "killed",
    "stop": "stopped",
    "connection": "cut off",
    "jobs": "cancelled",  # all jobs of Spark
}
SHORT = ["--resident-seconds", "10"]  # without a sign of life


def test_every_point_of_a_task_is_struck() -> None:
    assert IN_PARTS.keys() | WAITING.keys() == {*daemon.RESIDENT_POINTS, *daemon.WRITING_POINTS}
    assert {point.removeprefix(IN_TURN) for point in WHOLE} == {*IN_PARTS, "gather.after", "phase.between"}


@pytest.mark.parametrize(
    ("story", "ticks", "options"),
    [(WHOLE, 32, []), (IN_PARTS, 16, ["--in-parts"])],
    ids=["a tick is one order", "in parts"],
)
@pytest.mark.parametrize("way", WAYS, ids=WAYS.values())
def test_residents_are_struck_at_every_point(
    victim: NewVictim, way: str, story: dict[str, int], ticks: int, options: list[str]
) -> None:
    home = victim(ticks=ticks, plans=("kept",), options=[*SHORT, *options])
    home.finish(*(f"{point}:{number}:{way}" for point, number in story.items()))
    assert home.starts == 1
    check_results(home)
    clean_start(home)  # the files of the tries that were lost stay until the next start
    check_state(home)


@pytest.mark.parametrize("way", WAYS, ids=WAYS.values())
def test_residents_are_struck_while_results_wait(victim: NewVictim, way: str) -> None:
    home = victim(ticks=16, options=[*SHORT, "--wait"])
    home.finish(*(f"{point}:{number}:{way}" for point, number in WAITING.items()))
    assert home.starts == 1
    check_results(home)
    clean_start(home)
    check_state(home)


def test_residents_are_struck_with_three_places(victim: NewVictim) -> None:
    """Gathering and merging is their work there. Other jobs are Spark's own, so that nobody cancels all of them."""
    home = victim(ticks=10, partitions=3, plans=("kept",), options=SHORT)
    home.finish(
        "resident.begin:1:connection",
        "resident.order:3",
        "resident.order:9:stop",
        "resident.reply:8:connection",
        "gather.write:22",  # about nine a tick, in two tasks
        "gather.write:20:connection",
        "gather.written:60:stop",
        "merge.write:2",
        "merge.written:3",
    )
    check_results(home)
    clean_start(home)
    check_state(home)


def test_strikes_and_deaths_of_the_engine_take_turns(victim: NewVictim) -> None:
    home = victim(ticks=14, plans=("kept", "own"), options=[*SHORT, "--in-parts"])
    home.killed_at("+gather.write:4:connection", "+resident.reply:5", "+resident.order:6:driver")
    home.killed_at("+resident.begin:1", "+merge.write:1:jobs", "+probe.after:2")
    home.killed_at("+results.write:4:stop", "+resident.reply:4:tree")
    home.finish("+resident.begin:1:jobs", "+gather.written:5", "+resident.reply:3:connection")
    check_results(home)
    clean_start(home)
    check_state(home)


@pytest.mark.parametrize(
    ("story", "ticks", "options"),
    [(WHOLE, 32, []), (IN_PARTS, 16, ["--in-parts"])],
    ids=["a tick is one order", "in parts"],
)
def test_without_residents_tasks_of_jobs_die(
    victim: NewVictim, story: dict[str, int], ticks: int, options: list[str]
) -> None:
    home = victim(ticks=ticks, plans=("kept",), options=["--residents", "0", *options])
    written = {at: number for at, number in story.items() if at.removeprefix(IN_TURN) in daemon.WRITING_POINTS}
    # Spark tries a task again at once: what comes in turn must not strike each of the tries of one tick.
    apart = {at: number * 3 if at.startswith(IN_TURN) and number > 1 else number for at, number in written.items()}
    home.finish(*(f"{point}:{number}" for point, number in apart.items()))
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
    eventually(lambda: not processes_of(home.folder), what="processes were still there")
    home.finish()
    check_results(home)
    check_state(home)


def test_a_task_that_is_struck_each_time_stops_the_engine_and_the_next_start_goes_on(victim: NewVictim) -> None:
    home = victim(ticks=6, options=["--in-parts"])
    # The first pass of tick 2, and whatever comes after it: also when the tick is tried with care, and without queries.
    run = home.start("gather.write:4", *["gather.write:1"] * 40)
    run.wait(may_fail=True)
    assert home.last_code == FAILED
    assert "a task failed 4 times" in run.tail()
    home.finish()
    check_results(home)
    check_state(home)
