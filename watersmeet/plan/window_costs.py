"""What windowed queries cost: CPU microseconds of a tick.

    slice store      rows · (sliced_row + values · sliced_value) + slices · values · slice_value + slice_file
                     and, to answer windows from it, slices · values · slice_read
    windows of it    windows · keys · values · window_value, and window_call for each reading in a tick that closes some
    several of them  windows · keys · values · joined_value more: members of a factorized join, distinct values
    results          as those of joins
    Spark's windows  windows · (window_job + rows · window_row)

A value is one of a key or of a part of an aggregate; slices are the rows that a tick adds to a slice store. How many
windows a tick closes follows from the event time that passes in it, how many keys a window has from the rows in it and
the number of different keys (`keys_among`).

What queries share is divided among them: a store among those that read it, a reading among those that read the same.
So the costs of all queries add up to the cost of the windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import exp

from watersmeet.aggregate.reading import SliceRead
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.model import Query
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.statistics import DEFAULT_KEYS, DEFAULT_TICKS, SliceStatistics
from watersmeet.plan.parts import parts_of
from watersmeet.plan.result_costs import result_width, results_of
from watersmeet.plan.ruleset import Ruleset, WindowRule
from watersmeet.windows.slices.plan import reads_of, slices_of

SLICES, WINDOWS, RESULTS, SPARK = "slices", "windows", "results", "windows by Spark"
_MOST_KEYS = 1e12


@dataclass
class WindowCosts:
    """Microseconds of CPU time in a tick."""

    by_query: dict[str, float] = field(default_factory=dict)
    by_store: dict[str, float] = field(default_factory=dict)  # of slices: rows that go in, and slices that are read
    by_stage: dict[str, float] = field(default_factory=dict)
    keys: dict[str, float] = field(default_factory=dict)  # of a window, by slice store: of the longest
    assumed: frozenset[str] = frozenset()  # queries and stores

    @property
    def total(self) -> float:
        return sum(self.by_stage.values())

    def add(self, stage: str, query: str, cost: float) -> None:
        self.by_stage[stage] = self.by_stage.get(stage, 0.0) + cost
        self.by_query[query] = self.by_query.get(query, 0.0) + cost


def window_costs(problem: Problem, rules: Ruleset, queries: Iterable[Query]) -> WindowCosts:
    """The costs of all windowed queries of a plan; nothing is known where costs are those of the papers."""
    if problem.weights.once or not rules.windows:
        return WindowCosts()
    return _Pricing(problem, rules, tuple(queries)).costs()


@dataclass(frozen=True)
class _Pricing:
    problem: Problem
    rules: Ruleset
    queries: tuple[Query, ...]

    def costs(self) -> WindowCosts:
        found = WindowCosts()
        for store in slices_of(self.rules.windows).values():
            self._add_store(found, store)
        self._add_calls(found)
        for rule in self.rules.windows:
            if reads_of(rule):
                self._add_answers(found, rule)
            else:
                self._add_spark(found, rule)
        unknown = {store.name for store in slices_of(self.rules.windows).values() if self._known(store) is None}
        for rule in self.rules.windows:
            streams = rule.query.streams
            statistics = self.problem.statistics
            known = all(stream in statistics.progress and stream in statistics.arrivals for stream in streams)
            if not known or any(store in unknown for store, _ in rule.reads):
                unknown.add(rule.query.name)
        found.assumed = frozenset(unknown)
        return found

    # Slices --------------------------------------------------------------------------------------

    def _add_store(self, found: WindowCosts, store: SliceStore) -> None:
        weights, readers = self.problem.weights, self._readers[store.name]
        rows, values = self._rows(store), len(store.schema)
        slices = self._slices(store) * values
        written = self._came(store) * weights.sliced_row + rows * values * weights.sliced_value
        written += slices * weights.slice_value + weights.slice_file * self.rules.partitions
        read = slices * weights.slice_read
        for query in readers:
            found.add(SLICES, query.name, written / len(readers))
            found.add(WINDOWS, query.name, read / len(readers))
        found.by_store[store.name] = written + read
        longest = max(readers, key=lambda query: query.grid.range)
        found.keys[store.name] = self._keys_of_window(store, longest)

    @cached_property
    def _readers(self) -> dict[str, list[Query]]:
        """By slice store the queries that read it."""
        found: dict[str, dict[str, Query]] = {}
        for rule in self.rules.windows:
            for reading in reads_of(rule):
                found.setdefault(reading.store.name, {})[rule.query.name] = rule.query
        return {store: list(queries.values()) for store, queries in found.items()}

    def _known(self, store: SliceStore) -> SliceStatistics | None:
        return self.problem.statistics.slices.get(store.name)

    def _came(self, store: SliceStore) -> float:
        """Rows of a tick that are looked at for a store."""
        if (results := self._joined.get(store.name)) is not None:
            return results
        return arrivals(self.problem, store.source)

    @cached_property
    def _joined(self) -> Mapping[str, float]:
        """By slice store the results of the join that it is made of, in a tick."""
        rows = {part.query.name: results_of(self.problem, part) for part in parts_of(self.queries)}
        return {
            reading.store.name: rows[rule.query.name] / self.problem.ticks
            for rule in self.rules.windows
            if rule.query.join is not None
            for reading in reads_of(rule)
        }

    def _rows(self, store: SliceStore) -> float:
        """Rows of a tick that go into a store."""
        known = self._known(store)
        if known is not None and store.name not in self._joined:
            return known.rows
        shares = [self.problem.statistics.passing((store.source, each.text)) for each in store.filters]
        return self._came(store) * (min(1.0, sum(shares)) if shares else 1.0)

    def _slices(self, store: SliceStore) -> float:
        """Rows that a tick adds to a store, one for each slice and key."""
        known = self._known(store)
        if known is not None:
            return known.slices
        touched = max(1.0, self._progress(store) / store.width)
        return touched * keys_among(self._rows(store) / touched, self._keys(store))

    def _keys(self, store: SliceStore) -> float:
        """Different keys, if all of a long time were counted."""
        if not store.keys:
            return 1.0
        title, slices = store_title(store), self.problem.statistics.slices
        known = self._known(store) or next((each for each in slices.values() if each.title == title), None)
        return DEFAULT_KEYS if known is None else known.keys

    def _keys_of_window(self, store: SliceStore, query: Query) -> float:
        rows = self._rows(store) * query.grid.range / self._progress(store)
        return keys_among(rows, self._keys(store))

    # Windows -------------------------------------------------------------------------------------

    def _progress(self, store: SliceStore) -> float:
        """Microseconds of event time in a tick."""
        readers = self._readers[store.name]
        return min(self._progress_of(query) for query in readers)

    def _progress_of(self, query: Query) -> float:
        known = [self.problem.statistics.progress.get(stream) for stream in query.streams]
        return min(query.grid.range / DEFAULT_TICKS if each is None else each * 1e6 for each in known)

    def _windows(self, query: Query) -> float:
        """That a tick closes, on average."""
        return self._progress_of(query) / query.grid.slide

    def _add_calls(self, found: WindowCosts) -> None:
        """Queries that read the same are answered together."""
        alike: dict[tuple[SliceRead, ...], list[tuple[Query, float]]] = {}
        for rule in self.rules.windows:
            if reads_of(rule):
                closing = min(1.0, self._windows(rule.query))
                alike.setdefault(reads_of(rule), []).append((rule.query, closing))
        for readings, together in alike.items():
            calls = self.problem.weights.window_call * len(readings) * max(closing for _, closing in together)
            whole = sum(closing for _, closing in together)
            for query, closing in together:
                found.add(WINDOWS, query.name, calls * closing / whole)

    def _add_answers(self, found: WindowCosts, rule: WindowRule) -> None:
        weights, query = self.problem.weights, rule.query
        windows = self._windows(query)
        weight = weights.window_value + (weights.joined_value if len(reads_of(rule)) > 1 else 0.0)
        keys = [self._keys_of_window(reading.store, query) for reading in reads_of(rule)]
        for reading, each in zip(reads_of(rule), keys, strict=True):
            values = len(reading.store.keys) + len(reading.parts)
            found.add(WINDOWS, query.name, windows * each * values * weight)
        assumed = keys[0] if all(reading.store.keys for reading in reads_of(rule)) else 1.0
        rows = windows * self.problem.statistics.results.get(query.name, assumed)
        if query.sink.format != "count":
            row = weights.result_row + weights.result_byte * result_width(output.type for output in query.outputs)
            cost = rows * row + min(1.0, windows, rows) * weights.result_file
            found.add(RESULTS, query.name, cost)

    def _add_spark(self, found: WindowCosts, rule: WindowRule) -> None:
        weights, query = self.problem.weights, rule.query
        inside = query.grid.range / self._progress_of(query)
        rows = sum(arrivals(self.problem, stream) * inside for _, stream in rule.reads)
        found.add(SPARK, query.name, self._windows(query) * (weights.window_job + rows * weights.window_row))


def arrivals(problem: Problem, stream: str) -> float:
    """Rows of a stream in a tick."""
    known = problem.statistics.arrivals.get(stream)
    return problem.statistics.size(stream) / problem.ticks if known is None else known


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
