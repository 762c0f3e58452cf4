"""Windows that are made of slices: workers keep the final slices of each store, and answer what is due in rounds.

What goes wrong concerns the queries that it is done for. Windows of many queries are made together; where that fails,
each query is tried by itself. One that has no memory is tried again without what others keep in memory, then in pieces
of its keys (in_pieces.py), and then suspended.
"""

from __future__ import annotations

import math
import secrets
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar, TypeVar, cast

import pyarrow as pa

from watersmeet.aggregate.answers import WindowAnswer, answers
from watersmeet.aggregate.due import Caches, DueQuery
from watersmeet.aggregate.pieces import INTO, MOST, division
from watersmeet.aggregate.rounds import BYTES, rounds, windows_with_rows
from watersmeet.aggregate.slice_cache import DueRange, RowsOf, SliceCache
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.errors import RunError, StateError
from watersmeet.home.counters import (
    READ_VALUES,
    READINGS,
    RESULTS,
    SLICING,
    WINDOWS,
)
from watersmeet.home.manifest import BucketInfo
from watersmeet.plan.ruleset import WindowRule
from watersmeet.runtime.emit.confine import reason_of
from watersmeet.runtime.emit.patience import Patience
from watersmeet.runtime.emit.result_files import ResultFiles
from watersmeet.runtime.probe.pruning import Stopped
from watersmeet.runtime.tick.orders import TAU_MIN, GatherReport, TaskReport, WritingOrder
from watersmeet.runtime.tick.tick import too_many_matches
from watersmeet.store.bucket import Bucket
from watersmeet.windows.life import DueWindows
from watersmeet.windows.slices.caches import KeptCaches, share_of
from watersmeet.windows.slices.in_pieces import NO_MEMORY, InPieces
from watersmeet.windows.slices.intake import Slicing
from watersmeet.windows.slices.plan import SLICES, reads_of
from watersmeet.windows.slices.tick import FillOrder, SlicesOrder, SlicesTicking
from watersmeet.windows.working import Handler, Host, Intake, Ticking

Open = Callable[[Path, BucketInfo], Bucket]
T = TypeVar("T")
ROUNDS_SHARE = 4  # of what windows may take, one part in so many is for a round
_JOINING = 200  # bytes for a row of a member while it is joined


class SlicesWorking:
    """The caches of one worker. What they hold is final, unless the tick that it came with is not committed."""

    name: ClassVar[str] = SLICES
    ticking: ClassVar[Ticking] = SlicesTicking()

    def __init__(self, host: Host) -> None:
        self._host = host
        self._caches = KeptCaches()
        self._id = secrets.token_hex(4)  # tells this worker from others
        self._last = (0, "")  # the tick and the attempt that the caches were used for

    @property
    def handlers(self) -> Mapping[type, Handler]:
        return {SlicesOrder: self._answer, FillOrder: self._fill}

    def intake(self, order: WritingOrder, stores: Collection[str], task: str) -> Intake:
        found = order.rules.window_stores
        return Slicing(order, [cast(SliceStore, found[name]) for name in sorted(stores)], task)

    def forget(self) -> None:
        self._caches.clear()
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
        caches = KeptCaches() if order.flush or order.careful else self._caches
        try:
            answering = _Answering(order, task, f"{name}-w{task}", self._host.opened, caches)
            report = answering.run()
        except Exception as problem:
            return [TaskReport(failure=self._host.as_failure(problem, order.home))]
        finally:
            if order.flush or order.careful:
                self._caches.clear()  # slices that were final for it may get rows
        if answering.ran_out:
            self._host.release_memory()
        report.held = self._id, self._caches.shrink(share_of(order.rules.limits))
        return [report]

    def _begin(self, order: SlicesOrder) -> None:
        tick, attempt = self._last
        if order.tick < tick or (order.tick == tick and order.attempt != attempt):
            self._caches.clear()  # the tick is repeated, perhaps with other rows
        self._last = (order.tick, order.attempt)
        self._caches.forget_others({store.name for store in order.rules.stores})


