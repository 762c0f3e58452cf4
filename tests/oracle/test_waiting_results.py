"""Results that wait for a random time, with deaths, restarts and other options in between, against DuckDB."""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.support.clock import OwnClock, clock_of
from tests.support.deaths import Died, dying_at, silent_threads, subscribed
from tests.support.examples import seeds
from tests.support.faults.program import lose_folder, repair_folder
from tests.support.faults.small_world import OUTSIDE, TICKS, SmallWorld, expected, together
from tests.support.inside import abandon, opened, run_feeds
from tests.support.waiting import eventually
from watersmeet.errors import StateError, WatersmeetError
from watersmeet.home.layout import WAITING, manifest
from watersmeet.home.manifest import WaitingFile, load_earlier, load_newest
from watersmeet.runtime import release
from watersmeet.runtime.emit import confine, result_files
from watersmeet.runtime.tick.overload import Overload

POINTS = (
    "tick.begin",
    "results.write",
    "results.written",
    "waiting.write",
    "waiting.written",
    "release.after",
    "probe.after",
    "commit.before",
    "manifest.draft",
    "manifest.linked",
    "publish.before",
    "publish.between",
    "discard.before",
    "discard.between",
    "tick.end",
    "recover.publish",
)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> OwnClock:
    """All few results wait, as this clock goes."""
    monkeypatch.setattr(result_files, "MANY", 0)
    return clock_of(monkeypatch, release)


def live(world: SmallWorld, death: str = "") -> None:
    """A run in which all input is read, and that ends at a point, or is killed when all ticks have run."""
    engine = world.engine()
    with contextlib.suppress(Died), dying_at(death), silent_threads():
        opened(engine, accept=True)
        run_feeds(engine)
    abandon(engine)


def waiting(world: SmallWorld) -> set[str]:
    return {f"{WAITING}/{path.name}" for path in (world.home / WAITING).glob("*")}


def check(world: SmallWorld) -> None:
    for query, rows in expected().items():
        assert together(world.found()[query]) == rows, query
        assert load_newest(world.home).totals.results[query] == rows.total(), query
    assert not load_newest(world.home).waiting


@pytest.mark.parametrize("seed", seeds(range(18)))
def test_each_result_leaves_once(tmp_path: Path, seed: int, clock: OwnClock) -> None:
    random = Random(seed)
    world = SmallWorld(tmp_path, partitions=random.choice([1, 3]))
    world.begin()

    def time_passes(point: str, about: object) -> None:
        if point == "tick.begin":
            clock.pass_by(random.choice([0, 0, 0.4, 1, 5]))

    fed = 0
    with subscribed(time_passes):
        while fed < TICKS:
            world.options["partitions"] = random.choice([1, 3])
            world.options["result_delay"] = random.choice(["0", "500 milliseconds", "1 second", "1 hour", "1 hour"])
            following = min(TICKS, fed + random.randint(1, 3))
            world.feed(range(fed, following))
            fed = following
            if random.random() < 0.3:
                world.run(flush=False)
            else:
                live(world, random.choice(POINTS) if random.random() < 0.7 else "")
        world.run()
    check(world)


def test_what_waits_is_seen_when_the_time_is_over(tmp_path: Path, clock: OwnClock) -> None:
    world = SmallWorld(tmp_path, result_delay="10 seconds")
    world.begin()
    world.feed(range(3))
    live(world)
    assert waiting(world) == {each.file for each in load_newest(world.home).waiting} != set()
    assert not together(world.found()["paid"])
    assert load_newest(world.home).totals.results["paid"]
    world.feed(range(3, 5))
    live(world)  # what was there at the start leaves first
    seen = together(world.found()["paid"])
    assert 0 < seen.total() < load_newest(world.home).totals.results["paid"]


