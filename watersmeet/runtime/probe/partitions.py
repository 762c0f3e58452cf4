"""Partitions: in which of them the next step of a partial result happens.

With one partition it is always "here". With several, a step happens where the rows are that it may find; a store that
is not partitioned by the key is probed in all of its partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from watersmeet.home.manifest import BucketInfo
from watersmeet.plan.ruleset import Start, Step
from watersmeet.runtime.probe.partial_results import PartialResults
from watersmeet.runtime.tick.orders import ProbeOrder


class Departure(NamedTuple):
    """Partial results whose next step happens in other partitions."""

    partitions: Sequence[int]
    step: Step
    partial: PartialResults


class OnlyPartition:
    """The partition in which a task probes, where there is only one."""

    def owns(self, info: BucketInfo) -> bool:
        """Whether the results that new rows are without any probe belong to this partition."""
        return True

    def holds(self, number: int, info: BucketInfo) -> bool:
        """Whether steps in this partition probe a bucket, by its number among those of its store."""
        return True

    def stays(self, start: Start, step: Step, info: BucketInfo) -> bool:
        """Whether all rows of a new bucket find their partners of a first step in the partition that owns them."""
        return True

    def divide(self, step: Step, partial: PartialResults) -> tuple[PartialResults | None, Iterable[Departure]]:
        """The partial results that take a step here, if any, and those that take it elsewhere."""
        return partial, ()


class SomePartition(OnlyPartition):
    def __init__(self, order: ProbeOrder, number: int) -> None:
        self.number = number
        self._rules = order.rules
        self._count = order.rules.partitions
        # Stores with buckets from an earlier layout: their rows may be in any partition, so probes go to all.
        self._mixed = {
            store for store, infos in order.buckets.items() if any(not self._is_placed(info) for info in infos)
        }

    def owns(self, info: BucketInfo) -> bool:
        return info.partition % self._count == self.number

    def holds(self, number: int, info: BucketInfo) -> bool:
        return (info.partition if self._is_placed(info) else number % self._count) == self.number

    def stays(self, start: Start, step: Step, info: BucketInfo) -> bool:
        own, key = (self._rules.store(name).placement.key for name in (start.stream, step.store))
        if not own or not key or key[0] not in step.key or step.store in self._mixed:
            return False
        return self._is_placed(info) and step.sources[step.key.index(key[0])] == (0, own[0])

    def divide(self, step: Step, partial: PartialResults) -> tuple[PartialResults | None, Iterable[Departure]]:
        rows = self._rows_by_partition(step, partial)
        if rows is None:
            others = [number for number in range(self._count) if number != self.number]
            return partial, [Departure(others, step, partial)]
        here = partial.take(rows[self.number]) if len(rows[self.number]) else None
        leaving = [number for number in range(self._count) if number != self.number and len(rows[number])]
        return here, (Departure((number,), step, partial.take(rows[number])) for number in leaving)

    def _rows_by_partition(self, step: Step, partial: PartialResults) -> list[np.ndarray] | None:
        """For each partition the rows that must go there; None where each row must go to all."""
        placement = self._rules.store(step.store).placement
        key = placement.key
        everywhere = key[0] not in step.key if key else len(placement.used) == self._count
        if everywhere or step.store in self._mixed:
            return None
        if not key:
            every, none = np.arange(len(partial)), np.empty(0, np.int64)
            return [every if number in placement.used else none for number in range(self._count)]
        partitions = placement.of_codes(partial.codes[step.sources[step.key.index(key[0])]])
        return [np.flatnonzero(partitions == number) for number in range(self._count)]

    def _is_placed(self, info: BucketInfo) -> bool:
        return self._rules.store(info.store).placement.covers(info)


def partition_of_task(order: ProbeOrder, task: int) -> OnlyPartition:
    """Several partitions have a task each; a single one has all tasks."""
    return SomePartition(order, task) if order.rules.partitions > 1 else OnlyPartition()
