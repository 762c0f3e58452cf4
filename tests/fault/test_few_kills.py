"""The kills that tell most; the first test is cheap enough for every commit. `test_kills.py` and `test_residents.py`
have the rest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.faults.victim import Victim, check_results, check_state, clean_start
from watersmeet.home.manifest import load_newest


def test_three_kills_lose_and_double_nothing(victim: Callable[..., Victim]) -> None:
    home = victim(ticks=8)
    # A task dies with a result file half written and is tried again; then the engine, between two renames of a tick
    # that is committed.
    home.killed_at("results.write:2", "publish.between:4")
    home.finish("merge.write:1")
    check_results(home)
    clean_start(home)
    check_state(home)


def test_kills_while_results_wait(victim: Callable[..., Victim]) -> None:
    home = victim(ticks=8, options=["--wait"])
    # A task dies while it writes what is to wait; then the engine, when what has waited is in files that nobody sees.
    home.killed_at("waiting.write:3", "release.after:3")
    # The start makes everything leave. The engine dies when some of that is visible.
    home.killed_at("publish.between:1")
    home.finish("results.written:2")
    check_results(home)
    clean_start(home)
    check_state(home)


@pytest.mark.soak
def test_residents_that_break_do_not_stop_the_engine(victim: Callable[..., Victim]) -> None:
    home = victim(ticks=8, options=["--resident-seconds", "10"])
    # One is killed with an order in its hands, one is cut off before it can reply, one is stopped while it writes, and
    # the job of all of them is cancelled.
    home.finish("resident.order:2", "resident.reply:3:connection", "gather.write:16:stop", "resident.order:6:jobs")
    assert home.starts == 1
    check_results(home)
    clean_start(home)
    check_state(home)


@pytest.mark.soak
def test_kills_around_what_spark_computes(victim: Callable[..., Victim]) -> None:
    home = victim(ticks=8, options=["--by-spark"])
    # A task dies when Spark has computed and nothing is probed yet, another one with a bucket half written.
    home.finish("gather.after:2", "gather.write:9")
    assert any(bucket.computed for bucket in load_newest(home.home).buckets)
    check_results(home)
    clean_start(home)
    check_state(home)
