"""Kills while windows are computed: each is answered once, by slices, by Spark, from results of a join, from rows in
tasks, or by two forms one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import duckdb
import pyarrow.compute as pc
import pytest

from tests.support.faults.program import SPENT, WINDOWED, WINDOWED_JOIN
from tests.support.faults.victim import Victim, check_state, clean_start
from tests.support.windowed import in_windows, plain
from watersmeet.adapt.decisions import decisions
from watersmeet.model.sliding_window import SlidingWindow

SECOND = 1_000_000
GRIDS = {
    "per_customer": (("orders",), SlidingWindow(8 * SECOND, 4 * SECOND)),
    "payers": (("payments",), SlidingWindow(6 * SECOND, 6 * SECOND)),
    "soon_paid": (("orders", "payments"), SlidingWindow(6 * SECOND, 3 * SECOND)),
    "largest": (("orders",), SlidingWindow(6 * SECOND, 3 * SECOND)),
}
CHANGED = SlidingWindow(8 * SECOND, 4 * SECOND)


@pytest.mark.soak
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


def test_a_kill_while_a_query_changes_its_form(victim: Callable[..., Victim]) -> None:
    # The engine dies when it has decided, before a tick follows; and in the tick after that, which is committed.
    home = victim(ticks=8, options=["--forms", "--queries", "paid"])
    home.killed_at("tick.begin:3", more=["--do", "tick.end:2:change"])
    home.killed_at("publish.between:2")
    home.finish()
    check_change(home)


@pytest.mark.soak
@pytest.mark.parametrize("partitions", [1, 3])
def test_forms_change_between_kills(victim: Callable[..., Victim], partitions: int) -> None:
    # Wherever it dies, it goes on with the form that it was leaving; and it changes its mind again and again.
    home = victim(ticks=30, partitions=partitions, options=["--forms", "--queries", "paid"])
    for point in ("gather.after:4:driver", "probe.after:3", "manifest.linked:4", "discard.before:3", "tick.end:4"):
        home.killed_at(point, more=["--do", "tick.end:2:change"])
    home.finish("gather.write:2", "results.write:2", more=["--do", "tick.end:1:change", "--do", "tick.end:5:change"])
    check_change(home)


def check_change(victim: Victim) -> None:
    check_window(victim, SPENT, CHANGED, WINDOWED_JOIN.format("", "", "{start}"), ("orders", "payments"))
    assert any(f"{SPENT}: from factorized to pairs" in one.reason for one in decisions(victim.home))
    clean_start(victim)
    check_state(victim)


def check_windows(victim: Victim) -> None:
    for name, (read, grid) in GRIDS.items():
        check_window(victim, name, grid, WINDOWED[name].format("").replace("window_start", "{start}"), read)


def check_window(victim: Victim, name: str, grid: SlidingWindow, asked: str, read: Sequence[str]) -> None:
    streams = {stream.name: stream.rows for stream in victim.case.streams if stream.name in read}
    rows = {stream: rows.filter(pc.is_valid(rows["ts"])) for stream, rows in streams.items()}
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.sql(f"SELECT * FROM read_parquet('{victim.results(name)}/*.parquet')").fetchall()
    assert Counter(map(plain, found)) == in_windows(grid, asked, rows, 1 << 60), name
