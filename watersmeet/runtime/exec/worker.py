"""The worker: executes orders in one process for one engine, and keeps what later orders need again.

A worker belongs to its owner: a resident task, a `LocalExecutor`, or, for Spark jobs of a tick, the process
(`worker_of`). It holds the buckets that are open and the plans that it has read, and does one thing at a time.
"""

from __future__ import annotations

import contextlib
import pickle
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from watersmeet.errors import InputError, WatersmeetError
from watersmeet.home import layout
from watersmeet.home.manifest import BucketInfo
from watersmeet.io.source import Piece
from watersmeet.model import CORRUPT_COLUMN, Stream
from watersmeet.model.limits import Limits
from watersmeet.plan.ruleset import StreamStore
from watersmeet.runtime.emit.results import Results
from watersmeet.runtime.emit.waiting_results import release
from watersmeet.runtime.exec.exchange import REPORT, Blob, ProbeTask
from watersmeet.runtime.exec.freed_memory import keep_freed
from watersmeet.runtime.exec.looking import HeadOrder, VerifyOrder, first_rows, verified
from watersmeet.runtime.exec.on_disk import on_disk
from watersmeet.runtime.exec.open_targets import DeliverOrder, OpenTargets
from watersmeet.runtime.exec.plan_files import PlansRead
from watersmeet.runtime.gather import Gather
from watersmeet.runtime.probe.open_buckets import OpenBuckets, TickBuckets
from watersmeet.runtime.tick.failure import is_full, no_space
from watersmeet.runtime.tick.orders import (
    GatherOrder,
    GatherReport,
    MergeOrder,
    MergeReport,
    Order,
    ProbeOrder,
    ReleaseOrder,
    TaskReport,
    raise_first,
)
from watersmeet.runtime.tick.overload import Overload, out_of_memory
from watersmeet.runtime.tick.tick import Tick, walk_phases
from watersmeet.runtime.tick.whole_tick import TickOrder, TickReport, WalkOrder
from watersmeet.store.bucket import Bucket
from watersmeet.store.evaluate import close_databases
from watersmeet.store.guard import OUT_OF_MEMORY, memory, retains, within_bounds
from watersmeet.store.merge import MAX_BYTES, merge
from watersmeet.store.placement import Placement
from watersmeet.windows.workers import Operators, window_orders

MERGE_MEGABYTES = 4 * MAX_BYTES >> 20  # of memory: the rows, what is derived, and copies of both


