"""The windows that a tick closes, as the driver has them computed: by orders to tasks, and by jobs of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from watersmeet.runtime.exec.executor import Executor
from watersmeet.runtime.tick.orders import GatherReport, Order, TaskReport, raise_first
from watersmeet.runtime.tick.tick import Tick
from watersmeet.windows.closing import Closing
from watersmeet.windows.sql.spark import SparkWindows
from watersmeet.windows.workers import fills, window_orders


class Driving(Protocol):
    """The part of an operator that starts jobs of Spark."""

    def drive(self, closing: Closing, by_tasks: Sequence[TaskReport]) -> list[TaskReport]:
        """Compute the windows that are due, and what tasks have left to Spark."""

    def close(self) -> None: ...


DRIVERS: tuple[Callable[[Executor], Driving], ...] = (SparkWindows,)


class ClosingWindows:
    def __init__(self, executor: Executor, drivers: Iterable[Callable[[Executor], Driving]] = DRIVERS) -> None:
        self._executor = executor
        self.drivers = [make(executor) for make in drivers]

    def filled(self, tick: Tick) -> list[GatherReport]:
        """What stored rows become in stores that are new."""
        return self._executed(fills(tick.closing(()))) if tick.windows.filled else []

    def by_tasks(self, tick: Tick, gathered: Sequence[GatherReport], probed: Sequence[TaskReport]) -> list[TaskReport]:
        return self._executed(window_orders(tick.closing(gathered, probed))) if tick.windowed else []

    def by_spark(self, tick: Tick, gathered: Sequence[GatherReport], probed: Sequence[TaskReport]) -> list[TaskReport]:
        if not tick.windowed:
            return []
        closing = tick.closing(gathered)
        return [report for driver in self.drivers for report in driver.drive(closing, probed)]

    def close(self) -> None:
        for driver in self.drivers:
            driver.close()

    def _executed(self, orders: Sequence[Order]) -> list[Any]:
        running = [self._executor.submit(order) for order in orders]
        reports = [report for each in running for report in each.result()]
        raise_first(reports)
        return reports
