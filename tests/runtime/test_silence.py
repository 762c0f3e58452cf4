"""Streams that are silent by the clock, on the tick loop: windows are closed without them, and what comes too late for
these is set aside."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.clock import OwnClock, clock_of
from tests.support.windowed import SECOND, Asked, WindowedRun
from watersmeet.home.counters import Reason
from watersmeet.windows import silence

DECLARED = """
CREATE STREAM r (ts TIMESTAMP, k INT) TIMESTAMP BY ts AHEAD UNBOUNDED FROM parquet 'nowhere';
CREATE STREAM t (ts TIMESTAMP, k INT) TIMESTAMP BY ts AHEAD UNBOUNDED IDLE AFTER 5 SECONDS FROM parquet 'nowhere';
"""
PAIRS = Asked(
    "SELECT window_start, count(*) AS n FROM r [TUMBLE 10 SECONDS] x JOIN t [TUMBLE 10 SECONDS] y ON x.k = y.k",
    "SELECT {start}, count(*) FROM r x JOIN t y ON x.k = y.k",
)


def at(*seconds: int) -> pa.Table:
    times = pa.array([second * SECOND for second in seconds], pa.timestamp("us", "UTC"))
    return pa.table({"ts": times, "k": pa.array([1] * len(seconds), pa.int32())})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> OwnClock:
    return clock_of(monkeypatch, silence)


def test_rows_of_a_silent_stream_that_come_too_late_are_set_aside(tmp_path: Path, clock: OwnClock) -> None:
    run = WindowedRun(tmp_path / "home", DECLARED)
    run.add("pairs", PAIRS)
    run.tick({"r": at(1, 25), "t": at(2)})
    clock.pass_by(4.9)
    run.loop.settle(0)
    assert run.manifest.windows["pairs"] < 20 * SECOND
    clock.pass_by(0.1)
    run.loop.settle(0)  # no row comes, and the clock goes on
    assert run.manifest.windows["pairs"] == 20 * SECOND
    assert run.manifest.silent == {"t": 25 * SECOND}
    run.restart()
    run.tick({"t": at(11, 26)})
    assert run.manifest.totals.set_aside[Reason.SILENT, "t"] == 1
    (aside,) = (tmp_path / "home" / "rejected" / "t").glob("*.parquet")
    assert pq.read_table(aside).column("rejected_because").to_pylist() == ["after silence"]
    run.tick({"r": at(31), "t": at(32)})
    found = pq.read_table(tmp_path / "home" / "results" / "pairs").column("n").to_pylist()
    assert sorted(found) == [1, 1], "windows 0 and 20; the window 10 has no row"


def test_a_tick_without_windowed_queries_asks_for_nothing(tmp_path: Path, clock: OwnClock) -> None:
    run = WindowedRun(tmp_path / "home", DECLARED)
    run.tick({"r": at(1)})
    clock.pass_by(5)
    run.loop.settle(0)
    assert run.manifest.tick == 1
