"""Windows that are made of slices: workers keep the final slices of each store, and answers all that is due at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa

from watersmeet.aggregate import answers as aggregate
from watersmeet.aggregate.answers import answers
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.aggregate.windows import SliceCache, Span
from watersmeet.home.manifest import BucketInfo
from watersmeet.model import WindowedQuery
from watersmeet.runtime.emit.confine import reason_of
from watersmeet.runtime.tick.orders import TAU_MIN, Due, ProbeReport, SlicesOrder
from watersmeet.runtime.windows.window_results import WindowResults
from watersmeet.store.bucket import Bucket

Open = Callable[[Path, BucketInfo], Bucket]
_Name = tuple[str, int | None]  # of a cache: the store, and the partition if it is not all of them


class WindowsFromSlices:
    """The caches of one worker. What they hold is final, unless the tick that it came with is not committed."""

    def __init__(self) -> None:
        self._caches: dict[_Name, SliceCache] = {}
        self._last = (0, "")  # the tick and the attempt that the caches were used for

    def answer(self, order: SlicesOrder, task: int, name: str, opened: Open) -> ProbeReport:
        place, due = order.work[task]
        asking = {query.name: query for query in order.rules.windowed}
        self._begin(order)
        caches = {} if order.flush else self._caches
        wanted = [_wanted(asking[each.query], each, order) for each in due]
        longest = _longest(order, asking.values())
        until: dict[str, int] = {}
        for each in wanted:
            end = each.span.end
            for reading in each.readings:
                until[reading.store.name] = max(until.get(reading.store.name, end), end)

        def cache_of(store: SliceStore) -> SliceCache:
            found = caches.get((store.name, place))
            if found is None or found.longest < longest[store.name]:
                found = caches[store.name, place] = SliceCache(store, longest[store.name])
            found.advance(stored(store), max(order.horizons[store.name], TAU_MIN - store.width), until[store.name])
            return found

        def stored(store: SliceStore) -> Callable[[int, int], Iterable[Bucket]]:
            infos = [info for info in order.buckets[store.name] if place in (None, info.partition)]
            home = Path(order.home)
            return lambda begin, end: (opened(home, b) for b in infos if b.tau_max >= begin and b.tau_min < end)

        report = ProbeReport()
        for each, found in zip(wanted, answers(wanted, cache_of), strict=True):
            if found.problem is not None:
                report.suspended[found.query] = reason_of(found.problem)
                continue
            if failed := sum(found.failures.values()):
                report.counts.failed_values[found.query] += failed
            if found.rows is not None and found.rows.num_rows:
                results = WindowResults(order, each.query, f"{name}-w{task}", report)
                results.write(pa.Table.from_batches([found.rows]))
                results.finish()
        if order.flush:
            self._caches.clear()  # slices that were final for it may get rows
        return report

    def _begin(self, order: SlicesOrder) -> None:
        tick, attempt = self._last
        if order.tick < tick or (order.tick == tick and order.attempt != attempt):
            self._caches.clear()  # the tick is repeated, perhaps with other rows
        self._last = (order.tick, order.attempt)
        known = {store.name for store in order.rules.slices}
        for name in [name for name in self._caches if name[0] not in known]:
            del self._caches[name]


def _wanted(query: WindowedQuery, due: Due, order: SlicesOrder) -> aggregate.Due:
    span = Span(query.grid, max(due.opened, query.grid.first(TAU_MIN)), due.until)
    return aggregate.Due(query, order.rules.read_slices[due.query], span)


def _longest(order: SlicesOrder, queries: Iterable[WindowedQuery]) -> dict[str, int]:
    """By store the range of the longest window that is read of it."""
    found: dict[str, int] = {}
    for query in queries:
        for reading in order.rules.read_slices.get(query.name, ()):
            found[reading.store.name] = max(found.get(reading.store.name, 0), query.grid.range)
    return found
