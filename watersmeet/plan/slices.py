"""Which slice stores a plan has. Queries that stay keep their stores, which have what their open windows need.

A store is *founded* by the queries that are planned together; they decide its slices and parts. One that comes later
reads a store that is there, if that has all that the query asks for; those that find none found others together. A
store is there as long as some query reads it, also if its founders are gone: so the plan remembers them, and the home
too (`slices.json`), because the definition of a store follows from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from watersmeet.aggregate.choice import slice_stores, wishes
from watersmeet.aggregate.reading import Reading, Wish
from watersmeet.aggregate.slice_store import ROWS, Part, SliceStore
from watersmeet.model import WindowedQuery
from watersmeet.model.expression import Expression, all_of
from watersmeet.model.windowed import Partial

Founders = Mapping[str, tuple[WindowedQuery, ...]]  # by store


@dataclass(frozen=True)
class Slices:
    """What the windowed queries of a plan read, and the founders of each store that is read."""

    readings: Mapping[str, tuple[Reading, ...]] = field(default_factory=dict)  # by query
    founders: Founders = field(default_factory=dict)

    @property
    def stores(self) -> tuple[SliceStore, ...]:
        found = {each.store.name: each.store for readings in self.readings.values() for each in readings}
        return tuple(found[name] for name in sorted(found))


@dataclass(frozen=True)
class StoredSlices:
    """What the home has: the founders of its stores, and from which event time on each store has all rows."""

    founders: Founders = field(default_factory=dict)
    complete: Mapping[str, int] = field(default_factory=dict)


def choose_slices(windowed: Sequence[WindowedQuery], founders: Founders, complete: Mapping[str, int]) -> Slices:
    """`founders` are those of the stores that are there, `complete` says from when on these have all rows: a query that
    can read several of them reads the one with the longest history."""
    present = sorted(_founded(founders), key=lambda store: (complete.get(store.name, 1 << 62), store.name))
    readings: dict[str, tuple[Reading, ...]] = {}
    for query in windowed:
        found = [_first(present, wish) for wish in wishes(query)]
        if found and all(found):
            readings[query.name] = tuple(each for each in found if each is not None)
    others = tuple(query.definition for query in windowed if query.name not in readings)
    fresh = slice_stores(others)
    readings |= fresh
    new = {each.store.name: others for found in fresh.values() for each in found}
    named = {each.store.name for found in readings.values() for each in found}
    return Slices(readings, {name: founders.get(name) or new[name] for name in sorted(named)})


def _founded(founders: Founders) -> list[SliceStore]:
    """The stores by these names, if their founders still give them: another version may define them in another way."""
    found: dict[str, SliceStore] = {}
    for name, queries in founders.items():
        for readings in slice_stores(queries).values():
            found |= {each.store.name: each.store for each in readings if each.store.name == name}
    return list(found.values())


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
        ways.append(Reading(store, present, tuple(_filtered(each, wish.filter) for each in wish.partials)))
    has = set(store.parts)
    return next((way for way in ways if has.issuperset((*way.parts, way.present))), None)


def _filtered(partial: Partial, condition: Expression) -> Partial:
    return replace(partial, filter=all_of([each for each in (condition, partial.filter) if each is not None]))
