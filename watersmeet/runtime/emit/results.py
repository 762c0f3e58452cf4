"""The ends of paths: results of queries go to files, rows of materialized stores to buckets.

References are collected until they are worth a piece of a file; only then are rows put together.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from watersmeet.home.counters import (
    KEEPING,
    KEPT_ENTRIES,
    KEPT_FILES,
    KEPT_ROWS,
    RESULT_BYTES,
    RESULT_FILES,
    RESULT_ROWS,
    RESULTS,
)
from watersmeet.plan.ruleset import Emit, Keep
from watersmeet.runtime.emit.assemble import Assembly, concatenate
from watersmeet.runtime.emit.materialized_rows import MaterializedRows
from watersmeet.runtime.emit.query_results import QueryResults
from watersmeet.runtime.probe.open_buckets import Stores
from watersmeet.runtime.probe.partial_results import Partial, ProbePath
from watersmeet.runtime.probe.walk import Walk
from watersmeet.runtime.probe.window_kinds import WindowKinds
from watersmeet.runtime.tick.orders import ProbeOrder, ProbeReport
from watersmeet.store.filters import Words, word_type
from watersmeet.store.kernels import I64, cut_windows
from watersmeet.windows.working import IntakeOf

FLUSH_ROWS = 1 << 17
_At = tuple[ProbePath, Emit | Keep, str]  # path, its end, and the query or materialized store there


class Results:
    def __init__(self, order: ProbeOrder, stores: Stores, task: str, intake: IntakeOf, one_task: bool = False) -> None:
        """`intake` gives what takes the results of the join below a windowed query. `one_task`: the same task does all
        probes of the tick."""
        self.order = order
        self.stores = stores
        self._report = ProbeReport()
        self.counts = self._report.counts
        self._of_queries = QueryResults(order, task, self._report, intake)
        self.suspended = self._of_queries.suspended
        self._materialized = MaterializedRows(order, task, self._report, one_task)
        self._waiting: dict[_At, list[Partial]] = {}
        self._waiting_rows: Counter[_At] = Counter()
        self._windows: dict[Emit, WindowKinds] = {}

    def begin(self, order: ProbeOrder, stores: Stores) -> None:
        """Another phase of the tick, whose results go to the same files."""
        self.order, self.stores = order, stores
        self._materialized.begin(order)

    def add(self, end: Emit | Keep, partial: Partial, path: ProbePath) -> None:
        with self.counts.timed(_stage(end)):
            self._add(end, partial, path)

    def _add(self, end: Emit | Keep, partial: Partial, path: ProbePath) -> None:
        sets = partial.sets.get(end.group)
        partial = Partial(partial.members, partial.latest, partial.deadline, {}, {})
        if isinstance(end, Keep):
            rows = None if sets is None else np.flatnonzero(sets)
            self._collect((path, end, end.store), partial, rows)
            return
        if end.windows is not None:
            if sets is None:
                sets = np.full(len(partial), (1 << len(end.queries)) - 1, word_type(((),) * len(end.queries)))
            sets = self._cut_windows(end, self._assembly(path, end, partial), sets)
        counting = [self._of_queries.only_counts(query) for query in end.queries]
        if any(counting):
            self._count(path, end, partial, sets)
        for bit, query in enumerate(end.queries):
            if not counting[bit] and query not in self.suspended:
                wanted = None if sets is None else np.flatnonzero(sets & sets.dtype.type(1 << bit))
                self._collect((path, end, query), partial, wanted)

    def _collect(self, at: _At, partial: Partial, rows: np.ndarray | None) -> None:
        if rows is not None and len(rows) < len(partial):
            if not len(rows):
                return
            partial = partial.take(rows)
        if isinstance(at[1], Emit) and not self._of_queries.admits(at[2], len(partial)):
            return
        self._waiting.setdefault(at, []).append(partial)
        self._waiting_rows[at] += len(partial)
        if self._waiting_rows[at] >= FLUSH_ROWS:
            self._flush(at)

    def _assembly(self, path: ProbePath, end: Emit | Keep, partial: Partial) -> Assembly:
        return Assembly(self.stores, self.order.rules, path.stores, end.members, partial)

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
        return all(self._of_queries.only_counts(query) for query in emit.queries)

    def count(self, emit: Emit, counts: I64) -> None:
        self._of_queries.add_counts(emit.queries, counts)

    def _count(self, path: ProbePath, emit: Emit, partial: Partial, sets: Words | None) -> None:
        if emit.verify:
            found = self._assembly(path, emit, replace(partial, sets={} if sets is None else {emit.group: sets}))
            partial = found.verified(emit.verify).partial
            sets = partial.sets.get(emit.group)
        self._of_queries.count(emit.queries, len(partial), sets)

    def _flush(self, at: _At) -> None:
        path, end, name = at
        waiting = self._waiting.pop(at)
        del self._waiting_rows[at]
        if isinstance(end, Keep):
            self._write(end, name, waiting, path)
        elif name not in self.suspended:
            with self._of_queries.confined(name):
                self._write(end, name, waiting, path)

    def _write(self, end: Emit | Keep, name: str, waiting: list[Partial], path: ProbePath) -> None:
        found = self._assembly(path, end, concatenate(waiting))
        if isinstance(end, Keep) and end.windows is not None:
            found = found.within(end.windows)
        rows = found.verified(end.verify)
        self.counts.hash_collisions += len(found) - len(rows)
        if not len(rows):
            return
        if isinstance(end, Keep):
            self._materialized.write(name, rows, path.relation)
        else:
            self._of_queries.write(name, rows)

    def end_phase(self, walk: Walk) -> ProbeReport:
        """Put together what is waiting, and report what the walk has counted; files are still to be closed."""
        for at in list(self._waiting):
            with self.counts.timed(_stage(at[1])):
                self._flush(at)
        with self.counts.timed(KEEPING):
            self._materialized.end_phase(self.stores)
        self._report.counts.add(walk.counts)
        self._report.disabled |= walk.calls.disabled
        walk.calls.tell(self.stores.home, self.order.tick)
        return self._report

    def finish(self) -> ProbeReport:
        """Close the files, and report them."""
        with self.counts.timed(RESULTS):
            self._of_queries.finish()
        with self.counts.timed(KEEPING):
            self._materialized.finish()
        self._count_work()
        return self._report

    def _count_work(self) -> None:
        done, results = self.counts.done, self._report.results
        slices = {store.name for store in self.order.rules.slices}
        kept = [info for info in self._report.kept if info.store not in slices]
        done[KEPT_ROWS] += sum(info.rows for info in kept)
        done[KEPT_ENTRIES] += sum(info.rows * len(self.order.rules.store(info.store).keys) for info in kept)
        done[KEPT_FILES] += len(kept)
        done[RESULT_ROWS] += sum(file.rows for file in results)
        done[RESULT_BYTES] += self._of_queries.bytes
        done[RESULT_FILES] += len(results)


def _stage(end: Emit | Keep) -> str:
    return KEEPING if isinstance(end, Keep) else RESULTS
