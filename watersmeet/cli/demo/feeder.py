"""Puts the demo's events into files as they happen, a few times a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.cli.demo.events import EPOCH, AuctionSite

SLICE = 0.5  # seconds of events in one file of each stream; opening a file costs Spark more than its rows do
HISTORY = 20 * EPOCH  # events from before the clock starts, for Spark's slow first tick


class Feeder(threading.Thread):
    """Writes files of events at a steady rate for some seconds.

    Each file is written aside and renamed, so a reader sees all of it or nothing. The feeder remembers when
    which events became visible: that is where the latency of their results begins.
    """

    def __init__(self, folder: Path, rate: float, seconds: float) -> None:
        super().__init__(name="watersmeet demo feeder", daemon=True)
        self._folder = folder
        # The site's clock stands still during the first tick, so that every demo has the same results.
        self._site = AuctionSite(int(time.time() * 1e6), rate)
        self._seconds = seconds
        self._end = threading.Event()
        self._files = 0
        self._arrivals: list[tuple[int, float]] = []  # (time of a slice's last event, when it became visible)
        self.started_at = 0.0
        self.failure: Exception | None = None
        self.newest: dict[str, int] = {}  # stream -> time of its last event so far
        for stream in ("persons", "auctions", "bids", "_drafts"):
            (folder / stream).mkdir(parents=True, exist_ok=True)

    def write_history(self) -> None:
        """The first events, all at once; their latency is not measured."""
        self._write(self._site.tables(0, HISTORY))

    def run(self) -> None:
        try:
            self._feed()
        except Exception as problem:  # the one who waits for the end raises it
            self.failure = problem

    def finish(self) -> None:
        """End before the time is over."""
        self._end.set()
        if self.is_alive():
            self.join()

    @property
    def elapsed(self) -> float:
        return min(time.monotonic() - self.started_at, self._seconds) if self.started_at else 0.0

    def arrival(self, happened: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """When the events of these times (microseconds) became visible; NaN for those of the history."""
        arrivals = list(self._arrivals)
        if not arrivals:
            return np.full(len(happened), np.nan)
        ends = np.array([end for end, _ in arrivals])
        visible = np.array([at for _, at in arrivals])
        found = visible[np.minimum(np.searchsorted(ends, happened), len(ends) - 1)]
        return np.where(happened >= self._site.time_of(HISTORY), found, np.nan)

    def _feed(self) -> None:
        self.started_at = time.monotonic()
        opening = self._site.time_of(HISTORY)
        begin, due = HISTORY, 0.0
        while not self._end.is_set() and due < self._seconds:
            due = min(due + SLICE, self._seconds)
            self._end.wait(max(0.0, self.started_at + due - time.monotonic()))
            end = self._site.first_at(opening + int(due * 1e6))
            if end > begin:
                self._arrivals.append((self._site.time_of(end - 1), self._write(self._site.tables(begin, end))))
                begin = end

    def _write(self, tables: Mapping[str, pa.Table]) -> float:
        """Make one file of each stream visible; returns the moment before the first of them was."""
        self._files += 1
        moves = []
        for stream, rows in tables.items():
            if rows.num_rows:
                draft = self._folder / "_drafts" / stream
                pq.write_table(rows, draft)
                moves.append((draft, self._folder / stream / f"{self._files:06d}.parquet"))
                self.newest[stream] = rows.column("at").cast(pa.int64())[-1].as_py()
        visible = time.time()
        for draft, final in moves:
            draft.rename(final)
        return visible