class Worker:
    def __init__(self, owns_process: bool = False) -> None:
        """`owns_process`: nothing else runs in this process, so that its memory may be limited, and kept."""
        self._owns_process = owns_process
        self.exhausted = False  # of memory or address space: its process is better replaced
        self.buckets = OpenBuckets()
        self.plans = PlansRead()
        self._operators = Operators(self)
        self._turn = threading.RLock()
        self._handlers: dict[type, Callable[[Any, int, str], list[Any]]] = {
            GatherOrder: self._gather,
            ProbeOrder: self._probe,
            WalkOrder: self._walk,
            MergeOrder: self._merge,
            ReleaseOrder: self._release,
            TickOrder: self._tick,
            VerifyOrder: verified,
            HeadOrder: first_rows,
            DeliverOrder: lambda order, task, name: [self.targets.deliver(order)],
            **self._operators.handlers,
        }
        self.targets = OpenTargets()
        self.kept: dict[Stream, Any] = {}  # what pieces of a stream keep open from tick to tick

    def execute(self, order: Order, task: int, name: str) -> list[Any]:
        """Do one task of an order, and report. `name` is new for each try, so that two tries never share a file."""
        return on_disk(order, self._do(order, task, name))

    def _do(self, order: Order, task: int, name: str) -> list[Any]:
        with self._turn, self.limited(order):
            try:
                return self._handlers[type(order)](order, task, name)
            except OUT_OF_MEMORY:
                self.release_memory()
                raise

    @contextlib.contextmanager
    def limited(self, order: Any) -> Iterator[None]:
        """Within the limits of the plan. Afterwards Spark may use the process for jobs of others."""
        rules = getattr(order, "rules", None)
        if rules is None:
            yield
            return
        if not rules.windows:
            self._operators.forget()  # what was kept for queries that are gone
        limits: Limits = rules.limits
        if self._owns_process:
            keep_freed(limits.task_megabytes)
        with within_bounds(limits):
            if not self._owns_process or not limits.task_megabytes:
                yield
                return
            self.exhausted |= retains(limits.task_megabytes)
            memory.limit(limits.task_megabytes)
            try:
                yield
            finally:
                memory.limit(0)
                self.exhausted |= retains(limits.task_megabytes)

    def execute_packed(self, packed: bytes, task: int, name: str) -> list[Any]:
        return self.execute(self.plans.unpack(packed), task, name)

    # Rows come in --------------------------------------------------------------------------------

    def _gather(self, order: GatherOrder, task: int, name: str) -> list[GatherReport]:
        """Read some pieces of streams."""
        by_stream: dict[str, list[Piece]] = {}
        for piece in order.work[task]:
            by_stream.setdefault(piece.stream, []).append(piece)
        declared = {stream.name: stream for stream in order.streams}
        reports = []
        for stream, pieces in by_stream.items():
            rejected: list[tuple[Piece, InputError]] = []
            parts: list[tuple[Piece, InputError]] = []
            rows = _rows_of(declared[stream], pieces, self.kept, rejected, parts)
            report = self.gather_rows(order, declared[stream], rows, name)
            report.rejected_files += rejected
            report.parts += parts
            reports.append(report)
        return reports

    def gather_rows(
        self, order: GatherOrder, stream: Stream, rows: Iterable[pa.RecordBatch], name: str
    ) -> GatherReport:
        rule = order.rules.stream_stores.get(stream.name)
        if rule is None:
            rule = StreamStore(stream.name, stream.columns, (), (), Placement(), time=stream.time)
        declared = [column.name.lower() for column in stream.columns]
        corrupt = None if CORRUPT_COLUMN in declared else CORRUPT_COLUMN  # an ordinary column of Parquet files
        try:
            intake = self._operators.of_stream(order, stream.name, name, order.without)
            return Gather(order, rule, name, corrupt, intake).run(rows)
        except Exception as problem:
            return GatherReport(stream.name, failure=self.as_failure(problem, order.home))

    # and walk the plan ---------------------------------------------------------------------------

    def _probe(self, order: ProbeOrder, task: int, name: str) -> list[TaskReport]:
        try:
            probe = self._probe_task(order, task, name)
            probe.run()
            return [probe.results.finish()]
        except Exception as problem:
            return [TaskReport(failure=self.as_failure(problem, order.home))]

    def exchange_step(
        self, order: ProbeOrder, task: int, name: str, blobs: Iterable[Blob] | None = None
    ) -> Iterator[Blob]:
        """The part of a probe between two exchanges; without blobs, the one before the first."""
        try:
            with self.limited(order):
                yield from self._probe_task(order, task, name).step(blobs)
        except Exception as problem:
            yield task, (REPORT, pickle.dumps(TaskReport(failure=self.as_failure(problem, order.home))))

    def _probe_task(self, order: ProbeOrder, task: int, name: str) -> ProbeTask:
        stores = TickBuckets(order, self.buckets)
        return ProbeTask(order, stores, task, Results(order, stores, name, self._operators.of_results))

    def _walk(self, order: WalkOrder, task: int, name: str) -> list[TaskReport]:
        try:
            return self._all_phases(order.tick, order.gathered, name)
        except Exception as problem:
            return [TaskReport(failure=self.as_failure(problem, order.home))]

    def _all_phases(self, tick: Tick, gathered: Sequence[GatherReport], name: str) -> list[TaskReport]:
        """All probes of a tick by this task: one report, which grows from phase to phase."""
        results: Results | None = None

        def probe(order: ProbeOrder) -> list[TaskReport]:
            nonlocal results
            stores, is_first = TickBuckets(order, self.buckets), results is None
            if results is None:
                results = Results(order, stores, name, self._operators.of_results, one_task=True)
            else:
                results.begin(order, stores)
            report = ProbeTask(order, stores, 0, results).run()
            return [report] if is_first else []

        probed = walk_phases(tick, gathered, 1, probe)
        if results is not None:
            results.finish()
        return probed

    def as_failure(self, problem: Exception, home: str, queries: Collection[str] = ()) -> WatersmeetError:
        """`queries` are those that the work was for, if it was not for all."""
        failure = out_of_memory(queries) if isinstance(problem, OUT_OF_MEMORY) else as_failure(problem, home)
        if isinstance(failure, Overload) and failure.may_pass:
            self.release_memory()
        return failure

    def opened(self, home: Path, info: BucketInfo) -> Bucket:
        """A bucket for an operator of windows."""
        return self.buckets.peek(home, info)

    def release_memory(self) -> None:
        self.exhausted = True
        self.buckets = OpenBuckets()
        self._operators.forget()
        close_databases()

    # Buckets are merged --------------------------------------------------------------------------

    def _merge(self, order: MergeOrder, task: int, name: str) -> list[MergeReport]:
        job = order.jobs[task]
        file = layout.bucket_file(job.inputs[0].store, order.tick, order.attempt, f"{name}-m{task}")
        try:
            with memory.beside(MERGE_MEGABYTES):
                return [MergeReport(job, merge(Path(order.home), job, file, order.stores[task], self.buckets.peek))]
        except Exception as problem:
            return [MergeReport(job, failure=as_failure(problem, order.home))]

    # Results that have waited leave --------------------------------------------------------------

    def _release(self, order: ReleaseOrder, task: int, name: str) -> list[TaskReport]:
        try:
            return [release(order, name)]
        except Exception as problem:
            return [TaskReport(failure=as_failure(problem, order.home))]

    # All of it -----------------------------------------------------------------------------------

    def _tick(self, order: TickOrder, task: int, name: str) -> list[TickReport]:
        report = TickReport([], [], [], (0.0, 0.0))
        began = time.perf_counter()
        report.gathered = self._all(order.gather, f"{name}g")
        at_gathered = time.perf_counter()
        if all(gathered.failure is None for gathered in report.gathered):
            try:
                report.merged = self._all(order.merges, name)
                raise_first(report.merged)
                walk = WalkOrder(order.gather.home, order.tick, tuple(report.gathered), order.rules)
                report.probed = self._all(walk, f"{name}p")
                if order.rules.windows:
                    closing = order.tick.closing(report.gathered, report.probed)
                    for at, each in enumerate(window_orders(closing)):
                        report.probed += self._all(each, f"{name}s{at}-")
            except WatersmeetError as problem:
                report.probed = [TaskReport(failure=problem)]
        report.seconds = (at_gathered - began, time.perf_counter() - at_gathered)
        return [report]

    def _all(self, order: Order, name: str) -> list[Any]:
        return [report for task in range(order.tasks) for report in self._do(order, task, f"{name}{task}")]


def _rows_of(
    stream: Stream,
    pieces: list[Piece],
    kept: dict[Stream, Any],
    rejected: list[tuple[Piece, InputError]],
    parts: list[tuple[Piece, InputError]],
) -> Iterator[pa.RecordBatch]:
    """The rows of pieces, and which files could not be read: none of their rows, or a part."""
    for piece in pieces:
        failed = rejected
        try:
            rows = piece.read(stream, kept)
            failed = parts
            yield from rows
        except InputError as problem:
            if not piece.file:
                raise
            failed.append((piece, problem))


def as_failure(problem: Exception, home: str) -> WatersmeetError:
    """A failure that another try would meet again, as a value; any other is raised, and the task is tried again."""
    if isinstance(problem, WatersmeetError):
        return problem
    if is_full(problem):
        return no_space(home)
    raise problem


_KEPT = 2
_workers: dict[str, Worker] = {}
_workers_turn = threading.Lock()


def worker_of(run: str) -> Worker:
    """The worker of a process of Spark's for a run of an engine; those of the engines before are given up."""
    with _workers_turn:
        worker = _workers.pop(run, None) or Worker(owns_process=True)
        _workers[run] = worker
        for old in list(_workers)[:-_KEPT]:
            del _workers[old]
        return worker
