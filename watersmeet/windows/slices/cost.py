"""What windows that are made of slices cost.

    a slice store    rows · (sliced_row + values · sliced_value) + slices · values · slice_value + calls · slice_call
    answers from it  slices · values · slice_read + reads · window_call + windows · keys · values · window_value

A value is one of a key or of a part of an aggregate; slices are the rows that a tick adds to a slice store, one for
each slice and key; calls are batches of rows that go in, and files that are written. The messages of a factorized join
are in the keys that are read of each of its members. How many windows a tick closes follows from the event time that
passes in it, how many keys a window has from the rows in it and the number of different keys (`keys_among`).

A store is divided among the queries that read it, and a read among the queries that read the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp

from watersmeet.aggregate.reading import SliceRead
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.aggregate.structure import structure_for
from watersmeet.model import Query
from watersmeet.model.forms import FactorizedAggregates
from watersmeet.optimize.statistics import DEFAULT_KEYS
from watersmeet.windows.costs import RESULTS, TickFacts, WindowCosts

SLICES, WINDOWS = "slices", "windows"  # stages
_MOST_KEYS = 1e12
Reads = Sequence[tuple[Query, tuple[SliceRead, ...]]]


def slices_cost(reads: Reads, facts: TickFacts) -> WindowCosts:
    """The cost of all queries that are answered from slices."""
    return _Pricing(reads, facts).costs()


@dataclass(frozen=True)
class _StoreFacts:
    came: float  # rows of a tick that are looked at,
    rows: float  # those that go in,
    slices: float  # and rows that the store gets of them
    keys: float  # different ones, if all of a long time were counted
    progress: float  # microseconds of event time in a tick

    def keys_of_window(self, query: Query) -> float:
        return keys_among(self.rows * query.grid.range / self.progress, self.keys)


@dataclass(frozen=True)
class _Pricing:
    reads: Reads
    facts: TickFacts

    def costs(self) -> WindowCosts:
        found = WindowCosts()
        for store, readers in self._readers.items():
            self._add_store(found, store, readers)
        self._add_calls(found)
        for query, reads in self.reads:
            self._add_answers(found, query, reads)
            if not self.facts.knows(query) or any(read.store.name in found.assumed for read in reads):
                found.assumed.add(query.name)
        return found

    # Stores --------------------------------------------------------------------------------------

    @cached_property
    def _readers(self) -> dict[SliceStore, list[Query]]:
        found: dict[SliceStore, dict[str, Query]] = {}
        for query, reads in self.reads:
            for read in reads:
                found.setdefault(read.store, {})[query.name] = query
        return {store: list(queries.values()) for store, queries in found.items()}

    def _add_store(self, found: WindowCosts, store: SliceStore, readers: list[Query]) -> None:
        weights, values, facts = self.facts.weights, len(store.schema), self._stores[store]
        # Rows of a stream come in one batch, results of a join in one for each alias.
        calls = self.facts.partitions + max(len(query.join.aliases) if query.join else 1 for query in readers)
        written = facts.came * weights.sliced_row + facts.rows * values * weights.sliced_value
        written += facts.slices * values * weights.slice_value + calls * weights.slice_call
        read = facts.slices * values * weights.slice_read
        for query in readers:
            found.add(SLICES, query.name, written / len(readers))
            found.add(WINDOWS, query.name, read / len(readers))
        found.by_store[store.name] = written + read
        longest = max(readers, key=lambda query: query.grid.range)
        found.keys[store.name] = keys = facts.keys_of_window(longest)
        slices = longest.grid.range // store.width
        rows = facts.slices * longest.grid.range / facts.progress
        found.structures[store.name] = structure_for(store, slices, int(rows), slices, int(keys))
        if store.name not in self.facts.statistics.slices:
            found.assumed.add(store.name)

    @cached_property
    def _stores(self) -> dict[SliceStore, _StoreFacts]:
        return {store: self._facts_of(store, readers) for store, readers in self._readers.items()}

    def _facts_of(self, store: SliceStore, readers: list[Query]) -> _StoreFacts:
        statistics = self.facts.statistics
        progress = min(map(self.facts.progress, readers))
        joined = [self.facts.joined[query.name] for query in readers if query.name in self.facts.joined]
        came = max(joined) if joined else self.facts.arrivals(store.source)
        known = statistics.slices.get(store.name)
        if known is not None:
            return _StoreFacts(came, known.rows, known.slices, known.keys, progress)
        title = store_title(store)
        assumed = DEFAULT_KEYS
        if any(query.form.kind == FactorizedAggregates.kind for query in readers):
            assumed = statistics.size(store.source)  # one partner for each row, as the optimizer assumes of joins
        same = next((each.keys for each in statistics.slices.values() if each.title == title), assumed)
        keys = same if store.keys else 1.0
        shares = [statistics.passing((store.source, each.text)) for each in store.filters]
        rows = came * (min(1.0, sum(shares)) if shares else 1.0)
        touched = max(1.0, progress / store.width)
        return _StoreFacts(came, rows, touched * keys_among(rows / touched, keys), keys, progress)

    # Windows -------------------------------------------------------------------------------------

    def _add_calls(self, found: WindowCosts) -> None:
        alike: dict[tuple[SliceRead, ...], list[tuple[Query, float]]] = {}
        for query, reads in self.reads:
            alike.setdefault(reads, []).append((query, min(1.0, self.facts.windows(query))))
        for reads, together in alike.items():
            calls = self.facts.weights.window_call * len(reads) * max(closing for _, closing in together)
            whole = sum(closing for _, closing in together)
            for query, closing in together:
                found.add(WINDOWS, query.name, calls * closing / whole)

    def _add_answers(self, found: WindowCosts, query: Query, reads: tuple[SliceRead, ...]) -> None:
        windows = self.facts.windows(query)
        keys = [self._stores[read.store].keys_of_window(query) for read in reads]
        for read, each in zip(reads, keys, strict=True):
            values = len(read.store.keys) + len(read.parts)
            found.add(WINDOWS, query.name, windows * each * values * self.facts.weights.window_value)
        assumed = keys[0] if all(read.store.keys for read in reads) else min(keys)  # a window without rows has none
        rows = windows * self.facts.statistics.results.get(query.name, assumed)
        found.add(RESULTS, query.name, self.facts.writing(query, rows))


def store_title(store: SliceStore) -> str:
    """What the keys of a slice store are known by."""
    keys = sorted(key.spelled(lambda column: column.shown) for key in store.keys)
    return f"{store.source} by {', '.join(keys)}"


def keys_among(rows: float, keys: float) -> float:
    """How many of so many keys are among some rows, if each row has any of them."""
    return keys * (1 - exp(-rows / keys)) if rows < 30 * keys else keys


def keys_from(rows: float, found: float) -> float:
    """How many keys there are, if so many are found among some rows: the inverse of `keys_among`."""
    low, high = max(1.0, found), _MOST_KEYS
    if keys_among(rows, high) <= found:
        return high
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if keys_among(rows, middle) < found else (low, middle)
    return low
