"""Ticks overlap: the next one is gathered while one is probed, and commits stay in order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.inside import ends, opened
from tests.support.joining_engine import declare
from tests.support.two_streams import JOIN, pairs
from tests.support.waiting import eventually, join
from watersmeet import Engine
from watersmeet.home.manifest import Manifest, load_newest
from watersmeet.runtime.exec import spark as spark_executor
from watersmeet.runtime.exec.executor import Rank
from watersmeet.runtime.tick.orders import GatherOrder, Order, ProbeOrder
from watersmeet.runtime.tick.whole_tick import TickOrder, WalkOrder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Heard:
    """What the engine did, in the order in which it did it: ("gather", tick), ("probe", tick), ("commit", tick)."""

    def __init__(self, engine: Engine) -> None:
        loop = opened(engine)
        self.events: list[tuple[str, int]] = []
        self.then: Callable[[str, int], None] = lambda what, tick: None
        loop.observers.append(self)
        executor = loop.executor
        self._submit = executor.submit
        executor.submit = self.submit  # type: ignore[method-assign]

    def submit(self, order: Order, rank: Rank = Rank.TICK) -> Future[list[Any]]:
        if isinstance(order, TickOrder):
            self._tell("whole", order.gather.tick)
        elif isinstance(order, GatherOrder | ProbeOrder):
            self._tell("gather" if isinstance(order, GatherOrder) else "probe", order.tick)
        elif isinstance(order, WalkOrder):
            self._tell("probe", order.tick.number)
        return self._submit(order, rank)

    def gathered(self, reports: object) -> None:
        pass

    def committed(self, manifest: Manifest) -> None:
        self._tell("commit", manifest.tick)

    def _tell(self, what: str, tick: int) -> None:
        self.events.append((what, tick))
        self.then(what, tick)


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_executor, "FEW_BYTES", -1)


def test_the_next_tick_is_gathered_while_one_is_probed(spark: SparkSession, tmp_path: Path, in_parts: None) -> None:
    one = declare(spark, tmp_path, "WITH (maxFilesPerTrigger = 1)")
    for _ in range(6):
        one.write()
    with one.engine:
        heard = Heard(one.engine)
        one.engine.run_once()
    for tick in range(1, 6):
        assert heard.events.index(("gather", tick + 1)) < heard.events.index(("commit", tick))
        assert heard.events.index(("commit", tick)) < heard.events.index(("probe", tick + 1))
    assert [tick for what, tick in heard.events if what == "commit"] == list(range(1, 7))
    one.check()


def test_a_query_that_comes_in_between_is_in_force_from_the_tick_after(
    spark: SparkSession, tmp_path: Path, in_parts: None
) -> None:
    one = declare(spark, tmp_path, "WITH (maxFilesPerTrigger = 1)")
    for _ in range(6):
        one.write()
    with one.engine:
        heard = Heard(one.engine)
        added = []

        def add(what: str, tick: int) -> None:
            if (what, tick) == ("probe", 2):  # tick 3 is being gathered, under the plan that it began with
                assert ("gather", 3) in heard.events
                added.append(one.engine.query("new", JOIN))
                added.append(one.engine.query("filled", JOIN, backfill=True))

        heard.then = add
        one.engine.run_once()
        assert [query.since for query in added] == [4, 4]
        assert pairs(one.engine["new"].results()) == [(number, 0) for number in range(3, 6)]
        assert pairs(one.engine["filled"].results()) == [(number, 0) for number in range(6)]
    one.check()


@pytest.mark.parametrize("moment", ["probe", "commit"])
def test_a_stop_in_the_middle_leaves_no_file_that_the_manifest_does_not_name(
    spark: SparkSession, tmp_path: Path, in_parts: None, moment: str
) -> None:
    one = declare(spark, tmp_path, "WITH (maxFilesPerTrigger = 1)")
    for _ in range(7):
        one.write()
    home = one.engine.home
    heard = Heard(one.engine)
    stopping = threading.Thread(target=one.engine.stop)

    def stop(what: str, tick: int) -> None:
        if (what, tick) == (moment, 3):
            assert ("gather", 4) in heard.events, "there is something to leave behind"
            stopping.start()
            eventually(lambda: ends(one.engine))

    heard.then = stop
    one.engine.start()
    eventually(lambda: stopping.ident is not None)
    join(stopping)
    manifest = load_newest(home)
    assert manifest.tick == 3
    assert {str(path.relative_to(home)) for path in (home / "state").glob("*/*")} == {
        bucket.file for bucket in manifest.buckets
    }
    assert not list(home.glob("results/*/_staging/*"))
    with one.engine:
        one.engine.run_once()
        one.check()
    assert load_newest(home).tick == 7
