"""The latency of results: the time from a file's arrival to the results of its rows, measured on the results."""

from __future__ import annotations

import time
from collections import deque

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.cli.dashboard import Latency
from watersmeet.cli.demo.feeder import Feeder
from watersmeet.control.stats import Stats
from watersmeet.engine import Engine
from watersmeet.home import layout

RECENT = 10.0  # seconds
_Measured = tuple[float, npt.NDArray[np.float32]]  # when a tick was committed, and the latency of each of its results
_KEPT_AT_MOST = 200_000  # values a query and tick, so that a long demo at a high rate does not fill the memory


class Latencies:
    """A result is there when its tick is committed. It was due when its last event was in a readable file.

    Each result carries the time of its last event, and the feeder knows when that event became readable. So
    every single result is measured, not an average over ticks.
    """

    def __init__(self, engine: Engine, feeder: Feeder) -> None:
        self._feeder = feeder
        # Queries that are added from outside have no column with the time of their events.
        timed = [handle for handle in engine.queries if any(out.name == "happened" for out in handle.query.outputs)]
        self._folders = {handle.name: handle.folder for handle in timed}
        self._measured: dict[str, deque[_Measured]] = {name: deque() for name in self._folders}
        self._seen = engine.stats().tick

    def update(self, stats: Stats) -> None:
        """Read the result files of the ticks that were not seen before."""
        for tick in stats.ticks:
            if tick.tick > self._seen:
                self._seen = tick.tick
                for query, folder in self._folders.items():
                    files = folder.glob(layout.data_files(tick.tick, "parquet"))
                    values = [self._read(file, tick.finished_at) for file in files]
                    if values:
                        together = np.concatenate(values)[:_KEPT_AT_MOST]
                        self._measured[query].append((tick.finished_at, together))

    def recent(self) -> dict[str, Latency]:
        """The latencies of each query that had results lately."""
        return self._summary(time.time() - RECENT)

    def whole_run(self) -> dict[str, Latency]:
        return self._summary(0.0)

    def _summary(self, since: float) -> dict[str, Latency]:
        found = {}
        for query, measured in self._measured.items():
            values = [seconds for at, seconds in measured if at >= since]
            together = np.concatenate(values) if values else np.empty(0)
            if len(together):
                median, high = np.quantile(together, (0.5, 0.95))
                found[query] = (float(median), float(high))
        return found

    def _read(self, file: object, visible_at: float) -> npt.NDArray[np.float32]:
        happened = pq.read_table(file, columns=["happened"]).column(0).cast(pa.timestamp("us")).cast(pa.int64())
        latency = visible_at - self._feeder.arrival(np.asarray(happened))
        return latency[~np.isnan(latency)].astype(np.float32)
