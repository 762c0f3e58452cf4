"""Rows become partial aggregates: one bucket for each slice store that takes them, and partition."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.aggregate.accumulator import ROWS
from watersmeet.aggregate.arriving import Arriving
from watersmeet.aggregate.combined import combined_buckets
from watersmeet.aggregate.partials import partial_aggregates
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.errors import WatersmeetError
from watersmeet.home.counters import SLICE_CALLS, SLICE_VALUES, SLICED_ROWS, SLICED_VALUES, Counters
from watersmeet.home.manifest import BucketInfo
from watersmeet.plan.ruleset import WindowRule
from watersmeet.runtime.emit.confine import reason_of
from watersmeet.runtime.emit.new_buckets import NewBuckets
from watersmeet.runtime.tick.orders import WritingOrder
from watersmeet.runtime.tick.overload import Overload
from watersmeet.runtime.tick.suspension import owners
from watersmeet.store.bucket import Bucket
from watersmeet.store.guard import ExpressionError
from watersmeet.store.kernels import I64
from watersmeet.windows.slices.caches import share_of
from watersmeet.windows.slices.plan import reads_of

WAITING_SHARE = 4  # of what windows may take, one part in so many is for slices that wait to be written
_AT_ONCE = 1 << 17  # rows,
_BYTES_AT_ONCE = 64 << 20  # or so much


class Slicing:
    """What one task aggregates for some slice stores in a tick."""

    def __init__(self, order: WritingOrder, slices: Iterable[SliceStore], task: str) -> None:
        self._order, self._new = order, NewBuckets(order, f"{task}-a")
        self._made: dict[SliceStore, list[Bucket]] = {store: [] for store in slices}
        self._failures: dict[str, dict[str, int]] = {store.name: {} for store in self._made}
        self._expressions = [each for store in self._made for each in store.expressions]
        self._added: list[tuple[pa.RecordBatch, I64, I64 | None]] = []  # rows that wait to be aggregated
        self._rows = self._calls = 0  # that were looked at, and batches of them
        self._most = share_of(order.rules.limits) // WAITING_SHARE
        self._waiting = 0  # bytes of what was aggregated and is not written
        self._written: list[BucketInfo] = []
        self._counts = Counters()

    def __bool__(self) -> bool:
        return bool(self._made)

    @property
    def wants_earliest(self) -> bool:
        return any(store.spread for store in self._made)

    def add(self, rows: pa.RecordBatch, tau: I64, earliest: I64 | None = None) -> None:
        added = [rows, *(each for each, _, _ in self._added)]
        most = min(self._most or _BYTES_AT_ONCE, _BYTES_AT_ONCE)
        if sum(each.num_rows for each in added) > _AT_ONCE or sum(each.nbytes for each in added) > most:
            self._aggregate()
        self._added.append((rows, tau, earliest))

    def _aggregate(self) -> None:
        """Few rows take nearly as long as many: those that were added are aggregated together."""
        if not self._added:
            return
        batches, taus, oldest = zip(*self._added, strict=True)
        self._added = []
        rows = batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
        tau = np.concatenate(taus)
        earliest = None if oldest[0] is None else np.concatenate(oldest)
        self._rows += rows.num_rows
        self._calls += 1
        arriving = Arriving(rows, self._expressions)
        for store, made in self._made.items():
            with self._confined(store):
                found = partial_aggregates(store, rows, tau, earliest, arriving)
            if found.rows is not None:
                made.append(found.rows)
                self._waiting += found.rows.rows.nbytes
            failures = self._failures[store.name]
            for text, failed in found.failures.items():
                failures[text] = failures.get(text, 0) + failed
        if self._most and self._waiting > self._most:
            self._write()

    def finish(self, counts: Counters) -> Iterable[BucketInfo]:
        """Write what was aggregated. Values that could not be computed count for the queries that ask for them."""
        self._aggregate()
        if any(self._failures.values()):
            for name, rule in {**self._order.rules.leaving, **self._order.rules.window}.items():
                if failed := self._failed(rule):
                    counts.failed_values[name] += failed
        self._write()
        counts.add(self._counts)
        counts.done[SLICED_ROWS] += self._rows * len(self._made)
        counts.done[SLICE_CALLS] += self._calls * len(self._made)
        return self._written

    def _write(self) -> None:
        """Write what was aggregated so far: at the end, and when there is so much that it would not fit into memory."""
        self._waiting, counts = 0, self._counts
        for store, made in self._made.items():
            with self._confined(store):
                rows = made[0] if len(made) == 1 else combined_buckets(store, made)
            made.clear()
            if rows is not None:
                written = [info for _, info in self._new.write(store, rows, self._order.tick)]
                self._written += written
                sliced = pc.sum(rows.rows.column(store.columns_of(ROWS)[0])).as_py()
                counts.sliced[store.name] += sliced
                counts.done[SLICED_VALUES] += sliced * len(store.schema)
                counts.done[SLICE_VALUES] += len(rows) * len(store.schema)
                counts.done[SLICE_CALLS] += len(written)

    def abandon(self) -> Iterable[BucketInfo]:
        return self._written

    @contextlib.contextmanager
    def _confined(self, store: SliceStore) -> Iterator[None]:
        """What is raised inside concerns the queries that read the store: the tick is repeated without them. An
        expression concerns those that have it; if none has, it is one of a query that is gone or suspended."""
        try:
            yield
        except (WatersmeetError, MemoryError, OSError) as problem:
            failed = problem.expressions if isinstance(problem, ExpressionError) else ()
            if not failed or owners(failed, (rule.query for rule in self._order.rules.windows)):
                raise
            raise self._overload(store, problem) from problem
        except Exception as problem:
            raise self._overload(store, problem) from problem

    def _overload(self, store: SliceStore, problem: Exception) -> Overload:
        rules = self._order.rules.windows
        readers = [rule.query.name for rule in rules if any(each.store == store for each in reads_of(rule))]
        return Overload.of(readers, reason_of(problem))

    def _failed(self, rule: WindowRule) -> int:
        """The failed values of a query. A value counts once, though several stores that the query reads may need it."""
        read = {each.store.name for each in reads_of(rule)}
        failures = [failed for store, failed in self._failures.items() if store in read]
        texts = {each.text for each in rule.query.form.over_rows}
        return sum(max((each.get(text, 0) for each in failures), default=0) for text in texts)
