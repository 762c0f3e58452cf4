"""Orders for windows that are made of the results of joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from watersmeet.home.manifest import BucketInfo
from watersmeet.plan.ruleset import WindowRule
from watersmeet.runtime.tick.orders import Order, WritingOrder
from watersmeet.windows.closing import Closing
from watersmeet.windows.life import DueWindows
from watersmeet.windows.pairs.plan import PAIRS

# The windows of a query that are due, its rule, and buckets with results that are in them.
Asked = tuple[DueWindows, WindowRule, tuple[BucketInfo, ...]]


@dataclass(frozen=True)
class PairsOrder(WritingOrder):
    """Windows of all queries whose results are kept: each task has other buckets."""

    work: tuple[tuple[Asked, ...], ...]  # by task

    @property
    def tasks(self) -> int:
        return len(self.work)


class PairsTicking:
    def fills(self, closing: Closing) -> Sequence[Order]:
        return ()

    def orders(self, closing: Closing) -> Sequence[Order]:
        """One order. A result is written without the others of its window, so that it does not matter how they were
        divided among partitions."""
        partitions = closing.rules.partitions
        work: list[list[Asked]] = [[] for _ in range(partitions)]
        for due, rule in closing.due(PAIRS):
            inside = [bucket for bucket in closing.inside(due, rule) if bucket.alive_until >= due.opened]
            for partition, asked in enumerate(work):
                found = tuple(bucket for bucket in inside if bucket.partition % partitions == partition)
                if found:
                    asked.append((due, rule, found))
        tasks = tuple(tuple(asked) for asked in work if asked)
        return [
            PairsOrder(closing.home, closing.tick, closing.attempt, closing.rules, work=tasks, at_once=closing.at_once)
        ]
