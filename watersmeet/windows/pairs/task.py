"""Results of joins that are kept until their windows close: tasks store them, and write those of windows that are due.

They are written in pieces, so that little memory is needed, however many there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar, cast

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.last_step import FinalStep, finished
from watersmeet.errors import RunError
from watersmeet.home.counters import (
    KEEPING,
    KEPT_FILES,
    KEPT_ROWS,
    RESULTS,
    Counters,
)
from watersmeet.home.manifest import BucketInfo
from watersmeet.model import Query
from watersmeet.model.forms import END, START, FinalStage
from watersmeet.plan.ruleset import WindowRule
from watersmeet.runtime.emit.new_buckets import BUCKET_BYTES, BUCKET_ROWS, NewBuckets
from watersmeet.runtime.emit.patience import Patience
from watersmeet.runtime.emit.result_files import ResultFiles
from watersmeet.runtime.tick.orders import TaskReport, WritingOrder
from watersmeet.store.bucket import Bucket, concatenated
from watersmeet.store.kernels import I64
from watersmeet.windows.life import DueWindows
from watersmeet.windows.pairs.plan import PAIRS, PairStore
from watersmeet.windows.pairs.tick import Asked, PairsOrder, PairsTicking
from watersmeet.windows.working import Handler, Host, Intake, Ticking

PIECE_ROWS, PIECE_BYTES = 1 << 17, 16 << 20  # of results that are made at a time


class PairsWorking:
    name: ClassVar[str] = PAIRS
    ticking: ClassVar[Ticking] = PairsTicking()

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def handlers(self) -> Mapping[type, Handler]:
        return {PairsOrder: self._answer}

    def intake(self, order: WritingOrder, stores: Collection[str], task: str) -> Intake:
        (name,) = stores
        return Keeping(order, cast(PairStore, order.rules.window_stores[name]), task)

    def forget(self) -> None:
        pass

    def _answer(self, order: PairsOrder, task: int, name: str) -> list[TaskReport]:
        try:
            return [_Writing(order, f"{name}-p{task}", self._host).run(order.work[task])]
        except Exception as problem:
            queries = [due.query for due, _, _ in order.work[task]]
            return [TaskReport(failure=self._host.as_failure(problem, order.home, queries))]


class Keeping:
    """What one task finds for one query. Results that are in no window are left out."""

    def __init__(self, order: WritingOrder, store: PairStore, task: str) -> None:
        self._tick, self._store, self._new = order.tick, store, NewBuckets(order, f"{task}-p")
        self._found: list[Bucket] = []
        self._rows = self._bytes = 0
        self._written: list[BucketInfo] = []

    wants_earliest = True

    def __bool__(self) -> bool:
        return True

    def add(self, rows: pa.RecordBatch, tau: I64, earliest: I64 | None = None) -> None:
        assert earliest is not None
        first, last = self._store.windows(tau, earliest)
        found = Bucket(rows, tau, earliest)
        inside = first <= last
        if not inside.all():
            found = found.keep(np.flatnonzero(inside))
        if not len(found):
            return
        self._found.append(found)
        self._rows, self._bytes = self._rows + len(found), self._bytes + found.rows.nbytes
        if self._rows >= BUCKET_ROWS or self._bytes >= BUCKET_BYTES:
            self._write()

    def finish(self, counts: Counters) -> Iterable[BucketInfo]:
        with counts.timed(KEEPING):
            self._write()
        counts.done[KEPT_ROWS] += sum(info.rows for info in self._written)
        counts.done[KEPT_FILES] += len(self._written)
        return self._written

    def abandon(self) -> Iterable[BucketInfo]:
        return self._written

    def _write(self) -> None:
        if self._found:
            rows = concatenated(self._found)
            self._found, self._rows, self._bytes = [], 0, 0
            self._written += [info for _, info in self._new.write(self._store, rows, self._tick)]


class _Writing:
    """One task of an order."""

    def __init__(self, order: PairsOrder, name: str, host: Host) -> None:
        self._host, self._home = host, Path(order.home)
        self._report = TaskReport()
        queries = {rule.query.name: rule.query for rule in order.rules.windows}
        self._files = ResultFiles(order, name, self._report, queries)
        self._patience = Patience(self._home, self._files.suspended)

    def run(self, work: Iterable[Asked]) -> TaskReport:
        counts = self._report.counts
        with counts.timed(RESULTS):
            for due, rule, buckets in work:
                with self._files.confined(due.query):
                    self._answer(due, rule, buckets)
                self._files.close(due.query)
            self._files.finish()
        self._files.count_work()
        return self._report

    def _answer(self, due: DueWindows, rule: WindowRule, buckets: Iterable[BucketInfo]) -> None:
        (store,) = rule.details
        for info in buckets:
            bucket = self._host.opened(self._home, info)
            for rows, starts in _pieces(store, due, bucket):
                self._patience.look({due.query})
                if due.query in self._files.suspended:
                    return
                if self._files.only_counts(due.query):
                    if self._files.admits(due.query, len(rows)):
                        self._files.count(due.query, len(rows))
                else:
                    self._write(rule.query, bucket, rows, starts)

    def _write(self, query: Query, bucket: Bucket, rows: I64, starts: I64) -> None:
        try:
            found, failures = _results(query, bucket, rows, starts)
        except MemoryError:
            self._host.release_memory()
            try:
                found, failures = _results(query, bucket, rows, starts)
            except MemoryError as problem:
                raise RunError("a task has no memory for its windows (option task_memory)") from problem
        if failures:
            self._report.counts.failed_values[query.name] += failures
        self._files.add(query.name, found)


def _pieces(store: PairStore, due: DueWindows, bucket: Bucket) -> Iterator[tuple[I64, I64]]:
    """The rows of a bucket that are in windows that are due, with the starts of these, some at a time. A row comes once
    for each of its windows."""
    grid = store.grid
    first, last = store.windows(bucket.tau, bucket.deadline)
    first, last = np.maximum(first, due.opened), np.minimum(last, due.until - grid.slide)
    chosen = np.flatnonzero(first <= last)
    if not len(chosen):
        return
    counts = (last[chosen] - first[chosen]) // grid.slide + 1
    ends = np.cumsum(counts)
    most = max(1, min(PIECE_ROWS, PIECE_BYTES * len(bucket) // max(1, bucket.rows.nbytes)))
    begin = before = 0
    while begin < len(chosen):
        end = max(begin + 1, int(np.searchsorted(ends, before + most, side="right")))
        rows, times = chosen[begin:end], counts[begin:end]
        nth = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        yield np.repeat(rows, times), np.repeat(first[rows], times) + nth * grid.slide
        begin, before = end, int(ends[end - 1])


def _results(query: Query, bucket: Bucket, rows: I64, starts: I64) -> tuple[pa.Table, int]:
    """Results of windows, and how many values failed."""
    kept = bucket.rows.take(pa.array(rows))
    ends = [pa.array(each, pa.timestamp("us")) for each in (starts, starts + query.grid.range)]
    relation = pa.RecordBatch.from_arrays([*kept.columns, *ends], names=[*kept.schema.names, START, END])
    done = finished(FinalStep(FinalStage(), query.outputs), relation, starts)
    return pa.Table.from_batches([done.rows]), sum(done.failures.values())
