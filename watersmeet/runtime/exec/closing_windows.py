"""The windows that a tick closes: those made of slices in one order, those that Spark computes in jobs of their own."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.errors import WatersmeetError
from watersmeet.runtime.exec.executor import Executor
from watersmeet.runtime.tick.orders import BatchOrder, GatherReport, ProbeReport, raise_first
from watersmeet.runtime.tick.tick import Tick
from watersmeet.runtime.windows.turns import Turns


class ClosingWindows:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._turns = Turns()

    def filled(self, tick: Tick) -> list[GatherReport]:
        """What stored rows become in slice stores that are new."""
        order = tick.fill_order() if tick.windowed else None
        if order is None or not order.tasks:
            return []
        reports: list[GatherReport] = self._executor.submit(order).result()
        raise_first(reports)
        return reports

    def of_slices(
        self, tick: Tick, gathered: Sequence[GatherReport], probed: Sequence[ProbeReport]
    ) -> list[ProbeReport]:
        order = tick.slices_order(gathered, probed)
        if order is None or not order.tasks:
            return []
        reports: list[ProbeReport] = self._executor.submit(order).result()
        raise_first(reports)
        return reports

    def of_batches(self, tick: Tick, gathered: Sequence[GatherReport]) -> list[ProbeReport]:
        """Windows that Spark computes from rows, up to the limit of a tick. The others are left to the next ticks."""
        if not any(query.form.reads_rows for query in tick.windowed):
            return []
        closing = tick.closing(gathered)
        order = closing.occupied_order()
        found = self._executor.submit(order).result() if order.asked else []
        for problem in found:
            if isinstance(problem, WatersmeetError):
                raise problem
        waiting = [(due.query, buckets, starts) for (due, _, buckets), starts in zip(order.asked, found, strict=True)]
        waiting = [each for each in waiting if each[2]]
        active = {query.name for query in tick.windowed}
        most = order.limit or len(waiting)
        chosen = self._turns.take([query for query, *_ in waiting], most, tick.number, active)
        asked: list[list[BatchOrder]] = []
        left: dict[str, int] = {}
        for query, buckets, starts in waiting:
            count = order.share if query in chosen else 0
            asked.append([closing.batch_order(query, start, buckets) for start in starts[:count]])
            if count is not None and len(starts) > count:
                left[query] = starts[count]
        return [*self._executor.windows(filter(None, asked)), ProbeReport(left=left)] if asked else []
