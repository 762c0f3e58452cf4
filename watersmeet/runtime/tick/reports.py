"""All that the tasks of one tick have reported, and how long they took."""

from __future__ import annotations

import time
from dataclasses import dataclass

from watersmeet.home.manifest import ResultFile
from watersmeet.home.tick_log import TickTimes
from watersmeet.runtime.tick.orders import GatherReport, MergeReport, TaskReport


@dataclass
class Reports:
    gathered: list[GatherReport]
    probed: list[TaskReport]
    merged: list[MergeReport]
    gather_seconds: float
    probe_seconds: float

    @property
    def results(self) -> list[ResultFile]:
        return [file for report in self.probed for file in report.results]

    @property
    def leaves_windows(self) -> bool:
        """Whether windows that are due are left to the next ticks."""
        return any(report.left for report in self.probed)

    def times(self, tick: int, commit_seconds: float) -> TickTimes:
        rows = sum(report.counts.rows.total() for report in self.gathered)
        results = sum(file.rows for file in self.results)
        return TickTimes(
            tick, rows, results, self.gather_seconds, self.probe_seconds, commit=commit_seconds, finished_at=time.time()
        )
