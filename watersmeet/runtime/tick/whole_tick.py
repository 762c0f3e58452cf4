"""Orders that have one task do all that is left of a tick, and the report of a whole tick."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from watersmeet.home.manifest import ResultFile
from watersmeet.home.tick_log import TickTimes
from watersmeet.plan.ruleset import Ruleset
from watersmeet.runtime.tick.orders import GatherOrder, GatherReport, MergeOrder, MergeReport, TaskReport
from watersmeet.runtime.tick.tick import Tick


@dataclass(frozen=True)
class WalkOrder:
    """All phases of a tick that is gathered, for one task: what it stores in one phase, the next ones have at hand."""

    home: str
    tick: Tick
    gathered: tuple[GatherReport, ...]
    rules: Ruleset

    tasks = 1


@dataclass(frozen=True)
class TickOrder:
    """All of a tick of few rows, for one task: it reads, merges and probes without requests in between."""

    tick: Tick
    gather: GatherOrder
    merges: MergeOrder

    tasks = 1

    @property
    def rules(self) -> Ruleset:
        return self.gather.rules


@dataclass
class TickReport:
    """All that the tasks of one tick have reported, and how long they took."""

    gathered: list[GatherReport]
    probed: list[TaskReport]
    merged: list[MergeReport]
    seconds: tuple[float, float]  # of gathering, and of the rest
    released: list[TaskReport] = field(default_factory=list)  # of results that have waited

    @property
    def results(self) -> list[ResultFile]:
        """The files of results that were found in the tick."""
        return [file for report in self.probed for file in report.results]

    @property
    def staged(self) -> list[ResultFile]:
        return [file for report in (*self.probed, *self.released) for file in report.results]

    @property
    def leaves_windows(self) -> bool:
        """Whether windows that are due are left to the next ticks."""
        return any(report.left for report in self.probed)

    @property
    def held(self) -> dict[str, int]:
        """The memory that workers keep for the windows of the next ticks, by worker."""
        return dict(report.held for report in self.probed if report.held is not None)

    def times(self, tick: int, commit_seconds: float, held: int) -> TickTimes:
        rows = sum(report.counts.rows.total() for report in self.gathered)
        results = sum(file.rows for file in self.results)
        results += sum(each.file.rows for report in self.probed for each in report.waiting)
        released = sum(file.rows for report in self.released for file in report.results)
        ended = time.time()
        return TickTimes(tick, rows, results, *self.seconds, commit_seconds, ended, held, released)
