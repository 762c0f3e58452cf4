"""The ends of paths: results of queries go to files, rows of materialized stores to buckets.

References are collected until they are worth a piece of a file; only then are rows put together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial as bound
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.home.counters import (
    KEEPING,
    KEPT_ENTRIES,
    KEPT_FILES,
    KEPT_ROWS,
    RESULTS,
)
from watersmeet.plan.ruleset import Emit, Materialize
from watersmeet.runtime.emit.assemble import Assembly, Combinations, concatenate
from watersmeet.runtime.emit.materialized_rows import MaterializedRows
from watersmeet.runtime.emit.query_results import QueryResults
from watersmeet.runtime.emit.shared import Shared, SharedResults, takers
from watersmeet.runtime.probe.open_buckets import TickBuckets
from watersmeet.runtime.probe.partial_results import PartialResults, ProbePath
from watersmeet.runtime.probe.walk import Walk
from watersmeet.runtime.probe.window_kinds import WindowKinds
from watersmeet.runtime.tick.orders import ProbeOrder, TaskReport
from watersmeet.store.filters import Words, full_words
from watersmeet.store.kernels import I64, cut_windows
from watersmeet.windows.working import IntakeOf

FLUSH_ROWS = 1 << 17
FEW = 1 << 12  # results for each query: with more, what is done for each result counts, and not what is for each query
_At = tuple[ProbePath, Any, tuple[str, ...]]  # path, its end, and the queries or the materialized store there


class _Waiting:
    """References that wait until they are worth a piece of a file: `receive` gets them then."""

    def __init__(self, receive: Callable[[ProbePath, Any, tuple[str, ...], list[PartialResults]], None]) -> None:
        self._receive = receive
        self._partials: dict[_At, list[PartialResults]] = {}
        self._rows: Counter[_At] = Counter()

    def add(self, at: _At, partial: PartialResults) -> None:
        self._partials.setdefault(at, []).append(partial)
        self._rows[at] += len(partial)
        if self._rows[at] >= FLUSH_ROWS:
            self._flush(at)

    def end(self) -> None:
        for at in sorted(self._partials, key=lambda at: at[2]):  # all pieces of a query, one after the other
            self._flush(at)

    def _flush(self, at: _At) -> None:
        del self._rows[at]
        self._receive(*at, self._partials.pop(at))


class Results:
    def __init__(
        self, order: ProbeOrder, stores: TickBuckets, task: str, intake: IntakeOf, one_task: bool = False
    ) -> None:
        """`intake` gives what takes the results of the join below a windowed query. `one_task`: the same task does all
        probes of the tick."""
        self.order = order
        self.stores = stores
        self._report = TaskReport()
        self.counts = self._report.counts
        self._of_queries = QueryResults(order, task, self._report, intake)
        self._files = self._of_queries.files
        self.suspended = self._files.suspended
        self._materialized = MaterializedRows(order, task, self._report, one_task)
        self._results = _Waiting(self._receive_results)
        self._shared = SharedResults(self._receive_shared, FLUSH_ROWS)
        self._rows = _Waiting(self._receive_rows)
        self._windows: dict[Emit, WindowKinds] = {}
        self._alike: dict[tuple[str, ...], list[tuple[int, ...]]] = {}  # by the queries of a group

    def begin(self, order: ProbeOrder, stores: TickBuckets) -> None:
        """Begin another phase of the tick, whose results go to the same files."""
        self.order, self.stores = order, stores
        self._materialized.begin(order)

    # Results of queries --------------------------------------------------------------------------

    def emit(self, end: Emit, partial: PartialResults, path: ProbePath) -> None:
        with self.counts.timed(RESULTS):
            self._emit(end, partial, path)

    def _emit(self, end: Emit, partial: PartialResults, path: ProbePath) -> None:
        sets, partial = partial.sets.get(end.group), _bare(partial)
        if end.windows is not None:
            if sets is None:
                sets = full_words(end.queries, len(partial))
            sets = self._cut_windows(end, self._assembly(path, end, partial), sets)
        counting = [self._files.only_counts(query) for query in end.queries]
        if any(counting):
            self._count(path, end, partial, sets)
        if end.queries not in self._alike:
            self._alike[end.queries] = self._of_queries.alike(end.queries)
        if not any(counting) and self._is_shared(end, len(partial)):
            self._shared.add(path, end, partial, sets)
            return
        for bits in self._alike[end.queries]:
            self._add(path, end, partial, sets, [bit for bit in bits if not counting[bit]])

    def _is_shared(self, end: Emit, count: int) -> bool:
        """Whether the columns of results are read once for all queries of a group."""
        queries = end.queries
        return len(queries) > 1 and (count <= FEW * len(queries) or self._of_queries.are_of_windows(queries))

    def _add(self, path: ProbePath, end: Emit, partial: PartialResults, sets: Words | None, bits: list[int]) -> None:
        """Results of queries that are alike: those that want the same ones get rows that are put together once."""
        takers: list[tuple[np.ndarray | None, list[str]]] = []  # of which results, None: of all
        for bit in bits:
            query = end.queries[bit]
            if query not in self.suspended:
                wanted = None if sets is None else np.flatnonzero((sets & sets.dtype.type(1 << bit)) != 0)
                if not takers or not _are_same(wanted, takers[-1][0]):
                    takers.append((wanted, []))
                takers[-1][1].append(query)
        for wanted, queries in takers:
            found = _taken(partial, wanted)
            admitted = tuple(query for query in queries if len(found) and self._files.admits(query, len(found)))
            if admitted:
                self._results.add((path, end, admitted), found)

    def _receive_results(
        self, path: ProbePath, end: Emit, queries: tuple[str, ...], waiting: list[PartialResults]
    ) -> None:
        self._write(queries, lambda: self._verified(end, self._assembly(path, end, concatenate(waiting))))

    def _receive_shared(self, path: ProbePath, end: Emit, found: PartialResults, sets: Words) -> None:
        rows = self._verified(end, self._assembly(path, end, replace(found, sets={end.group: sets})))
        shared, sets = Shared(rows), rows.partial.sets[end.group]
        for bits in self._alike[end.queries]:
            for queries, wanted in takers(end.queries, bits, sets):
                count = len(rows) if wanted is None else len(wanted)
                left = [query for query in queries if query not in self.suspended]
                admitted = tuple(query for query in left if count and self._files.admits(query, count))
                self._write(admitted, bound(shared.some, wanted))

    def _write(self, queries: tuple[str, ...], made: Callable[[], Combinations]) -> None:
        queries = tuple(query for query in queries if query not in self.suspended)
        if not queries:
            return
        table: pa.Table | None = None
        with self._files.confined(queries[0]):
            rows = made()
            if not len(rows):
                return
            table = self._of_queries.put_together(queries, rows)
        if table is None:  # perhaps for a reason that concerns this query alone
            self._write(queries[1:], made)
            return
        for query in queries:
            with self._files.confined(query):
                self._of_queries.write(query, table, rows)

    # Rows of materialized stores -----------------------------------------------------------------

    def materialize(self, end: Materialize, partial: PartialResults, path: ProbePath) -> None:
        with self.counts.timed(KEEPING):
            sets = partial.sets.get(end.group)
            found = _taken(_bare(partial), None if sets is None else np.flatnonzero(sets != 0))
            if len(found):
                self._rows.add((path, end, (end.store,)), found)

    def _receive_rows(
        self, path: ProbePath, end: Materialize, stores: tuple[str, ...], waiting: list[PartialResults]
    ) -> None:
        (store,) = stores
        found = self._assembly(path, end, concatenate(waiting))
        rows = self._verified(end, found if end.windows is None else found.within(end.windows))
        if len(rows):
            self._materialized.write(store, rows, path.relation)

    # Both ----------------------------------------------------------------------------------------

    def _assembly(self, path: ProbePath, end: Emit | Materialize, partial: PartialResults) -> Assembly:
        return Assembly(self.stores, self.order.rules, path.stores, end.members, partial)

    def _verified(self, end: Emit | Materialize, found: Assembly) -> Assembly:
        rows = found.verified(end.verify)
        self.counts.hash_collisions += len(found) - len(rows)
        return rows

    def _cut_windows(self, emit: Emit, rows: Assembly, sets: Words) -> Words:
        """The query sets without the queries whose own windows are exceeded."""
        if emit not in self._windows:
            self._windows[emit] = WindowKinds.of(emit)
        kinds = self._windows[emit]
        times = np.stack([rows.times(member) for member in range(len(emit.members))])
        cut = sets.copy()
        cut_windows(times, kinds.windows, kinds.masks, cut)
        return cut

    def only_counts(self, emit: Emit) -> bool:
        return all(self._files.only_counts(query) for query in emit.queries)

    def count(self, emit: Emit, counts: I64) -> None:
        self._of_queries.add_counts(emit.queries, counts)

    def _count(self, path: ProbePath, emit: Emit, partial: PartialResults, sets: Words | None) -> None:
        if emit.verify:
            found = self._assembly(path, emit, replace(partial, sets={} if sets is None else {emit.group: sets}))
            partial = found.verified(emit.verify).partial
            sets = partial.sets.get(emit.group)
        self._of_queries.count(emit.queries, len(partial), sets)

    def end_phase(self, walk: Walk) -> TaskReport:
        """Put together what is waiting, and report what the walk has counted; files are still to be closed."""
        with self.counts.timed(RESULTS):
            self._results.end()
            self._shared.end()
        with self.counts.timed(KEEPING):
            self._rows.end()
            self._materialized.end_phase(self.stores)
        self._report.counts.add(walk.counts)
        self._report.disabled |= walk.calls.disabled
        walk.calls.tell(self.stores.home, self.order.tick)
        return self._report

    def finish(self) -> TaskReport:
        """Close the files, and report them."""
        with self.counts.timed(RESULTS):
            self._of_queries.finish()
        with self.counts.timed(KEEPING):
            self._materialized.finish()
        self._count_work()
        return self._report

    def _count_work(self) -> None:
        done = self.counts.done
        kept = [info for info in self._report.kept if info.store in self.order.rules.join_stores]
        done[KEPT_ROWS] += sum(info.rows for info in kept)
        done[KEPT_ENTRIES] += sum(info.rows * len(self.order.rules.store(info.store).keys) for info in kept)
        done[KEPT_FILES] += len(kept)
        self._files.count_work()


def _bare(partial: PartialResults) -> PartialResults:
    """The partial results without codes and query sets, which only probes need."""
    return PartialResults(partial.members, partial.latest, partial.deadline, {}, {})


def _are_same(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))


def _taken(partial: PartialResults, rows: np.ndarray | None) -> PartialResults:
    """The partial results of these rows; None: all."""
    return partial if rows is None or len(rows) == len(partial) else partial.take(rows)
