"""The long run: dozens of SIGKILLs at every stage of a tick, each followed by a restart on the same home.

`./run test-faults`. Nothing may be lost and nothing doubled: at the end of each home's story every query's folder
holds what DuckDB answers over the whole input.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable

import pytest

from tests.support.faults import daemon, program
from tests.support.faults.victim import FAILED, SIGKILLED, Victim, check_results, check_state, clean_start
from tests.support.processes import kill_tree
from watersmeet.home.manifest import load_newest

pytestmark = pytest.mark.soak

READERS = {1: "engine", 3: "spark"}  # who reads the input files, by number of places
TALLY: dict[str, list[str]] = {}  # test -> the points of its kills; the last test counts them
NewVictim = Callable[..., Victim]


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Callable[[Victim], None]:
    def count(victim: Victim) -> None:
        TALLY[request.node.name] = victim.kills
        victim.say(f"  {len(victim.kills)} kills, {victim.starts} starts")

    return count


# Each start is killed at the next point. Numbers above 1 let some ticks pass first, so that the kills fall on ticks
# with and without merges and on the recoveries after each other's.
WHOLE_STORY = (
    "positions.before:2",
    "tick.begin:2",
    "gather.after:2",
    "phase.between:2",
    "probe.after:2",
    "recover.clear:1",
    "manifest.draft:1",
    "manifest.replacing:1",
    "manifest.linked:1",
    "publish.before:2",
    "recover.publish:1",
    "publish.between:1",
    "discard.before:1",
    "discard.between:1",
    "expire.before:1",
    "expire.between:1",
    "tick.end:2",
)
SHORT_STORY = (
    "phase.between:2",
    "gather.after:2",
    "probe.after:1",
    "manifest.replacing:1",
    "publish.between:2",
    "discard.between:1",
    "expire.before:1",
)


@pytest.mark.parametrize(
    ("partitions", "ticks", "story"), [(1, 26, WHOLE_STORY), (3, 13, SHORT_STORY)], ids=["P=1", "P=3"]
)
def test_the_engine_dies_at_each_point_of_a_tick(
    victim: NewVictim, tally: Callable[[Victim], None], partitions: int, ticks: int, story: tuple[str, ...]
) -> None:
    # A materialized store is filled from the streams' stores whenever the plan before did not have it.
    home = victim(
        ticks=ticks,
        partitions=partitions,
        plans=("kept", "simple", "kept"),
        reader=READERS[partitions],
        options=["--in-parts"],
    )
    for kill in story:
        home.killed_at(kill)
    home.finish()
    check_results(home)
    # Every driver is long dead, so that nothing but the last, whole run can have left anything: no recovery needed.
    check_state(home)
    tally(home)


# The numbers keep the kills apart: Spark gives up on a task that fails four times.
TASKS_IN_PLACES = (
    "gather.write:4",
    "gather.write:11",
    "gather.written:24",
    "keep.write:3",
    "keep.written:9",
    "merge.write:2",
    "merge.written:3",
    "results.write:8",
    "results.write:18",
    "results.written:40",
)
# All of a tick is the work of one task: each of these is counted from the kill before it. One at the ninth pass of a
# gather is some ticks after the one before, so that the tries of one tick meet three kills at most.
ONE_TASK = (
    "+gather.write:4",
    "+merge.write:1",
    "+gather.write:9",
    "+keep.write:4",
    "+gather.written:9",
    "+merge.written:1",
    "+gather.write:9",
    "+phase.between:3",
    "+keep.written:4",
    "+gather.written:9",
    "+results.write:7",
    "+results.written:7",
    "+gather.write:9",
    "+results.write:7",
)


@pytest.mark.parametrize("partitions", [1, 3], ids=["P=1", "P=3"])
def test_tasks_die_and_are_tried_again(victim: NewVictim, tally: Callable[[Victim], None], partitions: int) -> None:
    home = victim(
        ticks=14 if partitions > 1 else 44, partitions=partitions, plans=("kept",), reader=READERS[partitions]
    )
    home.finish(*(TASKS_IN_PLACES if partitions > 1 else ONE_TASK))
    check_results(home)
    clean_start(home)  # the files of the tries that died stay until the next start
    check_state(home)
    tally(home)


# By the end of each line results of some ticks wait, or are on their way out; so every start begins with a release.
WAITING_STORY = (
    "waiting.write:2:driver",
    "waiting.written:2:driver",
    "release.after:1",
    "release.after:3",
    "probe.after:3",
    "manifest.draft:2",
    "manifest.linked:1",
    "manifest.linked:3",
    "recover.publish:1",
    "publish.before:2",
    "publish.between:3",
    "expire.before:1",
    "expire.between:1",
    "tick.end:3",
    "results.write:2:driver",
    "results.written:5:tree",
)


@pytest.mark.parametrize("partitions", [1, 3], ids=["P=1", "P=3"])
def test_the_engine_dies_while_results_wait(
    victim: NewVictim, tally: Callable[[Victim], None], partitions: int
) -> None:
    home = victim(ticks=26, partitions=partitions, options=["--wait"])
    for kill in WAITING_STORY:
        home.killed_at(kill)
    home.finish("waiting.write:3", "waiting.written:4", "results.write:7")
    check_results(home)
    clean_start(home)
    check_state(home)
    tally(home)


@pytest.mark.parametrize("partitions", [1, 3], ids=["P=1", "P=3"])
def test_the_engine_dies_while_its_tasks_write(
    victim: NewVictim, tally: Callable[[Victim], None], partitions: int
) -> None:
    home = victim(ticks=10, partitions=partitions, plans=("kept", "own"), reader=READERS[partitions])
    home.killed_at("gather.write:5:driver")  # tasks go on for a moment, and write into a home that is recovered
    home.killed_at("merge.write:1:driver")
    home.killed_at("results.write:3:tree")
    if partitions == 1:
        home.killed_at("merge.written:1:tree")
        home.killed_at("results.written:2:driver")
    home.finish()
    check_results(home)
    clean_start(home)
    check_state(home)
    tally(home)


def test_a_stream_that_was_added_later(victim: NewVictim, tally: Callable[[Victim], None]) -> None:
    """Spark reads it in a query of its own, so that the ticks of two of them take turns, and die in turn."""
    home = victim(ticks=10)
    fewer = ["--streams", "orders,payments", "--queries", "paid,paid_late,again"]
    assert home.run("tick.begin:1", more=fewer) == ["tick.begin"]
    # The first one is reached by a task, which carries out all of a tick of few rows.
    for kill in ("gather.after:3:driver", "publish.between:4", "tick.end:3"):
        home.killed_at(kill)
    home.finish()
    assert len(load_newest(home.home).batches) == 2
    check_results(home)
    check_state(home)
    tally(home)


def test_kills_at_random_moments(victim: NewVictim, tally: Callable[[Victim], None]) -> None:
    seed = int(os.environ.get("WATERSMEET_KILL_SEED") or random.randrange(1 << 30))
    chance = random.Random(seed)
    home = victim(ticks=20, plans=program.PLANS)
    home.say(f"  seed {seed} (repeat with WATERSMEET_KILL_SEED={seed}; the moments depend on the machine too)")
    while len(home.kills) < 7:
        run = home.start()
        # While it starts and recovers, or at some moment of some tick.
        run.wait_for_lines(chance.choice((1, 2, 2, 3, 4)))
        time.sleep(chance.random() * chance.choice((0.2, 1, 4)))
        if run.process.poll() is None:
            if chance.random() < 0.5:
                kill_tree(run.process.pid)
            else:
                run.process.kill()
        run.wait(killed_from_outside="random")
        if home.last_code != SIGKILLED:
            break  # it was done before the kill came
    home.finish()
    check_results(home)
    clean_start(home)
    check_state(home)
    tally(home)


def test_spark_dies_under_the_engine(victim: NewVictim, tally: Callable[[Victim], None]) -> None:
    """Its Java process is killed, as a system short of memory does: the engine must end, and say what to do."""
    home = victim(ticks=6)
    run = home.start("results.write:8:java")
    run.wait(may_fail=True)
    assert home.last_code == FAILED and home.kills == ["results.write"]
    assert "watersmeet.errors.RunError: Spark's Java process has ended" in run.tail()
    assert f"run again with the same home {home.home}" in run.tail()
    home.finish()
    check_results(home)
    clean_start(home)
    check_state(home)
    tally(home)


def test_the_kills_were_many_and_everywhere(say: Callable[[str], None]) -> None:
    """Runs last. The others can be run alone, but then there is nothing to count."""
    if len(TALLY) < 11:
        pytest.skip("only some of the tests of this file were run")
    points = Counter(point for kills in TALLY.values() for point in kills)
    say(f"\n  {points.total()} kills: " + ", ".join(f"{point} {count}" for point, count in sorted(points.items())))
    assert points.total() >= 30
    # Those of residents are struck in test_residents.py.
    never = {*program.TICK_POINTS, *program.RECOVERY_POINTS, *daemon.WRITING_POINTS} - points.keys()
    assert not never, f"no kill at {never}"
