"""Orders for windows that are made of slices, and for slices that are made of stored rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from watersmeet.home.manifest import BucketInfo
from watersmeet.runtime.tick.orders import Order, WritingOrder
from watersmeet.windows.closing import Closing
from watersmeet.windows.life import DueWindows
from watersmeet.windows.slices.plan import SLICES


@dataclass(frozen=True)
class SlicesOrder(WritingOrder):
    """Windows that are made of slices, for all queries together."""

    buckets: dict[str, tuple[BucketInfo, ...]]  # by slice store
    horizons: dict[str, int]  # by slice store, the first slice that is needed
    work: tuple[tuple[int | None, tuple[DueWindows, ...]], ...]  # by task the partition (None: all), and what is due
    flush: bool = False  # slices that may still change are read
    careful: bool = False  # memory was short: each query by itself, and nothing is kept

    @property
    def tasks(self) -> int:
        return len(self.work)


@dataclass(frozen=True)
class FillOrder(WritingOrder):
    """Stored rows that are aggregated for new slice stores, a task for each bucket."""

    stores: dict[str, tuple[str, ...]]  # by stream, the stores
    buckets: tuple[BucketInfo, ...]

    @property
    def tasks(self) -> int:
        return len(self.buckets)


class SlicesTicking:
    def fills(self, closing: Closing) -> Sequence[Order]:
        own = {store for rule in closing.rules.windows if rule.operator == SLICES for store, _ in rule.reads}
        stores: dict[str, tuple[str, ...]] = {}
        for store, stream in closing.windows.filled.items():
            if store in own:
                stores[stream] = (*stores.get(stream, ()), store)
        stored = tuple(bucket for bucket in closing.windows.before.buckets if bucket.store in stores)
        return [FillOrder(closing.home, closing.tick, closing.attempt, closing.rules, stores=stores, buckets=stored)]

    def orders(self, closing: Closing) -> Sequence[Order]:
        """One order for all queries. Each partition has keys of its own, and a task; so have the queries that need all
        keys of a window at once, and those of which some slices were placed otherwise, before a restart with another
        number of partitions."""
        rules, life = closing.rules, closing.windows
        due = [(each, rule) for each, rule in closing.due(SLICES) if closing.inside(each, rule)]
        stores = {store for _, rule in due for store, _ in rule.reads}
        placed = {store.name: store.placement for store in rules.stores if store.name in stores}
        otherwise = {b.store for b in closing.buckets if b.store in placed and not placed[b.store].covers(b)}
        whole: list[DueWindows] = []
        divided: list[DueWindows] = []
        for each, rule in due:
            is_whole = rule.is_whole or any(store in otherwise for store, _ in rule.reads)
            (whole if is_whole or rules.partitions == 1 else divided).append(each)
        work: list[tuple[int | None, tuple[DueWindows, ...]]] = [(None, tuple(whole))] if whole else []
        work += [(partition, tuple(divided)) for partition in range(rules.partitions)] if divided else []
        return [
            SlicesOrder(
                closing.home,
                closing.tick,
                closing.attempt,
                rules,
                buckets={store: tuple(b for b in closing.buckets if b.store == store) for store in sorted(stores)},
                horizons={name: horizon for name, horizon in life.horizons(life.opened).items() if name in stores},
                work=tuple(work),
                flush=life.flush,
                careful=closing.careful,
                at_once=closing.at_once,
            )
        ]
