"""The picture of a running engine, from figures made up here."""

from __future__ import annotations

import errno
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from watersmeet.cli.dashboard import Picture, as_line, as_table
from watersmeet.cli.demo.show import latency_text
from watersmeet.cli.run import set_aside_of
from watersmeet.cli.screen import LOG_EVERY, say, show_until, step
from watersmeet.cli.tables import (
    FiguresTable,
    TableColumn,
    bytes_text,
    print_table,
    seconds_text,
    set_aside_text,
    short_count,
)
from watersmeet.control.stats import QueryStats, Stats, StoreStats, StreamStats
from watersmeet.home import layout
from watersmeet.home.counters import Reason
from watersmeet.home.manifest import Suspension
from watersmeet.home.tick_log import TickTimes


def _query(name: str, results: int, joins: str = "bids a ⋈ bids b") -> QueryStats:
    return QueryStats(name, 1, True, results, joins, "", "", False, None, 0)


def _stats(tick: int, rows: int, results: int) -> Stats:
    return Stats(
        True,
        tick,
        "plan",
        (StreamStats("bids", rows, {"late": 3, "failed_filters": 0}, None), StreamStats("idle", 0, {}, None)),
        (StoreStats("bids", 40, 123_456, 2),),
        (_query("hot", results),),
        {},
        (TickTimes(tick, 10, 5, 0.2, 0.1, 0.01, 0.0),),
        (),
    )


def test_rates_are_what_changed_between_two_looks() -> None:
    picture = Picture(_stats(9, 3000, 700), _stats(5, 1000, 200), 4.0, {})
    assert sum(picture.row_rates.values()) == 500
    assert picture.result_rates == {"hot": 125}
    assert picture.state_text == "state 123 kB"


def test_line_for_a_log() -> None:
    picture = Picture(_stats(9, 3000, 700), _stats(5, 1000, 200), 4.0, {})
    assert as_line(picture) == "tick 9 in 310 ms · so far 3,000 rows (500/s), 700 results · state 123 kB"
    assert as_line(picture, "detail") == "tick 9 · so far 3,000 rows (500/s), 700 results · detail"


def test_a_line_for_a_log_stays_short() -> None:
    suspended = Suspension(7, "a reason", "1")
    many = tuple(replace(_query(f"a_query_with_a_long_name_{at}", 10**10), suspended=suspended) for at in range(40))
    before, after = (replace(_stats(10**7, rows, 0), queries=many) for rows in (0, 10**12))
    line = as_line(Picture(after, before, 5.0, {}))
    assert line.endswith("40 suspended")
    assert len(line) <= 100
    long_demo = Picture(_stats(12_345, 123_456_789, 12_345_678), _stats(12_300, 123_000_000, 0), 5.0, {})
    assert len(f"3600 s · {as_line(long_demo, latency_text((0.999, 12.3)))}") <= 100


def test_a_log_gets_a_line_every_five_seconds() -> None:
    seconds = iter(range(1, 13))
    now = 0

    def finished() -> bool:
        nonlocal now
        now = next(seconds)
        return now == 12

    written = io.StringIO()
    show_until(Console(file=written), finished, lambda: "", lambda: f"second {now}", lambda: float(now))
    assert LOG_EVERY == 5
    assert written.getvalue().splitlines() == ["second 1", "second 6", "second 11"]


class _Terminal(io.StringIO):
    """One whose window is closed some time."""

    closed_window = False

    def write(self, text: str) -> int:
        if self.closed_window:
            raise OSError(errno.EIO, "Input/output error")
        return super().write(text)


def test_an_engine_goes_on_when_its_terminal_is_gone() -> None:
    terminal, looks = _Terminal(), 0

    def finished() -> bool:
        nonlocal looks
        looks += 1
        terminal.closed_window = True
        return looks == 3

    console = Console(file=terminal, force_terminal=True)
    show_until(console, finished, lambda: "a view", lambda: "")
    assert looks == 3
    with step(console, "stopping"):
        say(console, "done")


def test_a_disk_that_fails_is_no_terminal_that_is_gone() -> None:
    def finished() -> bool:
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output error"):
        show_until(Console(file=_Terminal(), force_terminal=True), finished, lambda: "a view", lambda: "")


