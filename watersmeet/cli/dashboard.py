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
    suspended_text,
)
from watersmeet.control.stats import Stats
from watersmeet.engine import Engine
from watersmeet.home.manifest import Suspension

RATE_OVER = 5.0  # seconds; shorter jumps with every tick, longer hides a change
_BARS = "▁▂▃▄▅▆▇█"

Latency = tuple[float, float]  # median and 95th percentile, in seconds


@dataclass(frozen=True)
class StreamLine:
    name: str
    rows: int
    per_second: float
    set_aside: Mapping[str, int]
    stored_rows: int
    stored_bytes: int


@dataclass(frozen=True)
class QueryLine:
    name: str
    joins: str
    results: int
    per_second: float
    latency: Latency | None = None
    suspended: Suspension | None = None


@dataclass(frozen=True)
class Picture:
    tick: int
    rows_per_second: float
    streams: tuple[StreamLine, ...]
    queries: tuple[QueryLine, ...]
    tick_times: tuple[float, ...] = ()  # of this run, oldest first

    @property
    def rows(self) -> int:
        return sum(stream.rows for stream in self.streams)

    @property
    def state_bytes(self) -> int:
        return sum(stream.stored_bytes for stream in self.streams)


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
        seconds = max(now - then, 1e-9)
        return make_picture(stats, before, seconds, latency or {})


def make_picture(stats: Stats, before: Stats, seconds: float, latency: Mapping[str, Latency]) -> Picture:
    """The figures now, with rates over the `seconds` since `before`."""
    rows_before = {stream.name: stream.rows for stream in before.streams}
    results_before = {query.name: query.results for query in before.queries}
    stores = {store.name: store for store in stats.stores}
    streams = []
    for stream in stats.streams:
        store = stores.get(stream.name)
        grown = stream.rows - rows_before.get(stream.name, 0)
        stored = (store.rows, store.bytes) if store else (0, 0)
        streams.append(StreamLine(stream.name, stream.rows, grown / seconds, stream.set_aside, *stored))
    queries = tuple(
        QueryLine(
            name=query.name,
            joins=query.joins,
            results=query.results,
            per_second=(query.results - results_before.get(query.name, 0)) / seconds,
            latency=latency.get(query.name),
            suspended=query.suspended,
        )
        for query in stats.queries
    )
    rate = sum(stream.per_second for stream in streams)
    return Picture(stats.tick, rate, tuple(streams), queries, tuple(tick.total for tick in stats.ticks))


def as_line(picture: Picture, detail: str = "") -> str:
    """One short line for a log, with the last tick, all rows and results so far, and the state or another detail. A
    suspended query is only counted: a warning has its name."""
    lasted = f" in {seconds_text(picture.tick_times[-1])}" if picture.tick_times and not detail else ""
    suspended = sum(query.suspended is not None for query in picture.queries)
    pieces = (
        f"tick {picture.tick:,}{lasted}",
        f"so far {short_count(picture.rows)} rows ({short_count(picture.rows_per_second)}/s), "
        f"{short_count(sum(query.results for query in picture.queries))} results",
        detail or f"state {bytes_text(picture.state_bytes)}",
        f"{suspended:,} suspended" if suspended else "",
    )
    return " · ".join(piece for piece in pieces if piece)


def as_table(picture: Picture) -> RenderableType:
    """The whole picture for a terminal."""
    suspended = [
        Text(f" {suspended_text(query.name, query.suspended)}", "red") for query in picture.queries if query.suspended
    ]
    return Group(_summary(picture), Text(), stream_table(picture), Text(), query_table(picture), *suspended)


def _summary(picture: Picture) -> Text:
    line = Text(" ", no_wrap=True, overflow="crop")
    line.append(f"tick {picture.tick:,}", "bold")
    line.append(f" · {picture.rows_per_second:,.0f} rows/s · state {bytes_text(picture.state_bytes)}")
    if picture.tick_times:
        line.append(f" · last tick {seconds_text(picture.tick_times[-1])}")
        line.append(f"  {_sparkline(picture.tick_times[-16:])}", "cyan")
    return line


def stream_table(picture: Picture) -> FiguresTable:
    stored = (TableColumn("stored rows", leaves=2), TableColumn("stored bytes", leaves=1))
    table = FiguresTable("stream", "rows", "rows/s", *stored, TableColumn("set aside", text=True))
    for stream in picture.streams:
        table.add_row(
            stream.name,
            f"{stream.rows:,}",
            f"{stream.per_second:,.0f}",
            f"{stream.stored_rows:,}",
            bytes_text(stream.stored_bytes),
            set_aside_text(stream.set_aside) or "–",
        )
    return table


def query_table(picture: Picture) -> FiguresTable:
    measured = any(query.latency for query in picture.queries)
    joins = TableColumn("joins", text=True, leaves=1, style="dim")
    table = FiguresTable("query", "results", "per s", *(("latency p50", "p95") if measured else ()), joins)
    for query in picture.queries:
        latency = [seconds_text(value) for value in query.latency] if query.latency else ["–", "–"]
        table.add_row(
            query.name,
            f"{query.results:,}",
            f"{query.per_second:,.0f}",
            *(latency if measured else ()),
            query.joins,
        )
    return table


def _sparkline(values: tuple[float, ...]) -> str:
    top = max(values) or 1.0
    return "".join(_BARS[min(len(_BARS) - 1, int(value / top * len(_BARS)))] for value in values)
