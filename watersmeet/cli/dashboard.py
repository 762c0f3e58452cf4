"""The live view of a running engine: one Picture, shown as a table or as a line of text."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from watersmeet.cli.tables import (
    FiguresTable,
    TableColumn,
    bytes_text,
    seconds_text,
    set_aside_text,
    short_count,
    state_text,
    suspended_text,
)
from watersmeet.control.stats import Stats, StoreStats
from watersmeet.engine import Engine

RATE_OVER = 5.0  # seconds; shorter jumps with every tick, longer hides a change
_BARS = "▁▂▃▄▅▆▇█"

_NOTHING_STORED = StoreStats("", 0, 0, 0)
Latency = tuple[float, float]  # median and 95th percentile, in seconds


@dataclass(frozen=True)
class Picture:
    """The statistics now; rates are over the `seconds` since those of `before`."""

    now: Stats
    before: Stats
    seconds: float
    latency: Mapping[str, Latency]  # by query

    @property
    def row_rates(self) -> dict[str, float]:
        """The rows of each stream per second."""
        before = {stream.name: stream.rows for stream in self.before.streams}
        return {stream.name: (stream.rows - before.get(stream.name, 0)) / self.seconds for stream in self.now.streams}

    @property
    def result_rates(self) -> dict[str, float]:
        """The results of each query per second."""
        before = {query.name: query.results for query in self.before.queries}
        return {query.name: (query.results - before.get(query.name, 0)) / self.seconds for query in self.now.queries}

    @property
    def stored(self) -> dict[str, StoreStats]:
        """The store of each stream."""
        stores = {store.name: store for store in self.now.stores}
        return {stream.name: stores.get(stream.name, _NOTHING_STORED) for stream in self.now.streams}

    @property
    def state_text(self) -> str:
        return state_text(self.now)

    @property
    def tick_times(self) -> tuple[float, ...]:
        """Of this run, the oldest first."""
        return tuple(tick.total for tick in self.now.ticks)


class StatsWatch:
    """Reads the statistics of an engine repeatedly; the differences give the rates."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._looks: deque[tuple[float, Stats]] = deque()

    def look(self, latency: Mapping[str, Latency] | None = None) -> Picture:
        now, stats = time.monotonic(), self._engine.stats()
        self._looks.append((now, stats))
        while len(self._looks) > 2 and self._looks[1][0] <= now - RATE_OVER:
            self._looks.popleft()
        then, before = self._looks[0]
        return Picture(stats, before, max(now - then, 1e-9), latency or {})


def as_line(picture: Picture, detail: str = "") -> str:
    """One short line for a log, with the last tick, all rows and results so far, and the state or another detail. A
    suspended query is only counted: a warning has its name."""
    lasted = f" in {seconds_text(picture.tick_times[-1])}" if picture.tick_times and not detail else ""
    now = picture.now
    suspended = sum(query.suspended is not None for query in now.queries)
    rows, results = sum(stream.rows for stream in now.streams), sum(query.results for query in now.queries)
    pieces = (
        f"tick {now.tick:,}{lasted}",
        f"so far {short_count(rows)} rows ({short_count(sum(picture.row_rates.values()))}/s), "
        f"{short_count(results)} results",
        detail or picture.state_text,
        f"{suspended:,} suspended" if suspended else "",
    )
    return " · ".join(piece for piece in pieces if piece)


def as_table(picture: Picture) -> RenderableType:
    """The whole picture for a terminal."""
    suspended = [
        Text(f" {suspended_text(each.name, each.suspended)}", "red") for each in picture.now.queries if each.suspended
    ]
    return Group(_summary(picture), Text(), stream_table(picture), Text(), query_table(picture), *suspended)


def _summary(picture: Picture) -> Text:
    line = Text(" ", no_wrap=True, overflow="crop")
    line.append(f"tick {picture.now.tick:,}", "bold")
    line.append(f" · {sum(picture.row_rates.values()):,.0f} rows/s · {picture.state_text}")
    if picture.tick_times:
        line.append(f" · last tick {seconds_text(picture.tick_times[-1])}")
        line.append(f"  {_sparkline(picture.tick_times[-16:])}", "cyan")
    return line


def stream_table(picture: Picture) -> FiguresTable:
    stored = (TableColumn("stored rows", leaves=2), TableColumn("stored bytes", leaves=1))
    table = FiguresTable("stream", "rows", "rows/s", *stored, TableColumn("set aside", text=True))
    rates, stores = picture.row_rates, picture.stored
    for stream in picture.now.streams:
        store = stores[stream.name]
        table.add_row(
            stream.name,
            f"{stream.rows:,}",
            f"{rates[stream.name]:,.0f}",
            f"{store.rows:,}",
            bytes_text(store.bytes),
            set_aside_text(stream.set_aside) or "–",
        )
    return table


def query_table(picture: Picture) -> FiguresTable:
    measured = any(query.name in picture.latency for query in picture.now.queries)
    joins = TableColumn("joins", text=True, leaves=1, style="dim")
    table = FiguresTable("query", "results", "per s", *(("latency p50", "p95") if measured else ()), joins)
    rates = picture.result_rates
    for query in picture.now.queries:
        known = picture.latency.get(query.name)
        latency = [seconds_text(value) for value in known] if known else ["–", "–"]
        rate = f"{rates[query.name]:,.0f}"
        table.add_row(query.name, f"{query.results:,}", rate, *(latency if measured else ()), query.joins)
    return table


def _sparkline(values: tuple[float, ...]) -> str:
    top = max(values) or 1.0
    return "".join(_BARS[min(len(_BARS) - 1, int(value / top * len(_BARS)))] for value in values)
