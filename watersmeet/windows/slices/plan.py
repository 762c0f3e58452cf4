"""Which slice stores a plan has. Queries that stay keep their stores, which have what their open windows need.

A store is *founded* by the queries that are planned together; they decide its slices and parts. One that comes later
reads a store that is there, if that has all that the query asks for; those that find none found others together. A
store is there as long as some query reads it, also if its founders are gone: so the plan remembers them, and the home
too (`slices.json`), because the definition of a store follows from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from watersmeet.aggregate.accumulator import ROWS, Accumulator
from watersmeet.aggregate.choice import filtered, slice_needs, slice_stores
from watersmeet.aggregate.reading import SliceNeed, SliceRead
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.model import Query
from watersmeet.model.forms import FactorizedAggregates, Form, JoinAggregates, PairAggregates, SliceAggregates
from watersmeet.plan.ruleset import WindowRule
from watersmeet.windows.costs import TickFacts, WindowCosts
from watersmeet.windows.protocol import Planned, StoredWindows
from watersmeet.windows.slices.cost import slices_cost

SLICES = "slices"  # the name of the operator
_NEVER = 1 << 62
# By form: how windows are computed, in words, and whether the keys of a window cannot be divided among partitions.
# Distinct values are keys that slices are divided by, and those of a factorized join are join keys.
_FORMS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    SliceAggregates.kind: (
        "from partial aggregates of slices",
        lambda form: bool(form.distinct) or form.final.needs_all_keys,
    ),
    FactorizedAggregates.kind: ("from partial aggregates of slices by join key", lambda form: True),
    JoinAggregates.kind: (
        "from partial aggregates of the results of its join",
        lambda form: form.final.needs_all_keys,
    ),
    PairAggregates.kind: (
        "from the results of its join, by the slices of their oldest and newest members",
        lambda form: form.final.needs_all_keys,
    ),
}


class SlicesPlanning:
    name = SLICES
    needs_spark = False
    reads_rows = False

    def takes(self, form: Form) -> bool:
        return form.kind in _FORMS

    def in_words(self, form: Form) -> str:
        return _FORMS[form.kind][0]

    def planned(self, queries: Sequence[Query], stored: StoredWindows, partitions: int) -> Planned:
        chosen = choose_slices(queries, stored).divided(partitions)
        rules = tuple(_rule(query, chosen.reads[query.name]) for query in queries)
        return Planned(rules, chosen.stores, chosen.origins)

    def cost(self, rules: Sequence[WindowRule], facts: TickFacts) -> WindowCosts:
        return slices_cost([(rule.query, reads_of(rule)) for rule in rules], facts)


def _rule(query: Query, reads: tuple[SliceRead, ...]) -> WindowRule:
    _, needs_all_keys = _FORMS[query.form.kind]
    is_whole = needs_all_keys(query.form)
    of_join = query.join is not None  # results are aggregated when they are found, and nowhere else
    pairs = tuple(
        (each.store.name, stream) for each in reads for stream in (query.streams if of_join else (each.store.source,))
    )
    return WindowRule(query.definition, SLICES, pairs, is_filled=not of_join, is_whole=is_whole, details=reads)


def reads_of(rule: WindowRule) -> tuple[SliceRead, ...]:
    """What the windows of a query are made of, if they are made of slices."""
    return rule.details if rule.operator == SLICES else ()


def slices_of(rules: Iterable[WindowRule]) -> dict[str, SliceStore]:
    """The slice stores that queries read, by name."""
    return {read.store.name: read.store for rule in rules for read in reads_of(rule)}


@dataclass(frozen=True)
class SliceOrigin:
    """What a slice store is made for. The salt is that of a store which was filled with stored rows when it was new."""

    queries: tuple[Query, ...]
    salt: str = ""

    @cached_property
    def reads(self) -> dict[str, tuple[SliceRead, ...]]:
        found = slice_stores(self.queries)
        return {name: tuple(_salted(each, self.salt) for each in reads) for name, reads in found.items()}


SliceOrigins = Mapping[str, SliceOrigin]  # by store


@dataclass(frozen=True)
class Slices:
    """What the windowed queries of a plan read, and the origins of each store that is read."""

    reads: Mapping[str, tuple[SliceRead, ...]] = field(default_factory=dict)  # by query
    origins: SliceOrigins = field(default_factory=dict)

    @property
    def stores(self) -> tuple[SliceStore, ...]:
        found = {each.store.name: each.store for reads in self.reads.values() for each in reads}
        return tuple(found[name] for name in sorted(found))

    def divided(self, partitions: int) -> Slices:
        """The same, with stores that divide their rows among this many partitions."""
        stores = {store: replace(store, partitions=partitions) for store in self.stores}

        def of(read: SliceRead) -> SliceRead:
            return replace(read, store=stores[read.store])

        return replace(self, reads={name: tuple(map(of, found)) for name, found in self.reads.items()})


def choose_slices(windowed: Sequence[Query], stored: StoredWindows) -> Slices:
    """A query that can read several of the stores that are there reads the one with the longest history. One that is
    to be backfilled reads none that has less of the past than the stored rows: it founds one that they are put into."""
    complete = stored.complete
    present = sorted(_founded(stored.origins), key=lambda store: (complete.get(store.name, _NEVER), store.name))
    reads: dict[str, tuple[SliceRead, ...]] = {}
    for query in windowed:
        if query.join is not None:
            continue
        usable = [store for store in present if _reaches_back(store, stored)] if query.backfill else present
        found = [_first(usable, need) for need in slice_needs(query.form, query.grid)]
        if found and all(found):
            reads[query.name] = tuple(each for each in found if each is not None)
    for query in windowed:
        if query.join is not None:  # its results are its own: nobody else may add to its slices
            own = SliceOrigin((query.definition,), f"{query.name} {query.addition}")
            reads |= own.reads
    origins = dict(stored.origins)
    for backfilled in (False, True):
        others = [query for query in windowed if query.name not in reads and query.backfill == backfilled]
        salt = next((query.addition or query.name for query in others), "") if backfilled else ""
        founded = SliceOrigin(tuple(query.definition for query in others), salt)
        reads |= founded.reads
        names = {each.store.name for found in founded.reads.values() for each in found}
        origins = {**dict.fromkeys(names, founded), **origins}
    named = sorted({each.store.name for found in reads.values() for each in found})
    return Slices(reads, {name: origins[name] for name in named if name in origins})


def _reaches_back(store: SliceStore, stored: StoredWindows) -> bool:
    """Whether a slice store has no less of the past than the stored rows of its stream."""
    rows = stored.complete.get(store.source, _NEVER)
    return stored.complete.get(store.name, _NEVER) <= rows


def _founded(origins: SliceOrigins) -> list[SliceStore]:
    """The stores by these names, if their origins still give them: another version may define them in another way."""
    found: dict[str, SliceStore] = {}
    for name, founded in origins.items():
        for reads in founded.reads.values():
            found |= {each.store.name: each.store for each in reads if each.store.name == name}
    return list(found.values())


def _salted(read: SliceRead, salt: str) -> SliceRead:
    return replace(read, store=replace(read.store, salt=salt)) if salt else read


def _first(stores: Iterable[SliceStore], need: SliceNeed) -> SliceRead | None:
    return next((found for store in stores if (found := read_in(store, need)) is not None), None)


def read_in(store: SliceStore, need: SliceNeed) -> SliceRead | None:
    """How a store fulfils a need; None if it does not."""
    if (store.source, store.keys) != (need.source, need.keys) or need.grid.slice % store.width:
        return None
    ways: list[SliceRead] = []
    if store.filters == (() if need.filter is None else (need.filter,)):
        ways.append(SliceRead(store, ROWS, need.partials))
    elif need.filter is not None and (not store.filters or need.filter in store.filters):
        present = Accumulator("count", None, need.filter) if need.keys else ROWS
        ways.append(SliceRead(store, present, tuple(filtered(each, need.filter) for each in need.partials)))
    has = set(store.parts)
    return next((way for way in ways if has.issuperset((*way.parts, way.present))), None)
