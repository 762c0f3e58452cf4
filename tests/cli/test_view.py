"""The picture of a running engine, from figures made up here."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from watersmeet.cli.dashboard import as_line, as_table, make_picture
from watersmeet.cli.tables import bytes_text, print_table, seconds_text, table_of
from watersmeet.control.stats import QueryStats, Stats, StoreStats, StreamStats
from watersmeet.home.tick_log import TickTimes


def _stats(tick: int, rows: int, results: int) -> Stats:
    return Stats(
        True,
        tick,
        "plan",
        (StreamStats("bids", rows, {"late": 3, "failed_filters": 0}, None), StreamStats("idle", 0, {}, None)),
        (StoreStats("bids", 40, 123_456, 2),),
        (QueryStats("hot", 1, True, results, "bids a ⋈ bids b", "", "", False, None, 0),),
        {},
        (TickTimes(tick, 10, 5, 0.2, 0.1, 0.01, 0.0),),
        (),
    )


def test_rates_are_what_changed_between_two_looks() -> None:
    picture = make_picture(_stats(9, 3000, 700), _stats(5, 1000, 200), 4.0, {})
    assert picture.rows_per_second == 500
    assert picture.queries[0].per_second == 125
    assert picture.state_bytes == 123_456


def test_line_for_a_log() -> None:
    picture = make_picture(_stats(9, 3000, 700), _stats(5, 1000, 200), 4.0, {})
    assert as_line(picture) == "tick 9 · 3,000 rows (500/s) · hot 700 · state 123 kB · last tick 310 ms"


def test_table_for_a_terminal() -> None:
    picture = make_picture(_stats(9, 3000, 700), _stats(5, 1000, 200), 4.0, {"hot": (0.25, 1.5)})
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(as_table(picture))
    text = console.export_text()
    for piece in ("tick 9", "bids a ⋈ bids b", "250 ms", "1.5 s", "3 late", "123 kB"):
        assert piece in text
    assert "failed filters" not in text, "what did not happen is not mentioned"


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (123_456_789, "123 MB"), (5e12, "5000 GB")]
)
def test_bytes(count: float, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.0004, "0 ms"), (0.25, "250 ms"), (12.34, "12.3 s")])
def test_seconds(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_a_table_in_a_file_is_as_wide_as_it_needs_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    table = table_of("query", "a heading that is long", "joins")
    table.add_row("hot", "1", " ⋈ ".join(["bids b"] * 20))
    print_table(table)
    shown = capsys.readouterr().out
    assert "a heading that is long" in shown
    assert " ⋈ ".join(["bids b"] * 20) in shown
