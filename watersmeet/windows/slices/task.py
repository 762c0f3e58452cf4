"""Windows that are made of slices: workers keep the final slices of each store, and answer what is due in rounds.

What goes wrong concerns the queries that it is done for. Windows of many queries are made together; where that fails,
each query is tried by itself. One that has no memory is tried again without what others keep in memory, and then
suspended.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeVar, cast

import pyarrow as pa

from watersmeet.aggregate.answers import DueQuery, WindowAnswer, answers
from watersmeet.aggregate.rounds import rounds, windows_with_rows
from watersmeet.aggregate.slice_cache import DueRange, SliceCache
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.errors import RunError, StateError
from watersmeet.home.counters import (
    READ_VALUES,
    READINGS,
    RESULT_BYTES,
    RESULT_FILES,
    RESULT_ROWS,
    RESULTS,
    SLICING,
    WINDOWS,
)
from watersmeet.home.manifest import BucketInfo
from watersmeet.home.signs import dropped, engine_stops
from watersmeet.model import Query
from watersmeet.plan.ruleset import WindowRule
from watersmeet.runtime.emit.confine import reason_of
from watersmeet.runtime.emit.result_files import ResultFiles
from watersmeet.runtime.probe.pruning import Stopped
from watersmeet.runtime.tick.orders import TAU_MIN, GatherReport, TaskReport, WritingOrder
from watersmeet.runtime.tick.tick import too_many_matches
from watersmeet.store.bucket import Bucket
from watersmeet.windows.life import DueWindows
from watersmeet.windows.slices.intake import Slicing
from watersmeet.windows.slices.plan import SLICES, reads_of
from watersmeet.windows.slices.tick import FillOrder, SlicesOrder, SlicesTicking
from watersmeet.windows.working import Handler, Host, Intake, Ticking

Open = Callable[[Path, BucketInfo], Bucket]
T = TypeVar("T")
_Name = tuple[str, int | None]  # of a cache: the store, and the partition if it is not all of them


class SlicesWorking:
    """The caches of one worker. What they hold is final, unless the tick that it came with is not committed."""

    name: ClassVar[str] = SLICES
    ticking: ClassVar[Ticking] = SlicesTicking()

    def __init__(self, host: Host) -> None:
        self._host = host
        self._caches: dict[_Name, SliceCache] = {}
        self._last = (0, "")  # the tick and the attempt that the caches were used for

    @property
    def handlers(self) -> Mapping[type, Handler]:
        return {SlicesOrder: self._answer, FillOrder: self._fill}

    def intake(self, order: WritingOrder, stores: Collection[str], task: str) -> Intake:
        found = order.rules.window_stores
        return Slicing(order, [cast(SliceStore, found[name]) for name in sorted(stores)], task)

    def forget(self) -> None:
        self._caches = {}
        self._last = (0, "")

    def _fill(self, order: FillOrder, task: int, name: str) -> list[GatherReport]:
        info = order.buckets[task]
        report = GatherReport(info.store)
        try:
            bucket = self._host.opened(Path(order.home), info)
            intake = self.intake(order, order.stores[info.store], f"{name}f")
            with report.counts.timed(SLICING):
                intake.add(bucket.rows, bucket.tau)
                report.buckets += intake.finish(report.counts)
        except Exception as problem:
            report.failure = self._host.as_failure(problem, order.home)
        return [report]

    def _answer(self, order: SlicesOrder, task: int, name: str) -> list[TaskReport]:
        self._begin(order)
        caches = {} if order.flush else self._caches
        try:
            answering = _Answering(order, task, f"{name}-w{task}", self._host.opened, caches)
            report = answering.run()
        except Exception as problem:
            queries = [due.query for due in order.work[task][1]]
            return [TaskReport(failure=self._host.as_failure(problem, order.home, queries))]
        finally:
            if order.flush:
                self._caches.clear()  # slices that were final for it may get rows
        if answering.ran_out:
            self._host.release_memory()
        return [report]

    def _begin(self, order: SlicesOrder) -> None:
        tick, attempt = self._last
        if order.tick < tick or (order.tick == tick and order.attempt != attempt):
            self._caches.clear()  # the tick is repeated, perhaps with other rows
        self._last = (order.tick, order.attempt)
        known = {store.name for store in order.rules.stores}
        for name in [name for name in self._caches if name[0] not in known]:
            del self._caches[name]


class _Answering:
    """One task of an order."""

    def __init__(self, order: SlicesOrder, task: int, name: str, opened: Open, caches: dict[_Name, SliceCache]) -> None:
        self._order, self._name, self._opened, self._caches = order, name, opened, caches
        self._home, self._limit = Path(order.home), order.rules.limits.matches
        self._place, due = order.work[task]
        asking = {rule.query.name: rule.query for rule in order.rules.windows}
        self._wanted = [_wanted(asking[each.query], each, order) for each in due]
        self._longest = _longest(order.rules.windows)
        self._until: dict[str, int] = {}
        for each in self._wanted:
            for store in each.stores:
                self._until[store.name] = max(self._until.get(store.name, each.span.end), each.span.end)
        self._report = TaskReport()
        self._files = ResultFiles(order, name, self._report, asking)
        self._confined = self._files.suspended
        self._ready: dict[str, SliceCache] = {}  # by store
        self._dropped: dict[str, float] = {}  # queries, and since when that is known
        self._groups = Counter[str]()  # what each query has found, before its last step
        self.ran_out = False

    def run(self) -> TaskReport:
        with self._report.counts.timed(WINDOWS):
            self._run()
        self._count_work()
        return self._report

    def _run(self) -> None:
        for each in self._wanted:
            if not self._is_ready(each):
                self._tried(each, partial(self._prepare, each))
        usable = [each for each in self._wanted if each.query.name not in self._confined]
        for some in rounds(usable, self._cache_of):
            self._look({each.query.name for each in some})
            for at, (each, found) in enumerate(self._answered(some)):
                self._take(each, found)
                if at < len(some) - 1:  # only the last one may be in the next round too
                    with self._report.counts.timed(RESULTS):
                        self._files.close(each.query.name)
        with self._report.counts.timed(RESULTS):
            self._files.finish()

    def _count_work(self) -> None:
        counts, results = self._report.counts, self._report.results
        partitions = self._order.rules.partitions if self._place is None else 1
        for name, cache in self._ready.items():
            counts.windows_read[name] += cache.windows_read * partitions
            counts.keys_read[name] += cache.keys_read
            counts.done[READINGS] += cache.reads
            counts.done[READ_VALUES] += cache.values_read
        counts.done[RESULT_ROWS] += sum(file.rows for file in results)
        counts.done[RESULT_BYTES] += self._files.bytes
        counts.done[RESULT_FILES] += len(results)

    def _is_ready(self, due: DueQuery) -> bool:
        ready = [self._ready.get(store.name) for store in due.stores]
        return all(cache is not None and (not self._limit or cache.bound(due.span) <= self._limit) for cache in ready)

    def _prepare(self, due: DueQuery) -> None:
        """Have its slices in memory; raise if so many windows are due that they are not to be made."""
        count = windows_with_rows(due, self._cache_of)
        if self._limit and count > self._limit:
            limit = f"more than {self._limit:,} (option max_matches)"
            raise RunError(f"it has {count:,} windows with rows to close in a tick, {limit}")

    def _look(self, coming: set[str]) -> None:
        """Called before a round of these queries: raise if the engine stops, suspend those that were dropped. A query
        without results so far may still take many rounds."""
        if engine_stops(self._home):
            raise Stopped("the engine stops, and does not wait for this tick")
        now = time.monotonic()
        for query, patience in dropped(self._home).items():
            if now - self._dropped.setdefault(query, now) >= patience and query in coming:
                self._confined.suspend(query, "it was dropped")

    def _answered(self, some: list[DueQuery]) -> Iterator[tuple[DueQuery, WindowAnswer]]:
        some = [each for each in some if each.query.name not in self._confined]
        if not some:
            return
        try:
            found = answers(some, self._cache_of)
        except (StateError, Stopped):
            raise
        except Exception:
            for each in some:
                alone = self._tried(each, partial(answers, [each], self._cache_of))
                if alone is not None:
                    yield each, alone[0]
            return
        yield from zip(some, found, strict=True)

    def _tried(self, due: DueQuery, work: Callable[[], T]) -> T | None:
        """Do some work for a query, and suspend the query if it fails; None then."""
        found: T | None = None
        with self._confined.of(due.query.name, self._home):
            try:
                found = work()
            except MemoryError:
                self.ran_out = True
                self._forget()
                try:
                    found = work()
                except MemoryError as problem:
                    self._forget()
                    raise RunError("a task has no memory for its windows (option task_memory)") from problem
        return found

    def _forget(self) -> None:
        self._caches.clear()
        self._ready.clear()

    def _take(self, due: DueQuery, found: WindowAnswer) -> None:
        name = found.query
        if found.problem is not None:
            self._confined.suspend(name, reason_of(found.problem))
            return
        self._groups[name] += found.groups
        if self._limit and self._groups[name] > self._limit:
            self._confined.suspend(name, too_many_matches(self._limit))
            return
        if failed := sum(found.failures.values()):
            self._report.counts.failed_values[name] += failed
        if found.rows is not None and found.rows.num_rows:
            with self._report.counts.timed(RESULTS):
                self._files.add(name, pa.Table.from_batches([found.rows]))

    def _cache_of(self, store: SliceStore) -> SliceCache:
        if store.name in self._ready:
            return self._ready[store.name]
        order, longest = self._order, self._longest[store.name]
        found = self._caches.get((store.name, self._place))
        if found is None or found.longest < longest:
            found = self._caches[store.name, self._place] = SliceCache(store, longest)
        try:
            horizon = max(order.horizons[store.name], TAU_MIN - store.width)
            found.advance(self._stored(store), horizon, self._until[store.name])
            found.forget_reads()
        except BaseException:
            del self._caches[store.name, self._place]  # a part of it may be missing
            raise
        self._ready[store.name] = found
        return found

    def _stored(self, store: SliceStore) -> Callable[[int, int], Iterable[Bucket]]:
        infos = [info for info in self._order.buckets[store.name] if self._place in (None, info.partition)]
        return lambda begin, end: (self._opened(self._home, b) for b in infos if b.tau_max >= begin and b.tau_min < end)


def _wanted(query: Query, due: DueWindows, order: SlicesOrder) -> DueQuery:
    span = DueRange(query.grid, max(due.opened, query.grid.first(TAU_MIN)), due.until)
    return DueQuery(query, reads_of(order.rules.window[due.query]), span)


def _longest(rules: Iterable[WindowRule]) -> dict[str, int]:
    """By store the range of the longest window that is read of it."""
    found: dict[str, int] = {}
    for rule in rules:
        for read in reads_of(rule):
            found[read.store.name] = max(found.get(read.store.name, 0), rule.query.grid.range)
    return found
