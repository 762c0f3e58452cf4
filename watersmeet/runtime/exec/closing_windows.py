"""The windows that a tick closes: those that Spark computes are jobs of their own, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet import points
from watersmeet.errors import WatersmeetError
from watersmeet.runtime.exec.executor import Executor
from watersmeet.runtime.tick.orders import GatherReport, ProbeReport
from watersmeet.runtime.tick.tick import Tick


class ClosingWindows:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def close(self, tick: Tick, gathered: Sequence[GatherReport]) -> list[ProbeReport]:
        """What the tasks report of all windows that are due, and that the tick's other orders did not compute."""
        order = tick.batches_due(gathered) if tick.windowed else None
        if order is None or not order.asked:
            return []
        reports: list[ProbeReport] = []
        given_up: set[str] = set()
        found = self._executor.submit(order).result()
        for (due, _, buckets), starts in zip(order.asked, found, strict=False):
            if isinstance(starts, WatersmeetError):
                raise starts
            for start in starts:
                if due.query not in given_up:
                    made = self._executor.window(tick.batch_order(due.query, start, buckets))
                    points.reach("window.after")
                    reports += made
                    given_up.update(*(report.suspended for report in made))
        return reports
