"""Kills while windows are computed: each window is answered once, by slices, by Spark, from results of a join and
from rows in tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import duckdb
import pyarrow.compute as pc
import pytest

from tests.support.faults.program import WINDOWED
from tests.support.faults.victim import Victim, check_state, clean_start
from tests.support.windowed import in_windows, plain
from watersmeet.model.sliding_window import SlidingWindow

SECOND = 1_000_000
pytestmark = pytest.mark.soak
GRIDS = {
    "per_customer": (("orders",), SlidingWindow(8 * SECOND, 4 * SECOND)),
    "payers": (("payments",), SlidingWindow(6 * SECOND, 6 * SECOND)),
    "soon_paid": (("orders", "payments"), SlidingWindow(6 * SECOND, 3 * SECOND)),
    "largest": (("orders",), SlidingWindow(6 * SECOND, 3 * SECOND)),
}


def test_windows_survive_kills(victim: Callable[..., Victim]) -> None:
    # A tick computes one window by Spark, and leaves the others to ticks without rows.
    home = victim(ticks=5, options=["--windowed", "--queries", "paid", "--windows-per-tick", "1"])
    # The engine dies when Spark has computed a window that is not committed; then a task dies with a result file half
    # written, and the engine between two renames.
    home.killed_at("window.after:1")
    # A task dies that has computed a window, and another one computes it again.
    home.killed_at("window.computed:2", "manifest.draft:3")
    home.killed_at("results.write:2", "publish.between:1")
    home.finish()
    check_windows(home)
    clean_start(home)
    check_state(home)


def check_windows(victim: Victim) -> None:
    streams = {stream.name: stream.rows for stream in victim.case.streams}
    for name, (read, grid) in GRIDS.items():
        rows = {stream: streams[stream].filter(pc.is_valid(streams[stream]["ts"])) for stream in read}
        asked = WINDOWED[name].format("").replace("window_start", "{start}")
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            found = connection.sql(f"SELECT * FROM read_parquet('{victim.results(name)}/*.parquet')").fetchall()
        assert Counter(map(plain, found)) == in_windows(grid, asked, rows, 1 << 60), name
