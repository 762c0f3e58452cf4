"""The probes of a tick: by one task if they take it so little time that sharing them out costs more than it saves."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.home.counters import KEEPING, RESULTS, SLICING
from watersmeet.runtime.exec.executor import Executor
from watersmeet.runtime.tick import tick as ticks
from watersmeet.runtime.tick.orders import GatherReport, ProbeOrder, TaskReport, raise_first
from watersmeet.runtime.tick.tick import Tick, walk_phases
from watersmeet.runtime.tick.whole_tick import WalkOrder

# Microseconds of CPU time. A second task writes files of its own in each phase, some 20 ms of a tick, and keeps a
# core from gathering the next tick.
SHORT = 100_000


class Probing:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._micros = 0.0  # that a new row took in the last tick; 0: not known

    def probe(self, tick: Tick, gathered: Sequence[GatherReport]) -> list[TaskReport]:
        stored = {store.name for store in tick.rules.probed}
        rows = sum(bucket.rows for report in gathered for bucket in report.buckets if bucket.store in stored)
        probed = self._by_one(tick, gathered) if self._is_for_one(tick, rows) else self._by_phase(tick, gathered)
        spent = sum(_micros(report) for report in probed)
        if rows >= ticks.MIN_ROWS:  # fewer tell little
            self._micros = spent / rows
        return probed

    def _is_for_one(self, tick: Tick, rows: int) -> bool:
        if tick.rules.partitions > 1:
            return False
        if self._executor.parallelism == 1:
            return True
        if 0 in tick.phases():  # stored rows are probed too
            return False
        return rows < 2 * ticks.MIN_ROWS or 0 < rows * self._micros < SHORT

    def _by_one(self, tick: Tick, gathered: Sequence[GatherReport]) -> list[TaskReport]:
        new = tuple(GatherReport(report.stream, report.buckets, newest=report.newest) for report in gathered)
        probed = self._executor.submit(WalkOrder(tick.home, tick.lightened(), new, tick.rules)).result()
        raise_first(probed)
        return probed

    def _by_phase(self, tick: Tick, gathered: Sequence[GatherReport]) -> list[TaskReport]:
        def phase(order: ProbeOrder) -> list[TaskReport]:
            return self._executor.exchange(order) if order.exchanges else self._executor.submit(order).result()

        return walk_phases(tick, gathered, self._executor.parallelism, phase)


def _micros(report: TaskReport) -> int:
    counts = report.counts
    return counts.step_micros.total() + sum(counts.spent[stage] for stage in (RESULTS, KEEPING, SLICING))
