"""Orders for windows that are computed from their rows: which windows have rows, and one order for each that has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from watersmeet.home.manifest import BucketInfo
from watersmeet.model import Query
from watersmeet.model.forms import WindowSql
from watersmeet.model.sliding_window import SlidingWindow
from watersmeet.runtime.tick.orders import Order, WritingOrder
from watersmeet.windows.closing import Closing
from watersmeet.windows.life import DueWindows
from watersmeet.windows.sql.plan import SQL, TASK, form_of_spark


@dataclass(frozen=True)
class OccupiedOrder:
    """Which of the windows that are due have rows: for each query, with its grid, those among these buckets."""

    home: str
    asked: tuple[tuple[DueWindows, SlidingWindow, tuple[BucketInfo, ...]], ...]
    limit: int = 0  # windows of all queries together; 0: none

    @property
    def share(self) -> int | None:
        """How many windows of a query are computed, if it is its turn: with more queries than the limit only some have
        theirs in a tick. None: all."""
        return max(1, self.limit // max(1, len(self.asked))) if self.limit else None

    tasks = 1


@dataclass(frozen=True)
class BatchOrder(WritingOrder):
    """A window for Spark SQL to compute from the rows in it."""

    query: Query
    sql: WindowSql  # the form of the query
    start: int
    buckets: dict[str, tuple[BucketInfo, ...]]  # by stream, those with rows of the window

    @property
    def end(self) -> int:
        return self.query.grid.end(self.start)


class SqlTicking:
    """Tasks only find out which windows have rows. The driver has it done, and starts jobs for these (spark.py)."""

    def fills(self, closing: Closing) -> Sequence[Order]:
        return ()

    def orders(self, closing: Closing) -> Sequence[Order]:
        return ()


@dataclass(frozen=True)
class RowsOrder(WritingOrder):
    """Windows that tasks compute from their rows: for each task what is due, and the buckets that may have rows."""

    work: tuple[tuple[tuple[DueWindows, tuple[BucketInfo, ...]], ...], ...]

    @property
    def tasks(self) -> int:
        return len(self.work)


class TaskSqlTicking:
    def fills(self, closing: Closing) -> Sequence[Order]:
        return ()

    def orders(self, closing: Closing) -> Sequence[Order]:
        """One order. Queries that read the same streams have the same task: it reads the rows of a window once."""
        together: dict[tuple[str, ...], list[tuple[DueWindows, tuple[BucketInfo, ...]]]] = {}
        for due, rule in closing.due(TASK):
            buckets = tuple(closing.inside(due, rule))
            if buckets:
                together.setdefault(tuple(sorted(rule.query.streams)), []).append((due, buckets))
        work: list[list[tuple[DueWindows, tuple[BucketInfo, ...]]]] = [[] for _ in range(closing.rules.partitions)]
        for group in sorted(together.values(), key=_bytes, reverse=True):
            min(work, key=_bytes).extend(group)
        listed = tuple(tuple(each) for each in work if each)
        return [
            RowsOrder(closing.home, closing.tick, closing.attempt, closing.rules, work=listed, at_once=closing.at_once)
        ]


def _bytes(group: Iterable[tuple[DueWindows, tuple[BucketInfo, ...]]]) -> int:
    return sum(info.bytes for _, infos in group for info in infos)


def occupied_order(closing: Closing) -> OccupiedOrder:
    """Which of the windows that are due have rows."""
    asked = [(due, rule.query.grid, tuple(closing.inside(due, rule))) for due, rule in closing.due(SQL)]
    limit = closing.rules.limits.windows
    return OccupiedOrder(closing.home, tuple(each for each in asked if each[2]), limit)


def batch_order(closing: Closing, query: str, start: int, buckets: Iterable[BucketInfo]) -> BatchOrder:
    """A window that has rows, in some of these buckets."""
    asking = closing.rule(query).query
    form = form_of_spark(asking)
    assert form is not None, query
    found: dict[str, list[BucketInfo]] = {stream: [] for stream in asking.streams}
    for bucket in buckets:
        if bucket.tau_min < asking.grid.end(start) and bucket.tau_max >= start:
            found[bucket.store].append(bucket)
    return BatchOrder(
        closing.home,
        closing.tick,
        closing.attempt,
        closing.rules,
        query=asking,
        sql=form,
        start=start,
        buckets={stream: tuple(infos) for stream, infos in found.items()},
    )