def test_results_of_seldom_ticks_do_not_wait(tmp_path: Path, clock: OwnClock) -> None:
    """They would be written twice, and leave with one tick or two."""
    world = SmallWorld(tmp_path, result_delay="10 seconds")
    world.begin()
    world.feed(range(TICKS))
    waited = []

    def time_passes(point: str, about: object) -> None:
        if point == "tick.begin":
            clock.pass_by(3)
            waited.append(bool(load_newest(world.home).waiting))

    with subscribed(time_passes), world.engine() as engine:
        loop = opened(engine)
        run_feeds(engine)
        assert True in waited and not load_newest(world.home).waiting
        assert together(world.found()["paid"]).total() == loop.manifest.totals.results["paid"]


def test_results_leave_although_no_rows_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_files, "MANY", 0)
    world = SmallWorld(tmp_path, result_delay="1 millisecond")
    world.begin()
    world.feed(range(TICKS))
    with world.engine() as engine:
        engine.start()
        wanted = {query: rows for query, rows in expected().items() if query != "windowed"}
        eventually(lambda: all(together(world.found()[query]) == rows for query, rows in wanted.items()))
        engine.stop()


def test_a_stop_and_a_flush_end_the_wait(tmp_path: Path, clock: OwnClock) -> None:
    world = SmallWorld(tmp_path, result_delay="1 hour")
    world.begin()
    world.feed(range(TICKS))
    with world.engine() as engine:
        loop = opened(engine)
        run_feeds(engine)
        assert loop.manifest.waiting and not together(world.found()["paid"])
        engine.stop()
        assert together(world.found()["paid"]) == expected()["paid"]
        engine.start(once=True).flush()
        assert together(world.found()["windowed"]) == expected()["windowed"]


def test_what_cannot_leave_waits_until_the_query_is_resumed(
    tmp_path: Path, clock: OwnClock, caplog: pytest.LogCaptureFixture
) -> None:
    world = SmallWorld(tmp_path, result_delay="1 hour")
    world.begin()
    world.feed(range(TICKS))
    live(world)
    assert waiting(world)
    lose_folder(world.out)
    for _ in range(2):
        world.run()  # the start cannot write them either
        newest = load_newest(world.home)
        assert [each.queries for each in newest.waiting] == [(OUTSIDE,)] * len(newest.waiting) != []
        assert OUTSIDE in newest.suspended
    assert caplog.text.count(f"query {OUTSIDE} is suspended since tick") == 1
    assert together(world.found()["paid"]) == expected()["paid"]
    repair_folder(world.out)
    with world.engine() as engine:
        engine.start(once=True)
        engine.resume(OUTSIDE)
        engine.run_once()
    check(world)
    assert not waiting(world) - {file.file for one in load_earlier(world.home, 10**9)[1:2] for file in one.waiting}


def test_what_only_suspended_queries_have_left_ends_no_wait(clock: OwnClock) -> None:
    delay = release.Delay()
    delay.seconds = 3600
    delay.committed(False, True)
    file = WaitingFile("waiting/1", rows=1, bytes=release.MANY_BYTES, checksum=0)
    assert delay.is_over([file])
    assert not delay.is_over([replace(file, queries=("suspended",))])


def test_results_that_a_reader_took_away_are_not_released_again(tmp_path: Path, clock: OwnClock) -> None:
    world = SmallWorld(tmp_path, result_delay="1 hour")
    world.begin()
    world.feed(range(TICKS))
    engine = world.engine()
    loop = opened(engine)
    run_feeds(engine)
    engine.settle(0)
    released = loop.manifest
    assert released.results and not released.waiting
    for file in released.results:
        Path(file.final).unlink()
    manifest(world.home, released.tick).write_bytes(b"")
    abandon(engine)
    with pytest.raises(StateError, match="may have been read"):
        world.run()


def test_what_was_dropped_leaves(tmp_path: Path, clock: OwnClock) -> None:
    world = SmallWorld(tmp_path, result_delay="1 hour")
    world.begin()
    world.feed(range(TICKS))
    with world.engine() as engine:
        opened(engine)
        run_feeds(engine)
        assert not together(world.found()["paid"])
        engine.drop("paid")
        engine.settle(0)
        assert together(world.found()["paid"]) == expected()["paid"]


