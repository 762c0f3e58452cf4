"""The windows that a tick closes: those made of slices in one order, those that Spark computes in jobs of their own."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.errors import WatersmeetError
from watersmeet.model.windowed import Batch
from watersmeet.runtime.exec.executor import Executor
from watersmeet.runtime.tick.orders import BatchOrder, GatherReport, ProbeReport, raise_first
from watersmeet.runtime.tick.tick import Tick


class ClosingWindows:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

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
        if not any(isinstance(query.body, Batch) for query in tick.windowed):
            return []
        closing = tick.closing(gathered)
        order = closing.occupied_order()
        found = self._executor.submit(order).result() if order.asked else []
        asked: list[list[BatchOrder]] = []
        left: dict[str, int] = {}
        for (due, _, buckets), starts in zip(order.asked, found, strict=True):
            if isinstance(starts, WatersmeetError):
                raise starts
            asked.append([closing.batch_order(due.query, start, buckets) for start in starts[: order.share]])
            left.update((due.query, start) for start in starts[order.share :][:1] if order.share)
        return [*self._executor.windows(asked), ProbeReport(left=left)] if asked else []