def test_table_for_a_terminal() -> None:
    picture = Picture(_stats(9, 3000, 700), _stats(5, 1000, 200), 4.0, {"hot": (0.25, 1.5)})
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(as_table(picture))
    text = console.export_text()
    for piece in ("tick 9", "bids a ⋈ bids b", "250 ms", "1.5 s", "3 late", "123 kB"):
        assert piece in text
    assert "failed filters" not in text, "what did not happen is not mentioned"


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_figures_stay_in_a_narrow_terminal_and_joins_give_way(width: int) -> None:
    joins = "bids b ⋈ auctions a ⋈ persons seller ⋈ persons bidder"
    names = ("neighbours", "bidding_sellers")
    stats = replace(_stats(1234, 30_000, 0), queries=tuple(_query(name, 1_234_567, joins) for name in names))
    before = replace(_stats(1200, 20_000, 0), queries=tuple(_query(name, 1_224_567, joins) for name in names))
    picture = Picture(stats, before, 5.0, dict.fromkeys(names, (0.25, 1.5)))
    lines = _shown(as_table(picture), width)
    assert all(len(line) <= width for line in lines)
    for name in names:
        (line,) = (line for line in lines if line.startswith(name))
        assert line.split()[:7] == [name, "1,234,567", "2,000", "250", "ms", "1.5", "s"]
        assert ("⋈" in line) == (width >= 80)
        assert (joins in line) == (width == 160)
    (bids,) = (line for line in lines if line.startswith("bids"))
    assert bids.split()[:3] == ["bids", "30,000", "2,000"] and bids.endswith("3 late")
    assert ("123 kB" in bids) == (width >= 80)


def test_a_long_name_is_cut_before_a_figure_is() -> None:
    table = FiguresTable("query", "results", TableColumn("joins", text=True, leaves=1))
    table.add_row("a_name_of_a_query_that_is_very_long", "1,234,567", "a ⋈ b")
    assert _shown(table, 40)[-1] == "a_name_of_a_query_that_is_v…   1,234,567"


def _shown(what: RenderableType, width: int) -> list[str]:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(what)
    return [line.rstrip() for line in console.export_text().splitlines()]


@pytest.mark.parametrize(
    ("count", "text"),
    [(7, "7"), (999_999, "999,999"), (1_234_567, "1.2 M"), (5e9, "5.0 G"), (123.4e9, "123 G"), (7e12, "7.0 T")],
)
def test_counts(count: float, text: str) -> None:
    assert short_count(count) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (123_456_789, "123 MB"), (5e12, "5000 GB")]
)
def test_bytes(count: float, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.0004, "0 ms"), (0.25, "250 ms"), (12.34, "12.3 s")])
def test_seconds(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_a_table_in_a_file_is_as_wide_as_it_needs_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    table = FiguresTable("query", "a heading that is long", TableColumn("joins", text=True, leaves=1))
    table.add_row("hot", "1", " ⋈ ".join(["bids b"] * 20))
    print_table(table)
    shown = capsys.readouterr().out
    assert "a heading that is long" in shown
    assert " ⋈ ".join(["bids b"] * 20) in shown


def test_one_file_is_not_files() -> None:
    one = {"late": 1, "unreadable files": 1, "lost messages": 0, "failed_filters": 2}
    assert set_aside_text(one) == "1 late, 1 unreadable file, 2 failed filters"


def test_a_summary_has_why_files_were_set_aside(tmp_path: Path) -> None:
    listing = layout.rejected_files(tmp_path, "orders")
    listing.parent.mkdir(parents=True)
    reasons = {
        "/in/0": "it has changed after it was read, and is not read again",
        "/in/1": "stream orders: /in/1 has amount as DECIMAL(10,2); the stream declares BIGINT",
        "/in/2": "stream orders: /in/2 has no column amount",
    }
    lines = (json.dumps({"file": file, "because": because}) for file, because in reasons.items())
    listing.write_text("".join(f"{line}\n" for line in lines))
    counts: dict[str, int] = {Reason.LATE: 3, Reason.UNREADABLE_FILE: 2}
    expected = "2 files set aside: has amount as DECIMAL(10,2); the stream declares BIGINT"
    assert set_aside_of(tmp_path, StreamStats("orders", 0, counts, None)) == f"3 late, {expected}"
    assert set_aside_of(tmp_path, StreamStats("other", 0, {"unreadable files": 1}, None)) == "1 file set aside"
    assert set_aside_of(tmp_path, StreamStats("other", 0, {}, None)) == ""