def test_what_was_dropped_is_not_delivered_as_results_of_another_query(tmp_path: Path, clock: OwnClock) -> None:
    """Whoever takes results by ticks takes those that a manifest names for the query, from its first tick on."""
    world = SmallWorld(tmp_path, result_delay="1 hour")
    world.begin()
    world.feed(range(TICKS))
    with world.engine() as engine:
        loop = opened(engine)
        run_feeds(engine)
        sql = engine.pipeline.queries["paid"].sql
        engine.drop("paid")
        engine.query("paid", sql)
        engine.settle(0)
        newest = loop.manifest
        assert newest.queries["paid"] == newest.tick
        named = {file.query for file in newest.results}
        assert "paid" not in named and "again" in named
        assert together(world.found()["paid"]) == expected()["paid"]


def test_a_callable_gets_each_tick_at_once(tmp_path: Path, clock: OwnClock) -> None:
    world = SmallWorld(tmp_path, result_delay="1 hour")
    world.begin()
    world.feed(range(TICKS))
    with world.engine() as engine:
        loop = opened(engine)
        loop.delay.takers = lambda: {"paid"}
        run_feeds(engine)
        found = world.found()
        assert together(found["paid"]) == expected()["paid"] and len(found["paid"]) > 2
        assert not together(found["again"])


@pytest.mark.parametrize("later", [0, 1])
@pytest.mark.parametrize("wants", ["a callable", "a change"])
def test_a_tick_that_is_repeated_still_releases(tmp_path: Path, clock: OwnClock, later: int, wants: str) -> None:
    """A callable gets what has waited before the results of later ticks, and a change of the queries ends the wait."""
    world = SmallWorld(tmp_path, result_delay="1 hour")
    world.begin()
    world.feed(range(TICKS))
    with world.engine() as engine:
        loop = opened(engine)
        ticks, failed = 0, False

        def fail(point: str, about: object) -> None:
            nonlocal ticks, failed
            if point == "tick.begin":
                ticks += 1
                if ticks == 2:
                    assert loop.manifest.waiting
                    loop.delay.takers = lambda: {"paid"} if wants == "a callable" else set()
                    if wants == "a change":
                        engine.drop("again")
            if point == "gather.after" and ticks >= 2 + later and not failed:
                failed = True
                raise Overload.of((), "a task has ended", may_pass=True)

        with subscribed(fail):
            run_feeds(engine)
        assert failed
        if wants == "a callable":
            assert together(world.found()["paid"]) == expected()["paid"]
        else:
            assert together(world.found()["again"])


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("held", [1 << 25, 1000])
def test_a_file_that_cannot_be_written_is_no_querys_own(
    tmp_path: Path, clock: OwnClock, monkeypatch: pytest.MonkeyPatch, reason: int, held: int
) -> None:
    """Although it may happen while a query with a folder on another disk is answered, which has an error of its own."""
    monkeypatch.setattr(result_files, "HELD_BYTES", held)
    monkeypatch.setattr(confine, "_same_disk", lambda folder, home: folder.is_relative_to(home))
    world = SmallWorld(tmp_path, result_delay="1 hour")
    world.begin()
    world.feed(range(TICKS))
    failing = [*[False] * 5, True]

    def fail(point: str, about: object) -> None:
        if point == "waiting.write" and failing and failing.pop(0):
            raise OSError(reason, os.strerror(reason))

    with subscribed(fail), world.engine() as engine, pytest.raises(WatersmeetError):
        engine.run_once(flush=True)
    assert not failing
    world.run()
    check(world)


@pytest.mark.parametrize("damage", [None, b"", b"x", 0.02, 0.5, 0.97])
def test_a_damaged_file_is_rejected(tmp_path: Path, clock: OwnClock, damage: bytes | float | None) -> None:
    world = SmallWorld(tmp_path, result_delay="1 hour")
    world.begin()
    world.feed(range(TICKS))
    live(world)
    file = sorted((world.home / WAITING).glob("*"))[0]
    content = bytearray(file.read_bytes())
    if damage is None:
        file.unlink()
    elif isinstance(damage, float):
        content[int(len(content) * damage)] ^= 4
        file.write_bytes(content)
    else:
        file.write_bytes(damage)
    with pytest.raises(StateError, match=rf"wait in {file} are damaged"):
        world.run()
