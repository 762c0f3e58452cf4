"""An engine that dies again and again while queries come and go: each result of each life of a query is there once.

The whole engine runs, with its log of changes and its recovery, on an embedded executor; a death is an exception that
nobody catches, at any point of a tick, and a new engine on the same home.
"""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from tests.support.deaths import Died, silent_threads, subscribed
from tests.support.examples import examples
from tests.support.files_as_frames import FilesAsFrames
from tests.support.inside import abandon, feeds_of, opened, run_feeds
from tests.support.two_streams import write
from tests.support.waiting import PATIENCE
from watersmeet import Engine
from watersmeet.control import change_log
from watersmeet.home.layout import tick_of
from watersmeet.home.manifest import load_newest

Pairs = Counter[tuple[int, int]]
STREAM = "CREATE STREAM {0} (ts TIMESTAMP, id BIGINT, k BIGINT) TIMESTAMP BY ts RETAIN UNBOUNDED FROM parquet '{1}';"
JOIN = "SELECT a.id AS a, b.id AS b FROM l {0} a, r {0} b WHERE a.k = b.k".format("[UNBOUNDED]")
STANDING, NAMES = "standing", ("x", "y")
KEYS = 3
# Where a tick may be when somebody asks for a change, and where it may be when the engine dies.
DURING = ("tick.begin", "gather.after", "probe.after", "manifest.draft", "manifest.linked", "discard.before")
DEATHS = ("positions.before", *DURING, "publish.before", "tick.end")


class Embedded(Engine):
    spark = FilesAsFrames()  # type: ignore[assignment] # callables get files, and Spark is not needed


class World:
    """A home, its input, and the engine that lives on it."""

    def __init__(self, folder: Path) -> None:
        self.home, self.input = folder / "home", folder / "input"
        self.rows: dict[str, list[tuple[int, int]]] = {"l": [], "r": []}  # id, key
        self.partitions = 1
        self.added: set[str] = set()  # queries that were asked for while the engine ran
        self.before: dict[str, Pairs] = {}  # results of earlier lives of a name
        self.visible: dict[str, Pairs] = {}  # what was there when a name was dropped while a tick ran
        self.delivered: dict[str, dict[int, Pairs]] = {}  # to the callable of a query, by tick
        for name in self.rows:
            (self.input / name).mkdir(parents=True)
        self.engine = self._start()

    def _start(self) -> Engine:
        engine = Embedded(home=self.home, executor="local", adaptive="off", partitions=self.partitions)
        for name in self.rows:
            engine.sql(STREAM.format(name, self.input / name))
        engine.query(STANDING, JOIN)
        self._listening: set[str] = set()
        self._listen(engine, STANDING)
        return engine

    def _listen(self, engine: Engine, name: str) -> None:
        """As a program does that starts again: it registers its callable again."""
        mine = self.delivered.setdefault(name, {})

        def deliver(files: object, tick: int) -> None:
            assert isinstance(files, list)
            rows = _rows_in([Path(file.removeprefix("file:")) for file in files])
            assert mine.setdefault(tick, rows) == rows, "a tick that comes again has the same rows"

        if name not in self._listening:
            self._listening.add(name)
            engine[name].foreach_tick(deliver)

    # What happens --------------------------------------------------------------------------------

    def feed(self, stream: str, keys: list[int]) -> None:
        first = len(self.rows[stream])
        new = [(first + at, key) for at, key in enumerate(keys)]
        self.rows[stream] += new
        write(self.input / stream, [(row, row, key) for row, key in new])

    def add(self, name: str) -> None:
        self.engine.query(name, JOIN, backfill=True)
        self.added.add(name)
        self.delivered[name] = {}
        self._listening.discard(name)
        self._listen(self.engine, name)

    def drop(self, name: str) -> None:
        self.drop_in_a_tick(name)
        self.settle_drops()

    def drop_in_a_tick(self, name: str) -> None:
        """Its results of the tick that runs may come, or not."""
        self.engine.drop(name)
        self.added.remove(name)
        self.visible[name] = self.stored(name)

    def settle_drops(self) -> None:
        """All ticks that ran when queries were dropped are over."""
        for name, visible in self.visible.items():
            self.before[name] = self._of_earlier_lives(name)
            assert visible <= self.before[name], f"{name}: what was there has gone"
        self.visible = {}

    def run(self, death: str = "", during: str = "", change: Callable[[], None] = lambda: None) -> bool:
        """All ticks there are to run. The engine dies at the first point `death`; `change` happens once at `during`."""
        died = threading.Event()
        asked = threading.Event()

        def reached(point: str, about: object) -> None:
            if died.is_set():
                raise Died(point)
            if point == during and not asked.is_set():
                asked.set()
                change()
            if point == death:
                died.set()
                raise Died(point)

        with subscribed(reached), silent_threads():
            try:
                # As Engine.run_once, without the thread that serves requests: it would outlive the death.
                opened(self.engine)
                for name in self.added:
                    self._listen(self.engine, name)
                run_feeds(self.engine)
                if not died.is_set():
                    assert self.engine.wait(PATIENCE)
                feeds_of(self.engine).running.clear()
            except Died:
                pass
        if died.is_set():
            self.die()
        else:
            self.settle_drops()
        return not died.is_set()

    def die(self) -> None:
        """Nothing is finished; the operating system takes back the lock."""
        abandon(self.engine)
        self.engine = self._start()

    def stop(self) -> None:
        self.engine.stop()
        self.engine = self._start()

    # What must be there --------------------------------------------------------------------------

    def check(self) -> None:
        pairs = Counter((a, b) for a, key in self.rows["l"] for b, other in self.rows["r"] if key == other)
        assert self.stored(STANDING) == pairs
        for name in self.added:
            earlier = self._of_earlier_lives(name)
            assert earlier == self.before.get(name, Counter()), f"{name}: results of an earlier life have changed"
            found = self.stored(name) - earlier
            assert found == pairs, f"{name}: missing {pairs - found}, too many {found - pairs}"
        for name in self.before.keys() - self.added:
            assert self.stored(name) == self.before[name], f"{name} was dropped"
        for name in (STANDING, *self.added):
            given = sum(self.delivered[name].values(), Counter())
            assert given == pairs, f"{name}: not delivered {pairs - given}, too many {given - pairs}"

    def stored(self, name: str) -> Pairs:
        return _rows_in(self._files(name))

    def _files(self, name: str) -> list[Path]:
        return sorted((self.home / "results" / name).glob("*.parquet"))

    def _of_earlier_lives(self, name: str) -> Pairs:
        """What was there before the query that has the name now."""
        first = load_newest(self.home).queries.get(name) if name in self.added else None
        return _rows_in([path for path in self._files(name) if first is None or (tick_of(path.name) or 0) < first])


