"""Orders for the windows that a tick closes. Pure: of what was committed and gathered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from watersmeet.home.manifest import BucketInfo
from watersmeet.model import Query
from watersmeet.runtime.tick.orders import BatchOrder, Due, OccupiedOrder, SlicesOrder
from watersmeet.runtime.tick.windows import Windows


@dataclass(frozen=True)
class Closing:
    home: str
    tick: int
    attempt: str
    windows: Windows
    answered: Mapping[str, Query]
    buckets: tuple[BucketInfo, ...]  # of all stores, those of this tick too
    newest: Mapping[str, int]  # event times, after the tick
    spoke: frozenset[str]  # streams with rows in the tick

    @cached_property
    def due(self) -> list[tuple[Due, Query]]:
        """The windows that this tick closes, of queries that it answers."""
        found = self.windows.due(self.newest, self.spoke) if self.answered else []
        return [(due, self.answered[due.query]) for due in found if due.query in self.answered]

    # From slices ---------------------------------------------------------------------------------

    def slices_order(self) -> SlicesOrder:
        """One order for all queries. Each partition has keys of its own, and a task; so have the queries that need all
        keys of a window at once, and those of which some slices were placed otherwise, before a restart with another
        number of partitions."""
        rules, first = self.windows.rules, self.windows.opened
        due = tuple(
            each for each, query in self.due if rules.window[query.name].readings and self._has_rows(each, query)
        )
        stores = {store for one in due for store, _ in rules.window[one.query].reads}
        placed = {store.name: store.placement for store in rules.slices if store.name in stores}
        otherwise = {b.store for b in self.buckets if b.store in placed and not placed[b.store].covers(b)}
        named = {
            query.name
            for _, query in self.due
            if query.form.is_whole or any(store in otherwise for store, _ in self.windows.read_by[query.name])
        }
        whole, divided = ([d for d in due if (d.query in named) == is_whole] for is_whole in (True, False))
        work: list[tuple[int | None, tuple[Due, ...]]] = []
        if due and rules.partitions == 1:
            work.append((None, due))
        elif due:
            work += [(None, tuple(whole))] if whole else []
            work += [(place, tuple(divided)) for place in range(rules.partitions)] if divided else []
        return SlicesOrder(
            self.home,
            self.tick,
            self.attempt,
            rules,
            {store: tuple(b for b in self.buckets if b.store == store) for store in sorted(stores)},
            {store: horizon for store, horizon in self.windows.horizons(first).items() if store in stores},
            tuple(work),
            self.windows.flush,
        )

    def _has_rows(self, due: Due, query: Query) -> bool:
        """Whether some slice may be in a window that is due."""
        end = query.grid.end(due.until - query.grid.slide)
        stores = {store for store, _ in self.windows.read_by[query.name]}
        return any(b.store in stores and b.tau_min < end and b.tau_max >= due.opened for b in self.buckets)

    # From rows -----------------------------------------------------------------------------------

    def occupied_order(self) -> OccupiedOrder:
        """For the queries whose windows Spark computes from rows: which of those that are due have any."""
        asked = []
        for due, query in self.due:
            if query.form.reads_rows:
                end = query.grid.end(due.until - query.grid.slide)
                rows = [b for b in self.buckets if b.store in query.streams]
                inside = tuple(b for b in rows if b.tau_min < end and b.tau_max >= due.opened)
                if inside:
                    asked.append((due, query.grid, inside))
        return OccupiedOrder(self.home, tuple(asked), self.windows.rules.limits.windows)

    def batch_order(self, query: str, start: int, buckets: Iterable[BucketInfo]) -> BatchOrder:
        """A window that has rows, in some of these buckets."""
        asking = self.answered[query]
        found: dict[str, list[BucketInfo]] = {stream: [] for stream in asking.streams}
        for bucket in buckets:
            if bucket.tau_min < asking.grid.end(start) and bucket.tau_max >= start:
                found[bucket.store].append(bucket)
        by_stream = {stream: tuple(infos) for stream, infos in found.items()}
        return BatchOrder(self.home, self.tick, self.attempt, self.windows.rules, asking.definition, start, by_stream)
