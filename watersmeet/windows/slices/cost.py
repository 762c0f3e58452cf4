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
from watersmeet.model import Query
from watersmeet.optimize.statistics import DEFAULT_KEYS, SliceStatistics
from watersmeet.windows.costs import TickFacts, WindowCosts

SLICES, WINDOWS, RESULTS = "slices", "windows", "results"  # stages
_MOST_KEYS = 1e12
Reads = Sequence[tuple[Query, tuple[SliceRead, ...]]]


def slices_cost(reads: Reads, facts: TickFacts) -> WindowCosts:
    """The cost of all queries that are answered from slices."""
    return _Pricing(reads, facts).costs()


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
        weights, values = self.facts.weights, len(store.schema)
        slices = self._slices(store) * values
        # Rows of a stream come in one batch, results of a join in one for each alias.
        calls = self.facts.partitions + max(len(query.join.aliases) if query.join else 1 for query in readers)
        written = self._came(store) * weights.sliced_row + self._rows(store) * values * weights.sliced_value
        written += slices * weights.slice_value + calls * weights.slice_call
        read = slices * weights.slice_read
        for query in readers:
            found.add(SLICES, query.name, written / len(readers))
            found.add(WINDOWS, query.name, read / len(readers))
        found.by_store[store.name] = written + read
        found.keys[store.name] = self._keys_of_window(store, max(readers, key=lambda query: query.grid.range))
        if self._known(store) is None:
            found.assumed.add(store.name)

    def _known(self, store: SliceStore) -> SliceStatistics | None:
        return self.facts.statistics.slices.get(store.name)

    def _came(self, store: SliceStore) -> float:
        """Rows of a tick that are looked at."""
        joined = [self.facts.joined[query.name] for query in self._readers[store] if query.name in self.facts.joined]
        return max(joined) if joined else self.facts.arrivals(store.source)

    def _rows(self, store: SliceStore) -> float:
        """Rows of a tick that go in."""
        known = self._known(store)
        if known is not None:
            return known.rows
        shares = [self.facts.statistics.passing((store.source, each.text)) for each in store.filters]
        return self._came(store) * (min(1.0, sum(shares)) if shares else 1.0)

    def _slices(self, store: SliceStore) -> float:
        """Rows that a tick adds to a store."""
        known = self._known(store)
        if known is not None:
            return known.slices
        touched = max(1.0, self._progress(store) / store.width)
        return touched * keys_among(self._rows(store) / touched, self._keys(store))

    def _keys(self, store: SliceStore) -> float:
        """Different keys, if all of a long time were counted."""
        if not store.keys:
            return 1.0
        title, slices = store_title(store), self.facts.statistics.slices
        known = self._known(store) or next((each for each in slices.values() if each.title == title), None)
        return DEFAULT_KEYS if known is None else known.keys

    def _progress(self, store: SliceStore) -> float:
        return min(self.facts.progress(query) for query in self._readers[store])

    def _keys_of_window(self, store: SliceStore, query: Query) -> float:
        return keys_among(self._rows(store) * query.grid.range / self._progress(store), self._keys(store))

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
        keys = [self._keys_of_window(read.store, query) for read in reads]
        for read, each in zip(reads, keys, strict=True):
            values = len(read.store.keys) + len(read.parts)
            found.add(WINDOWS, query.name, windows * each * values * self.facts.weights.window_value)
        assumed = keys[0] if all(read.store.keys for read in reads) else 1.0
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
