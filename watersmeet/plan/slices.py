"""Which slice stores a plan has. Queries that stay keep their stores, which have what their open windows need.

A store is *founded* by the queries that are planned together; they decide its slices and parts. One that comes later
reads a store that is there, if that has all that the query asks for; those that find none found others together. A
store is there as long as some query reads it, also if its founders are gone: so the plan remembers them, and the home
too (`slices.json`), because the definition of a store follows from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from watersmeet.aggregate.choice import filtered, slice_stores, wishes
from watersmeet.aggregate.reading import Reading, Wish
from watersmeet.aggregate.slice_store import ROWS, Part, SliceStore
from watersmeet.model import Query

_NEVER = 1 << 62


@dataclass(frozen=True)
class Founded:
    """What a slice store is made for. The salt is that of a store which was filled with stored rows when it was new."""

    queries: tuple[Query, ...]
    salt: str = ""

    @cached_property
    def readings(self) -> dict[str, tuple[Reading, ...]]:
        found = slice_stores(self.queries)
        return {name: tuple(_salted(each, self.salt) for each in readings) for name, readings in found.items()}


Founders = Mapping[str, Founded]  # by store


@dataclass(frozen=True)
class Slices:
    """What the windowed queries of a plan read, and the founders of each store that is read."""

    readings: Mapping[str, tuple[Reading, ...]] = field(default_factory=dict)  # by query
    founders: Founders = field(default_factory=dict)

    @property
    def stores(self) -> tuple[SliceStore, ...]:
        found = {each.store.name: each.store for readings in self.readings.values() for each in readings}
        return tuple(found[name] for name in sorted(found))

    def divided(self, partitions: int) -> Slices:
        """The same, with stores that divide their rows among this many partitions."""

        def of(reading: Reading) -> Reading:
            return replace(reading, store=replace(reading.store, partitions=partitions))

        return replace(self, readings={name: tuple(map(of, found)) for name, found in self.readings.items()})


@dataclass(frozen=True)
class StoredSlices:
    """What the home has: the founders of its stores, and from which event time on each store has all rows."""

    founders: Founders = field(default_factory=dict)
    complete: Mapping[str, int] = field(default_factory=dict)

    def reaches_back(self, store: SliceStore) -> bool:
        """Whether a slice store has no less of the past than the stored rows of its stream."""
        rows = self.complete.get(store.source, _NEVER)
        return self.complete.get(store.name, _NEVER) <= rows


def choose_slices(windowed: Sequence[Query], stored: StoredSlices) -> Slices:
    """A query that can read several of the stores that are there reads the one with the longest history. One that is
    to be backfilled reads none that has less of the past than the stored rows: it founds one that they are put into."""
    complete = stored.complete
    present = sorted(_founded(stored.founders), key=lambda store: (complete.get(store.name, _NEVER), store.name))
    readings: dict[str, tuple[Reading, ...]] = {}
    for query in windowed:
        if query.join is not None:
            continue
        usable = [store for store in present if stored.reaches_back(store)] if query.backfill else present
        found = [_first(usable, wish) for wish in wishes(query)]
        if found and all(found):
            readings[query.name] = tuple(each for each in found if each is not None)
    for query in windowed:
        if query.join is not None:  # its results are its own: nobody else may add to its slices
            own = Founded((query.definition,), f"{query.name} {query.addition}")
            readings |= own.readings
    founders = dict(stored.founders)
    for backfilled in (False, True):
        others = [query for query in windowed if query.name not in readings and query.backfill == backfilled]
        salt = next((query.addition or query.name for query in others), "") if backfilled else ""
        founded = Founded(tuple(query.definition for query in others), salt)
        readings |= founded.readings
        names = {each.store.name for found in founded.readings.values() for each in found}
        founders = {**dict.fromkeys(names, founded), **founders}
    named = sorted({each.store.name for found in readings.values() for each in found})
    return Slices(readings, {name: founders[name] for name in named if name in founders})


def _founded(founders: Founders) -> list[SliceStore]:
    """The stores by these names, if their founders still give them: another version may define them in another way."""
    found: dict[str, SliceStore] = {}
    for name, founded in founders.items():
        for readings in founded.readings.values():
            found |= {each.store.name: each.store for each in readings if each.store.name == name}
    return list(found.values())


def _salted(reading: Reading, salt: str) -> Reading:
    return replace(reading, store=replace(reading.store, salt=salt)) if salt else reading


def _first(stores: Iterable[SliceStore], wish: Wish) -> Reading | None:
    return next((found for store in stores if (found := reading_in(store, wish)) is not None), None)


def reading_in(store: SliceStore, wish: Wish) -> Reading | None:
    """How a store fulfils a wish; None if it does not."""
    if (store.source, store.keys) != (wish.source, wish.keys) or wish.grid.slice % store.width:
        return None
    ways: list[Reading] = []
    if store.filters == (() if wish.filter is None else (wish.filter,)):
        ways.append(Reading(store, ROWS, wish.partials))
    elif wish.filter is not None and (not store.filters or wish.filter in store.filters):
        present = Part("count", None, wish.filter) if wish.keys else ROWS
        ways.append(Reading(store, present, tuple(filtered(each, wish.filter) for each in wish.partials)))
    has = set(store.parts)
    return next((way for way in ways if has.issuperset((*way.parts, way.present))), None)