class _Answering:
    """One task of an order."""

    def __init__(self, order: SlicesOrder, task: int, name: str, opened: Open, caches: KeptCaches) -> None:
        self._order, self._name, self._opened, self._caches = order, name, opened, caches
        self._home, self._limit = Path(order.home), order.rules.limits.matches
        self._place, due = order.work[task]
        asking = {rule.query.name: rule.query for rule in order.rules.windows}
        self._wanted = [_wanted(each, order) for each in due]
        self._longest = _longest(order.rules.windows)
        self._until: dict[str, int] = {}
        for each in self._wanted:
            for store in each.stores:
                self._until[store.name] = max(self._until.get(store.name, each.span.end), each.span.end)
        self._report = TaskReport()
        self._files = ResultFiles(order, name, self._report, asking)
        self._confined = self._files.suspended
        self._ready: dict[str, SliceCache] = {}  # by store
        self._share = share_of(order.rules.limits)
        self._most = min(BYTES, self._share // ROUNDS_SHARE) if self._share else BYTES
        self._large: list[DueQuery] = []  # to be answered in pieces
        self._patience = Patience(self._home, self._confined)
        self._groups = Counter[str]()  # what each query has found, before its last step
        self.ran_out = False

    def run(self) -> TaskReport:
        with self._report.counts.timed(WINDOWS):
            self._run()
        self._count_work()
        return self._report

    def _run(self) -> None:
        pieces = self._pieces_of_queries()
        for each in self._wanted:
            if not pieces[each.query.name] and not self._is_ready(each):
                self._tried(each, partial(self._check, each, self._cache_of))
        usable = [each for each in self._wanted if not pieces[each.query.name] and self._is_usable(each)]
        for some in rounds(usable, self._cache_of, self._most):
            self._patience.look({each.query.name for each in some})
            found = list(self._answered(some))
            with self._report.counts.timed(RESULTS):
                for at, (each, answer) in enumerate(found):
                    self._take(each, answer)
                    if at < len(some) - 1:  # only the last one may be in the next round too
                        self._files.close(each.query.name)
        for each in self._large:
            self._in_pieces.answer([each], INTO)
        for count in sorted(set(pieces.values()) - {0}):
            some = [each for each in self._wanted if pieces[each.query.name] == count]
            for together in [[each] for each in some] if self._order.careful else [some]:
                self._in_pieces.answer(together, count)
        with self._report.counts.timed(RESULTS):
            self._files.finish()

    def _is_usable(self, due: DueQuery) -> bool:
        return due.query.name not in self._confined and not any(due is each for each in self._large)

    def _pieces_of_queries(self) -> dict[str, int]:
        """In how many pieces of its keys each query is answered; 0: from caches that are kept."""
        if self._order.careful:
            return {each.query.name: INTO for each in self._wanted}
        rows = {store: sum(info.rows for info in self._infos(store)) for each in self._wanted for store in each.stores}
        sizes = self._caches.sizes(rows, self._place, self._share)
        found = {}
        for each in self._wanted:
            joined = _JOINING * sum(rows[store] for store in each.stores) if len(each.stores) > 1 else 0
            taken = joined + sum(sizes.bytes[store.name] for store in each.stores)
            is_kept = all(store.name in sizes.kept for store in each.stores) and 2 * joined <= self._share
            parts = 1 if is_kept or not self._share else min(MOST, max(1, math.ceil(2 * taken / self._share)))
            found[each.query.name] = 0 if is_kept or not self._share else 1 << (parts - 1).bit_length()
        return found

    @cached_property
    def _in_pieces(self) -> InPieces:
        release, confined = self._release, self._confined
        return InPieces(
            self._made, self._done, self._begin_round, self._take, release, confined, self._home, self._most
        )

    def _done(self, cache: SliceCache) -> None:
        self._caches.note(cache, self._share)
        self._count(cache)

    def _begin_round(self, some: Sequence[DueQuery], caches: Caches | None) -> list[DueQuery]:
        self._patience.look({each.query.name for each in some})
        for each in some:
            if self._limit and caches is not None:
                with self._confined.of(each.query.name, self._home):
                    self._check(each, caches)
        return [each for each in some if each.query.name not in self._confined]

    def _count_work(self) -> None:
        for cache in self._ready.values():
            self._count(cache)
        self._files.count_work()

    def _count(self, cache: SliceCache) -> None:
        counts, name = self._report.counts, cache.store.name
        counts.windows_read[name] += cache.windows_read * (self._order.rules.partitions if self._place is None else 1)
        counts.keys_read[name] += cache.keys_read
        counts.done[READINGS] += cache.reads
        counts.done[READ_VALUES] += cache.values_read

    def _is_ready(self, due: DueQuery) -> bool:
        ready = [self._ready.get(store.name) for store in due.stores]
        return all(cache is not None and (not self._limit or cache.bound(due.span) <= self._limit) for cache in ready)

    def _check(self, due: DueQuery, caches: Caches) -> None:
        """Have its slices in memory; raise if so many windows are due that they are not to be made."""
        count = windows_with_rows(due, caches)
        if self._limit and count > self._limit:
            limit = f"more than {self._limit:,} (option max_matches)"
            raise RunError(f"it has {count:,} windows with rows to close in a tick, {limit}")

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
        """Do some work for a query, and suspend the query if it fails, unless it fits in pieces; None then."""
        found: T | None = None
        with self._confined.of(due.query.name, self._home):
            try:
                found = work()
            except MemoryError as problem:
                traceback.clear_frames(problem.__traceback__)
                self._release()
                try:
                    found = work()
                except MemoryError as again:
                    traceback.clear_frames(again.__traceback__)
                    self._release()
                    if not division(due):
                        raise RunError(NO_MEMORY) from again
                    self._large.append(due)
        return found

    def _release(self) -> None:
        self.ran_out = True
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
            self._files.add(name, pa.Table.from_batches([found.rows]))

    def _cache_of(self, store: SliceStore) -> SliceCache:
        if store.name in self._ready:
            return self._ready[store.name]
        name, longest = (store.name, self._place), self._longest[store.name]
        found = self._caches.get(name)
        if found is None or found.longest < longest:
            found = SliceCache(store, longest)
            self._caches.keep(name, found)
        try:
            self._advance(found, TAU_MIN - store.width)
        except BaseException:
            self._caches.let_go(name)  # a part of it may be missing
            raise
        self._ready[store.name] = found
        return found

    def _made(self, store: SliceStore, begin: int, rows_of: RowsOf | None) -> SliceCache:
        """A cache that is not kept."""
        found = SliceCache(store, self._longest[store.name], rows_of)
        self._advance(found, begin)
        return found

    def _advance(self, cache: SliceCache, begin: int) -> None:
        store = cache.store
        cache.advance(self._stored(store), max(self._order.horizons[store.name], begin), self._until[store.name])
        cache.forget_reads()

    def _infos(self, store: SliceStore) -> list[BucketInfo]:
        return [info for info in self._order.buckets[store.name] if self._place in (None, info.partition)]

    def _stored(self, store: SliceStore) -> Callable[[int, int], Iterable[Bucket]]:
        infos = self._infos(store)
        return lambda begin, end: (self._opened(self._home, b) for b in infos if b.tau_max >= begin and b.tau_min < end)


def _wanted(due: DueWindows, order: SlicesOrder) -> DueQuery:
    rule = (order.rules.leaving if due.leaves else order.rules.window)[due.query]
    grid = rule.query.grid
    return DueQuery(rule.query, reads_of(rule), DueRange(grid, max(due.opened, grid.first(TAU_MIN)), due.until))


def _longest(rules: Iterable[WindowRule]) -> dict[str, int]:
    """By store the range of the longest window that is read of it."""
    found: dict[str, int] = {}
    for rule in rules:
        for read in reads_of(rule):
            found[read.store.name] = max(found.get(read.store.name, 0), rule.query.grid.range)
    return found
