"""What a worker keeps in memory of slice stores from tick to tick, and how much that may be.

All caches of a worker together have a share of the memory of its task. The smallest ones are kept; a store that does
not fit beside them is read anew in each tick that closes windows, in so many pieces of its keys that each takes half of
the share. What a cache takes is not known before it is made: it is estimated from the rows of its buckets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from watersmeet.aggregate.slice_cache import SliceCache
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.model.limits import Limits

SHARE = 4  # of the memory of a task, one part in so many is for caches of windows
Name = tuple[str, int | None]  # of a cache: the store, and the partition if it is not all of them
_TELLING = 16  # a cache with less than this part of the share does not tell what others will take for a row
_FIXED, _COLUMN = 64, 16  # bytes for a row and each of its columns, as long as nothing tells more


def share_of(limits: Limits) -> int:
    """The bytes that windows may take in a task; 0: no limit."""
    return (limits.task_megabytes << 20) // SHARE


@dataclass(frozen=True)
class Sizes:
    """What the stores of an order would take."""

    bytes: Mapping[str, float]  # by store
    kept: frozenset[str]  # those that are kept


class KeptCaches:
    def __init__(self) -> None:
        self._caches: dict[Name, SliceCache] = {}
        self._row_bytes: dict[str, float] = {}  # by store, what its cache took

    def clear(self) -> None:
        self._caches.clear()

    def forget_others(self, stores: Collection[str]) -> None:
        """Let go of stores that no plan has any more."""
        for name in [name for name in self._caches if name[0] not in stores]:
            del self._caches[name]
        self._row_bytes = {store: size for store, size in self._row_bytes.items() if store in stores}

    def get(self, name: Name) -> SliceCache | None:
        return self._caches.get(name)

    def keep(self, name: Name, cache: SliceCache) -> None:
        self._caches[name] = cache

    def let_go(self, name: Name) -> None:
        self._caches.pop(name, None)

    def sizes(self, rows: Mapping[SliceStore, int], place: int | None, share: int) -> Sizes:
        """What some stores with so many rows take, and which of them are kept for a place."""
        found = {store.name: count * self._of_row(store) for store, count in rows.items()}
        if not share:
            return Sizes(found, frozenset(found))
        names = {(store, place) for store in found}
        room = share - sum(cache.nbytes for name, cache in self._caches.items() if name not in names)
        kept = []
        for store in sorted(found, key=lambda store: found[store]):
            room -= int(found[store])
            if room < 0:
                break
            kept.append(store)
        for name in names - {(store, place) for store in kept}:
            self.let_go(name)
        return Sizes(found, frozenset(kept))

    def _of_row(self, store: SliceStore) -> float:
        return self._row_bytes.get(store.name, _FIXED + _COLUMN * len(store.schema))

    def note(self, cache: SliceCache, share: int) -> int:
        """Remember what a cache takes, for the estimates of the next ticks."""
        size = cache.nbytes
        if cache.rows and size * _TELLING >= share:
            self._row_bytes[cache.store.name] = size / cache.rows
        return size

    def shrink(self, share: int) -> int:
        """Let the largest ones go until the rest is within the share; returns what it takes."""
        sizes = {name: self.note(cache, share) for name, cache in self._caches.items()}
        for name in sorted(sizes, key=lambda name: sizes[name], reverse=True):
            if not share or sum(sizes.values()) <= share:
                break
            del sizes[name], self._caches[name]
        return sum(sizes.values())