def _rows_in(files: list[Path]) -> Pairs:
    rows = [row for path in files for row in pq.read_table(path).to_pylist()]
    return Counter((row["a"], row["b"]) for row in rows)


def test_a_query_promised_for_a_later_tick_than_its_first_is_backfilled_once(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.feed("l", [0, 1, 2])
    world.feed("r", [0, 1, 1])
    assert world.run()
    world.feed("l", [1, 1])
    # It is promised tick 3 while tick 2 runs, which is not committed: tick 2 of the next life is its first.
    assert not world.run(death="probe.after", during="gather.after", change=lambda: world.add("x"))
    for _ in range(3):
        assert world.run()
        world.check()
        world.stop()


@pytest.mark.parametrize("point", DURING)
def test_a_query_that_is_dropped_while_a_tick_runs_that_dies_stays_dropped(tmp_path: Path, point: str) -> None:
    world = World(tmp_path)
    world.feed("l", [0, 1, 2])
    world.feed("r", [0, 1, 1])
    assert world.run()
    world.add("x")
    assert world.run()
    world.feed("l", [1, 1])
    world.run(death="tick.end", during=point, change=lambda: world.drop_in_a_tick("x"))
    dropped = world.stored("x")
    for _ in range(2):
        assert world.run()
        assert world.stored("x") == dropped, "nothing is added after the tick in which it was dropped"
        assert set(world.stored("x").values()) == {1}
        world.stop()


def test_a_tick_that_was_committed_and_not_delivered_is_delivered_by_the_next_life(tmp_path: Path) -> None:
    """Also to the callable of a query that the log brought back, which is registered after the start."""
    world = World(tmp_path)
    world.feed("l", [0, 1, 2])
    assert world.run()
    world.add("x")
    assert world.run()
    world.feed("r", [0, 1, 1])
    assert not world.run(death="discard.before")
    world.feed("l", [1])
    assert world.run()
    world.check()


@pytest.mark.parametrize("death", ["manifest.linked", "publish.before", "discard.before"])
def test_a_callable_that_registers_late_does_not_wait_for_another_tick(tmp_path: Path, death: str) -> None:
    """No rows come after the tick that was committed and not delivered."""
    world = World(tmp_path)
    world.feed("l", [0])
    assert world.run()
    world.add("x")
    world.feed("r", [0])
    assert not world.run(death)
    assert world.run()
    world.check()


def test_a_query_that_is_added_again_gets_nothing_of_the_one_before(tmp_path: Path) -> None:
    """The tick that runs when it is added still answers the other query of its name."""
    world = World(tmp_path)
    world.feed("l", [0, 1, 2])
    assert world.run()
    world.add("x")
    assert world.run()
    world.feed("r", [0, 1, 1])

    def change() -> None:
        world.drop_in_a_tick("x")
        world.add("x")

    assert world.run(during="probe.after", change=change)
    world.check()


class Lives(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="watersmeet-test-")
        self.world = World(Path(self.folder.name))

    def teardown(self) -> None:
        assert self.world.run()
        self.world.check()
        self.world.engine.stop()
        self.folder.cleanup()

    @property
    def absent(self) -> list[str]:
        return [name for name in NAMES if name not in self.world.added]

    @rule(stream=st.sampled_from("lr"), keys=st.lists(st.integers(0, KEYS - 1), min_size=1, max_size=4))
    def feed(self, stream: str, keys: list[int]) -> None:
        self.world.feed(stream, keys)

    @rule()
    def run(self) -> None:
        assert self.world.run()
        self.world.check()

    @rule()
    def stop_and_start(self) -> None:
        self.world.stop()

    @rule()
    def die_while_nothing_runs(self) -> None:
        self.world.die()

    @rule(death=st.sampled_from(DEATHS))
    def die_in_a_tick(self, death: str) -> None:
        if self.world.run(death):
            self.world.check()

    @precondition(lambda self: self.absent)
    @rule(data=st.data())
    def add(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.absent))
        assert self.world.run()  # the engine is open, so that the change goes into the log
        self.world.add(name)

    @precondition(lambda self: self.absent)
    @rule(data=st.data(), during=st.sampled_from(DURING), death=st.sampled_from(("", *DEATHS)))
    def add_in_a_tick_and_die(self, data: st.DataObject, during: str, death: str) -> None:
        name = data.draw(st.sampled_from(self.absent))
        if self.world.run(death, during, lambda: self.world.add(name)):
            self.world.check()

    @precondition(lambda self: self.world.added)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.world.added)))
        assert self.world.run()
        self.world.drop(name)

    @precondition(lambda self: self.world.added)
    @rule(data=st.data(), during=st.sampled_from(DURING), death=st.sampled_from(("", *DEATHS)), again=st.booleans())
    def drop_in_a_tick_and_die(self, data: st.DataObject, during: str, death: str, again: bool) -> None:
        """The drop is promised for the tick after the one that dies, and is obeyed in its repetition."""
        name = data.draw(st.sampled_from(sorted(self.world.added)))

        def change() -> None:
            self.world.drop_in_a_tick(name)
            if again:
                self.world.add(name)

        if self.world.run(death, during, change):
            self.world.check()

    @rule(partitions=st.sampled_from((1, 2)))
    def another_plan(self, partitions: int) -> None:
        self.world.partitions = partitions
        self.world.stop()

    @precondition(lambda self: self.world.added)
    @rule(data=st.data())
    def drop_and_add_again(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.world.added)))
        assert self.world.run()
        self.world.drop(name)
        self.world.add(name)


Lives.TestCase.settings = settings(max_examples=examples(20), stateful_step_count=15)
test_lives_in_any_order = Lives.TestCase


class LivesWithAShortLog(Lives):
    """The log of changes is shortened after every change that allows it."""

    def __init__(self) -> None:
        super().__init__()
        self.longest, change_log.LONGEST_LOG = change_log.LONGEST_LOG, 0

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            change_log.LONGEST_LOG = self.longest


LivesWithAShortLog.TestCase.settings = Lives.TestCase.settings
test_lives_with_a_short_log = LivesWithAShortLog.TestCase
