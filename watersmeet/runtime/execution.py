"""How a tick is executed once it has begun: as one order if it has few rows, otherwise in parts. Beside the parts the
next tick is gathered."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from watersmeet import points
from watersmeet.home.manifest import Manifest
from watersmeet.runtime.exec.batches import Batch
from watersmeet.runtime.exec.executor import Executor, Rank
from watersmeet.runtime.exec.probing import Probing
from watersmeet.runtime.tick.computation import compute_orders, computed
from watersmeet.runtime.tick.orders import GatherReport, MergeOrder, MergeReport, raise_first
from watersmeet.runtime.tick.overload import Overload
from watersmeet.runtime.tick.tick import Tick
from watersmeet.runtime.tick.whole_tick import TickOrder, TickReport
from watersmeet.store.merge import MergeJob
from watersmeet.windows.drivers import ClosingWindows

Gathered = Sequence[GatherReport]


@dataclass
class Begun:
    """A tick that has begun: it follows the plan of that moment."""

    batch: Batch | None
    tick: Tick
    gathering: Future[list[GatherReport]] | None = None


class Execution:
    def __init__(self, executor: Executor, notify: Callable[[Gathered], None]) -> None:
        """`notify` gets what was gathered from a batch."""
        self._executor = executor
        self._notify = notify
        self._probing = Probing(executor)
        self.merges = MergesBeside(executor)
        self.windows = ClosingWindows(executor)

    def run(self, begun: Begun, gather_ahead: Callable[[Tick, Gathered], None]) -> tuple[Tick, TickReport]:
        """Everything of a tick but its commit. The tick that is returned is one in which all buckets have the columns
        that Spark computes. `gather_ahead` is called once the tick is gathered, unless it is one order."""
        releasing = self._executor.submit(begun.tick.release_order()) if begun.tick.release else None
        if begun.batch is not None and self._is_one_order(begun, begun.batch):
            tick, report = begun.tick, self._as_one_order(begun.tick, begun.batch)
        else:
            tick, report = self._in_parts(begun, gather_ahead)
        if releasing is not None:
            report.released = releasing.result()
            raise_first(report.released)
            points.reach("release.after")
        return tick, report

    def _is_one_order(self, begun: Begun, batch: Batch) -> bool:
        rules = begun.tick.rules
        may_be = begun.gathering is None and rules.partitions == 1 and not rules.by_spark
        may_be = may_be and not begun.tick.windows.filled
        return may_be and batch.bytes is not None and batch.bytes <= self._executor.few_bytes

    def _as_one_order(self, tick: Tick, batch: Batch) -> TickReport:
        small, large = tick.merge_orders(self.merges.running)
        self.merges.begin(large)
        # What the task does not need does not travel.
        order = TickOrder(tick.lightened(), batch.shared_out(tick.begin(), 1), small)
        report: TickReport
        (report,) = self._executor.submit(order).result()
        report.gathered = self._whole(batch, report.gathered)
        self._notify(report.gathered)
        raise_first(report.merged)
        raise_first(report.probed)
        began = time.perf_counter()
        report.probed += self.windows.by_spark(tick, report.gathered, report.probed)
        gathering, rest = report.seconds
        report.seconds = gathering, rest + time.perf_counter() - began
        return report

    def _in_parts(self, begun: Begun, gather_ahead: Callable[[Tick, Gathered], None]) -> tuple[Tick, TickReport]:
        tick, batch = begun.tick, begun.batch
        began = time.perf_counter()
        gathered: list[GatherReport] = []
        if batch is not None:
            gathering = begun.gathering or batch.gather(tick.begin(), self._executor, Rank.TICK)
            gathered = self._whole(batch, gathering.result())
        for order in compute_orders(tick, gathered):
            made = self._executor.compute(order)
            raise_first([report.made for report in made])
            tick, gathered = computed(tick, gathered, made)
        if batch is not None:
            self._notify(gathered)
        gathered += self.windows.filled(tick)
        at_gathered = time.perf_counter()
        small, large = tick.merge_orders(self.merges.running)
        merging = self._executor.submit(small)
        self.merges.begin(large)
        gather_ahead(tick, gathered)
        probed = self._probing.probe(tick, gathered)
        probed += self.windows.by_tasks(tick, gathered, probed)
        probed += self.windows.by_spark(tick, gathered, probed)
        merged = merging.result()
        raise_first(merged)
        seconds = at_gathered - began, time.perf_counter() - at_gathered
        return tick, TickReport(gathered, probed, merged, seconds)

    def _whole(self, batch: Batch, gathered: list[GatherReport]) -> list[GatherReport]:
        """What a batch has become, with what else is to be reported of its input."""
        raise_first(gathered)
        return gathered + batch.check(gathered, self._executor)


class MergesBeside:
    """Merges that ticks do not wait for."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._begun: list[tuple[MergeOrder, Future[list[MergeReport]]]] = []
        self._left: list[MergeOrder] = []  # for which there was too little memory: their buckets stay as they are

    @property
    def running(self) -> Iterator[MergeJob]:
        """Merges that are not to be begun: they run, or are left."""
        return (job for order in (*self._left, *(order for order, _ in self._begun)) for job in order.jobs)

    def begin(self, order: MergeOrder) -> None:
        if order.tasks:
            self._begun.append((order, self._executor.submit(order, Rank.BESIDE)))

    def done(self, manifest: Manifest) -> list[MergeReport]:
        """The reports of merges that ended since the last tick, whose manifest this is."""
        done = [(order, future) for order, future in self._begun if future.done()]
        self._begun = [begun for begun in self._begun if begun not in done]
        short = [begun for begun in done if isinstance(begun[1].exception(), Overload)]
        self._left += [order for order, _ in short]
        standing = {bucket.file for bucket in manifest.buckets}
        merged = [
            report
            for _, future in (begun for begun in done if begun not in short)
            for report in future.result()
            # One that was overtaken (its inputs expired, and were deleted while it read them) is nothing.
            if report.failure is None or all(bucket.file in standing for bucket in report.job.inputs)
        ]
        raise_first(merged)
        return merged

    def given_up(self) -> list[MergeReport]:
        """Wait for all merges that were begun, and return their reports."""
        begun, self._begun = self._begun, []
        return [report for _, future in begun for report in future.result()]
