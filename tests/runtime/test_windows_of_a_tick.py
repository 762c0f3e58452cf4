"""The life of windows as a pure function: random arrivals, queries that come and go, ticks that are repeated.

A window must be answered once, with exactly the rows of it that were accepted, and no window that has rows may be left
out, but for those that began before a query had seen all rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.windowed import containing
from watersmeet.home.counters import Counters
from watersmeet.home.manifest import BucketInfo, Manifest, Suspension
from watersmeet.model import Column, ColumnRef, Output, Query, Stream
from watersmeet.model.forms import View, WindowSql
from watersmeet.model.sliding_window import SlidingWindow
from watersmeet.options import Options
from watersmeet.plan.planner import AT_ONCE, make_plan
from watersmeet.runtime.tick.commit import committed
from watersmeet.runtime.tick.orders import GatherReport, TaskReport
from watersmeet.runtime.tick.tick import Tick
from watersmeet.windows.life import DueWindows
from watersmeet.windows.sql.task import occupied
from watersmeet.windows.sql.tick import batch_order, occupied_order

YEAR = 365 * 86_400_000_000
OUTPUTS = (Output("n", "bigint", ColumnRef("n", "bigint")),)


def stream(name: str, lateness: int = 0, idle: int | None = None, retain: int = 0) -> Stream:
    return Stream(name, (Column("ts", "timestamp"),), "ts", lateness, idle=idle, retain=retain)


def query(name: str, grid: SlidingWindow, *streams: str) -> Query:
    views = tuple(View(f"v{at}", one, ("ts",)) for at, one in enumerate(streams))
    return Query(name, WindowSql("SELECT count(*) AS n FROM v0", views, OUTPUTS), grid)


@dataclass
class World:
    """Ticks of event times, without files: a bucket is a name for an array."""

    streams: tuple[Stream, ...]
    limit: int = 1000  # windows that a tick computes
    manifest: Manifest = field(default_factory=Manifest)
    rows: dict[str, np.ndarray] = field(default_factory=dict)  # by file
    accepted: dict[str, list[int]] = field(default_factory=dict)  # by stream
    answers: dict[str, Counter[tuple[int, ...]]] = field(default_factory=dict)  # by query: (window, *rows)

    def tick(
        self,
        queries: tuple[Query, ...],
        arriving: dict[str, list[int]],
        silent: frozenset[str] = frozenset(),
        flush: bool = False,
        is_committed: bool = True,
    ) -> None:
        plan = make_plan(AT_ONCE, self.streams, queries, Options(windows_per_tick=self.limit))
        tick = Tick("home", "0", self.manifest.tick, "attempt", plan.rules, plan.streams, plan.queries, self.manifest)
        tick = replace(tick, silent=silent, flush=flush)
        begin, gathered, taken = tick.begin(), [], {}
        for name, times in arriving.items():
            late = max(begin.watermarks[name], begin.raised.get(name, begin.watermarks[name]))
            taken[name] = [time for time in times if time >= late]
            if taken[name]:
                gathered.append(self._gathered(name, taken[name], begin.rules.stores))
        answers, left = [], dict[str, int]()
        closing = tick.closing(gathered)
        order = occupied_order(closing)
        assert order.share is not None
        for due, grid, infos in order.asked:
            starts = occupied(grid, due, (self.rows[info.file] for info in infos), order.share + 1)
            left.update((due.query, start) for start in starts[order.share :])
            for start in starts[: order.share]:
                window = batch_order(closing, due.query, start, infos)
                files = {info.file for group in window.buckets.values() for info in group}
                found = np.concatenate([self.rows[file] for file in files])
                inside = found[(found >= start) & (found < window.end)]
                answers.append((due.query, (start, *sorted(inside.tolist()))))
        manifest, _ = committed(tick, gathered, [TaskReport(), TaskReport(left=left)])
        if not is_committed:
            return
        self.manifest = manifest
        for name, answer in answers:
            self.answers.setdefault(name, Counter())[answer] += 1
        for name, times in taken.items():
            self.accepted.setdefault(name, []).extend(times)

    def _gathered(self, name: str, times: list[int], stores: tuple[object, ...]) -> GatherReport:
        file = f"{name}-{len(self.rows)}"
        tau = np.array(times, np.int64)
        number = self.manifest.tick + 1
        low, high = min(times), max(times)
        info = BucketInfo(name, file, len(times), 100, 0, low, high, number, number, alive_until=high)
        self.rows[file] = tau
        counts = Counters(rows=Counter({name: len(times)}))
        stored = any(getattr(rule, "name", "") == name for rule in stores)
        return GatherReport(name, [info] if stored else [], [], counts, high)

    def expected(self, asked: Query, first: int | None, until: int) -> Counter[tuple[int, ...]]:
        """Of the windows that begin from `first` on and before `until`, all that have rows, by brute force."""
        times = sorted(time for name in asked.streams for time in self.accepted.get(name, ()))
        starts = {start for time in times for start in containing(asked.grid, time)}
        return Counter(
            (start, *(time for time in times if start <= time < asked.grid.end(start)))
            for start in starts
            if start < until and (first is None or start >= first)
        )


def arrivals(random: Random, streams: tuple[Stream, ...], now: int) -> dict[str, list[int]]:
    return {
        one.name: [now + random.randint(-15, 10) for _ in range(random.randint(0, 4))]
        for one in streams
        if random.random() < 0.8
    }


grids = st.sampled_from(
    [SlidingWindow(10, 10), SlidingWindow(10, 5), SlidingWindow(12, 5), SlidingWindow(30, 1), SlidingWindow(7, 3)]
)


@settings(max_examples=examples(60))
@given(grids, st.integers(0, 12), st.integers(1, 3), st.sampled_from([1, 3, 1000]), st.randoms(use_true_random=False))
def test_every_window_is_answered_once_with_its_rows(
    grid: SlidingWindow, lateness: int, count: int, limit: int, random: Random
) -> None:
    """Windows that a tick leaves are answered by the next ones, also without rows."""
    streams = tuple(stream(f"s{at}", lateness) for at in range(count))
    asked = query("q", grid, *(one.name for one in streams))
    world, now = World(streams, limit), 0
    for _ in range(12):
        now += random.choice([0, 3, 8, 40, YEAR])
        arriving = arrivals(random, streams, now)
        if random.random() < 0.2:
            world.tick((asked,), arriving, is_committed=False)  # the engine is killed, and the tick repeated
        world.tick((asked,), arriving)
    world.manifest.validate()
    until = world.manifest.windows["q"]
    assert world.answers.get("q", Counter()) == world.expected(asked, None, until)
    answered = -1
    while answered < sum(world.answers.get("q", Counter()).values()):
        answered = sum(world.answers.get("q", Counter()).values())
        world.tick((asked,), {}, flush=True)
    assert world.answers.get("q", Counter()) == world.expected(asked, None, 1 << 61)
    world.tick((asked,), {}, flush=True)
    assert world.answers.get("q", Counter()) == world.expected(asked, None, 1 << 61), "nothing is closed twice"
    marks = {one.name: world.manifest.newest.get(one.name, 0) - one.lateness for one in streams}
    assert all(info.tau_max >= marks[info.store] - 1 for info in world.manifest.buckets), "others are not needed"


@settings(max_examples=examples(60))
@given(grids, grids, st.booleans(), st.randoms(use_true_random=False))
def test_queries_come_and_go(first: SlidingWindow, second: SlidingWindow, backfill: bool, random: Random) -> None:
    streams = (stream("a", 5), stream("b", 2))
    one, other = query("one", first, "a", "b"), replace(query("other", second, "a"), backfill=backfill, addition="x")
    world, now = World(streams), 0
    began: tuple[int, int] | None = None  # before its first tick: the newest row, and from when on all were stored
    for at in range(14):
        now += random.choice([0, 3, 8, 40])
        active = (one, other) if at >= 6 else (one,)
        if at == 6 and "a" in world.manifest.newest:
            newest = world.manifest.newest["a"] + 1
            began = (newest, world.manifest.complete.get("a", newest))
        world.tick(active if at < 12 else (other,), arrivals(random, streams, now))
    assert "one" not in world.manifest.windows
    begin = None if began is None else second.beginning(began[1] if backfill else began[0])
    assert world.answers.get("other", Counter()) == world.expected(other, begin, world.manifest.windows["other"])
    if backfill and began is not None and began[1] < began[0] - 2 * second.range:
        assert any(answer[0] < second.beginning(began[0]) for answer in world.answers["other"])


def test_windows_stay_open_until_all_streams_have_passed_their_end() -> None:
    asked = query("q", SlidingWindow(10, 10), "a", "b")
    world = World((stream("a", 2), stream("b")))
    world.tick((asked,), {"a": [1, 30]})
    assert world.answers == {}
    world.tick((asked,), {"b": [9]})
    assert world.answers == {}
    world.tick((asked,), {"b": [10]})
    assert world.answers == {"q": Counter({(0, 1, 9): 1})}
    assert world.manifest.windows == {"q": 10}


def test_time_that_jumps_by_years_costs_nothing() -> None:
    asked = query("q", SlidingWindow(60, 1), "a")
    world = World((stream("a"),))
    world.tick((asked,), {"a": [0]})
    world.tick((asked,), {"a": [5000 * YEAR]})
    assert sum(world.answers["q"].values()) == 60
    grid = SlidingWindow(60, 1)
    assert len(occupied(grid, DueWindows("q", -100, 5000 * YEAR), [np.array([0, 4000 * YEAR])])) == 120


# Silence ---------------------------------------------------------------------------------------------


def test_a_silent_stream_does_not_hold_back_the_others_and_its_old_rows_are_too_late() -> None:
    asked = query("q", SlidingWindow(10, 10), "a", "b")
    world = World((stream("a"), stream("b", idle=1)))
    world.tick((asked,), {"a": [1], "b": [2]})
    world.tick((asked,), {"a": [25]})
    assert world.answers == {}
    world.tick((asked,), {}, silent=frozenset("b"))
    assert world.answers == {"q": Counter({(0, 1, 2): 1})}
    assert world.manifest.silent == {"b": 25}
    world.tick((asked,), {"b": [24, 26]})
    assert world.accepted["b"] == [2, 26]
    assert world.manifest.silent == {}, "its own watermark is above that now"
    world.tick((asked,), {"a": [40], "b": [41]})
    assert world.answers["q"] == Counter({(0, 1, 2): 1, (20, 25, 26): 1})


def test_where_all_streams_are_silent_nothing_moves() -> None:
    asked = query("q", SlidingWindow(10, 10), "a", "b")
    world = World((stream("a", idle=1), stream("b", idle=1)))
    world.tick((asked,), {"a": [25], "b": [2]})
    world.tick((asked,), {}, silent=frozenset("ab"))
    assert (world.answers, world.manifest.silent) == ({}, {})
    world.tick((asked,), {"a": [31]}, silent=frozenset("ab"))
    assert world.manifest.silent == {"b": 31}, "one that speaks is not silent"


def test_a_stream_that_never_had_a_row_is_silent_too() -> None:
    asked = query("q", SlidingWindow(10, 10), "a", "b")
    world = World((stream("a"), stream("b", idle=1)))
    world.tick((asked,), {"a": [5, 12]})
    world.tick((asked,), {}, silent=frozenset("b"))
    assert world.answers == {"q": Counter({(0, 5): 1})}


# Suspension ------------------------------------------------------------------------------------------


def test_windows_that_end_while_a_query_is_suspended_are_missing() -> None:
    asked = query("q", SlidingWindow(10, 10), "a")
    world = World((stream("a"),))
    world.tick((asked,), {"a": [5]})
    world.manifest = replace(world.manifest, suspended={"q": Suspension(1, "why", "1-x")})
    world.tick((asked,), {"a": [7, 12]})
    world.tick((asked,), {"a": [17]})
    assert world.answers == {}
    resumed = replace(asked, resumed="1-x")
    world.tick((resumed,), {"a": [21]})
    assert world.answers == {"q": Counter({(10, 12, 17): 1})}
    assert world.manifest.suspended == {}


@pytest.mark.parametrize("retain", [0, 100])
def test_backfill_answers_what_the_stored_rows_cover(retain: int) -> None:
    asked = replace(query("q", SlidingWindow(10, 10), "a"), backfill=True, addition="x")
    world = World((stream("a", retain=retain),))
    world.tick((), {"a": [5]})
    world.tick((), {"a": [15, 22]})
    world.tick((asked,), {"a": [31]})
    covered = {(0, 5): 1, (10, 15): 1, (20, 22): 1} if retain else {}
    assert world.answers.get("q", {}) == covered
    world.tick((asked,), {"a": [45]})
    assert world.answers["q"] == covered | ({(30, 31): 1})
