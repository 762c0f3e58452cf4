"""Windows that Spark SQL computes: a job for each, whose tasks read the rows of the window and write results.

    buckets ─(Python: the rows of the window)─► views ─► the SQL of the query ─(Python: writes result files)─► reports

The text is the one of the model, made anew from the checked syntax tree: no text of a user is parsed by Spark. Sessions
are its own, with the settings under which expressions mean what docs/semantics.md says. A window of few rows is not
divided: to plan it again after each stage, and to start tasks for each bucket, takes longer than to compute it. Windows
of several queries are computed beside each other, because most of a job is waiting and planning. The rows that they
have in common are read once (`shared_rows.py`).
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from watersmeet import points
from watersmeet.errors import StateError, WatersmeetError, restore_hint
from watersmeet.home.counters import SPARK_WINDOWS, WINDOW_JOBS, WINDOW_ROWS
from watersmeet.home.manifest import BucketInfo
from watersmeet.model.forms import View
from watersmeet.runtime.emit.result_files import ResultFiles
from watersmeet.runtime.exec.by_spark import SETTINGS, spark_arrow
from watersmeet.runtime.exec.executor import Executor
from watersmeet.runtime.exec.family_time import family_micros
from watersmeet.runtime.exec.jobs import collected, concerns_all, is_about_a_value, reason_of_spark, task_name
from watersmeet.runtime.exec.limited_job import Allowance, Dropped, JobTookTooLong, LimitedJob
from watersmeet.runtime.exec.on_disk import on_disk
from watersmeet.runtime.exec.worker import worker_of
from watersmeet.runtime.tick.orders import TaskReport
from watersmeet.store.bucket import Bucket
from watersmeet.windows.closing import Closing
from watersmeet.windows.sql.plan import SQL
from watersmeet.windows.sql.shared_rows import SharedRows
from watersmeet.windows.sql.tick import BatchOrder, batch_order, occupied_order
from watersmeet.windows.sql.turns import Turns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BLOCK = 65_536  # rows that are handed over at a time
FEW_ROWS = 100_000  # of all views together
_ADAPTIVE = {"spark.sql.adaptive.enabled": "true"}
# One task reads each view. Spark then divides nothing, and a broadcast would be a job of its own.
_UNDIVIDED = {"spark.sql.shuffle.partitions": "1", "spark.sql.autoBroadcastJoinThreshold": "-1"}
_REPORT_SCHEMA = "report binary"
_UNREADABLE = "watersmeet cannot read its state"
Batches = Iterable[pa.RecordBatch]
Pack = Callable[[Any], bytes]


class SparkWindows:
    """Has the windows of a tick computed from rows, up to its limit. The others are left to the next ticks."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._turns = Turns()
        self._jobs: WindowJobs | None = None

    def drive(self, closing: Closing, by_tasks: Sequence[TaskReport]) -> list[TaskReport]:
        large = [
            [batch_order(closing, query, start, closing.of_streams(query)) for start in starts]
            for report in by_tasks
            for query, starts in report.for_spark.items()
            if query not in report.suspended
        ]
        found = self._own(closing) if closing.has(SQL) else []
        return [*found, *(self.compute(large) if large else [])]

    def _own(self, closing: Closing) -> list[TaskReport]:
        order = occupied_order(closing)
        found = self._executor.submit(order).result() if order.asked else []
        for problem in found:
            if isinstance(problem, WatersmeetError):
                raise problem
        waiting = [(due.query, buckets, starts) for (due, _, buckets), starts in zip(order.asked, found, strict=True)]
        waiting = [each for each in waiting if each[2]]
        most = order.limit or len(waiting)
        chosen = self._turns.take([query for query, *_ in waiting], most, closing.tick, closing.answered.keys())
        asked: list[list[BatchOrder]] = []
        left: dict[str, int] = {}
        for query, buckets, starts in waiting:
            count = order.share if query in chosen else 0
            asked.append([batch_order(closing, query, start, buckets) for start in starts[:count]])
            if count is not None and len(starts) > count:
                left[query] = starts[count]
        return [*self.compute(filter(None, asked)), TaskReport(left=left)] if asked else []

    def compute(self, asked: Iterable[Sequence[BatchOrder]]) -> list[TaskReport]:
        """The windows of each query in their order."""
        spark = self._executor.spark
        assert spark is not None, "a pipeline with executor=local has no query whose windows need Spark"
        self._jobs = self._jobs or WindowJobs(spark, self._executor.run)
        return self._jobs.compute(asked, self._executor.pack)

    def close(self) -> None:
        if self._jobs is not None:
            self._jobs.close()


class WindowJobs:
    """Has windows computed, in Spark sessions of its own."""

    def __init__(self, spark: SparkSession, run: str) -> None:
        self._spark, self._run = spark, run
        self._sessions: dict[bool, SparkSession] = {}  # for windows of few rows, and for others
        # Views have the names of the query's text, in a session that queries share.
        self._views: dict[tuple[bool, str], DataFrame] = {}
        self._naming = threading.Lock()
        slots = spark.sparkContext.defaultParallelism
        self._threads = ThreadPoolExecutor(max(1, slots // 2), "watersmeet window")  # the others are for residents

    def compute(self, asked: Iterable[Sequence[BatchOrder]], pack: Pack) -> list[TaskReport]:
        """The windows of each query in their order, until Spark cannot compute one; queries beside each other."""
        asked = [list(orders) for orders in asked]
        began = self._micros()
        shared = SharedRows(order for orders in asked for order in orders if _has_few_rows(order))
        try:
            running = [self._threads.submit(self._of_query, orders, pack, shared) for orders in asked if orders]
            wait(running)
            return [*(report for each in running for report in each.result()), self._work(asked, began)]
        finally:
            shared.close()

    def _micros(self) -> int:
        """CPU time so far of the JVM and of the Python processes that it started; 0 where they are elsewhere too."""
        process = getattr(self._spark.sparkContext._gateway, "proc", None)
        is_local = str(self._spark.sparkContext.master).startswith("local")
        return family_micros(process.pid) if is_local and process is not None else 0

    def _work(self, asked: Sequence[Sequence[BatchOrder]], began: int) -> TaskReport:
        """What windows took. Other work of these processes at the same time is little beside it."""
        report, orders = TaskReport(), [order for each in asked for order in each]
        report.counts.spent[SPARK_WINDOWS] += self._micros() - began
        report.counts.done[WINDOW_JOBS] += len(orders)
        report.counts.done[WINDOW_ROWS] += sum(map(_rows_inside, orders))
        return report

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)

    def _of_query(self, orders: Sequence[BatchOrder], pack: Pack, shared: SharedRows) -> list[TaskReport]:
        reports: list[TaskReport] = []
        first = orders[0]
        allowance = Allowance(Path(first.home), first.rules.limits.window_seconds, first.query.name)
        for order in orders:
            made = self._window(order, pack(order), shared, allowance)
            if _has_few_rows(order):
                with self._naming:
                    shared.done(order)
            points.reach("window.after")
            reports += made
            if any(report.suspended for report in made):
                break
        return reports

    def _window(self, order: BatchOrder, packed: bytes, shared: SharedRows, allowance: Allowance) -> list[TaskReport]:
        """The reports of the tasks; where Spark cannot compute the window, one that suspends the query."""
        job = LimitedJob(self._spark.sparkContext, Path(order.home), 0, allowance)
        try:
            allowance.check()  # jobs may be so short that nobody looks while one runs
            found = self._rows(order, packed, shared).mapInArrow(_writing(packed, self._run), _REPORT_SCHEMA)
            return [pickle.loads(row.report) for row in job.run(lambda: collected(found, lambda: job.is_given_up))]
        except (JobTookTooLong, Dropped) as problem:
            return [TaskReport(suspended={order.query.name: problem.problem})]
        except Exception as problem:
            if _UNREADABLE in str(problem) and not is_about_a_value(problem):
                raise _unreadable(problem) from problem
            if concerns_all(problem):
                raise
            return [TaskReport(suspended={order.query.name: reason_of_spark(problem)})]

    def _rows(self, order: BatchOrder, packed: bytes, shared: SharedRows) -> DataFrame:
        few = _has_few_rows(order)

        def read(order: BatchOrder, view: View) -> DataFrame:
            tasks = 1 if few else max(1, len(order.buckets[view.stream]))
            schema = ", ".join(f"`{name}` {kind}" for name, kind in _columns(order, view))
            return session.range(0, tasks, 1, tasks).mapInArrow(_reading(packed, self._run, view, tasks), schema)

        with self._naming:
            session = self._session(few)
            for view in order.sql.views:
                rows = shared.of(order, view, read) if few else read(order, view)
                if self._views.get((few, view.name)) is not rows:
                    rows.createOrReplaceTempView(view.name)
                    self._views[few, view.name] = rows
            return session.sql(order.sql.text, {"window_start": order.start, "window_end": order.end})

    def _session(self, few: bool) -> SparkSession:
        if few not in self._sessions:
            session = self._sessions[few] = self._spark.newSession()
            partitions = {"spark.sql.shuffle.partitions": str(self._spark.sparkContext.defaultParallelism)}
            for name, value in {**SETTINGS, **(_UNDIVIDED if few else _ADAPTIVE | partitions)}.items():
                session.conf.set(name, value)
        return self._sessions[few]


def _has_few_rows(order: BatchOrder) -> bool:
    return sum(info.rows for view in order.sql.views for info in order.buckets[view.stream]) <= FEW_ROWS


def _rows_inside(order: BatchOrder) -> int:
    """About as many as the rows of all views, by the time that buckets and the window have in common."""

    def share(info: BucketInfo) -> float:
        inside = min(info.tau_max + 1, order.end) - max(info.tau_min, order.start)
        return max(0, inside) / (info.tau_max + 1 - info.tau_min)

    return round(sum(info.rows * share(info) for view in order.sql.views for info in order.buckets[view.stream]))


def _columns(order: BatchOrder, view: View) -> list[tuple[str, str]]:
    declared = {column.name: column.type for column in order.rules.store(view.stream).columns}
    return [(name, declared[name]) for name in view.columns]


def _unreadable(problem: Exception) -> StateError:
    lines = [line for line in str(problem).splitlines() if _UNREADABLE in line]
    return StateError(lines[0].partition(_UNREADABLE)[2].strip(": "), hint=restore_hint("the file"))


# In tasks ----------------------------------------------------------------------------------------


def _reading(packed: bytes, run: str, asked: View, tasks: int) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """What each of so many tasks reads: all of some buckets."""

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        order: BatchOrder = worker_of(run).plans.unpack(packed)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for info in order.buckets[asked.stream][number::tasks]:
                    yield from _in_window(order, asked, info)

    return read


def _in_window(order: BatchOrder, view: View, info: BucketInfo) -> Iterator[pa.RecordBatch]:
    fields = [pa.field(name, spark_arrow(kind)) for name, kind in _columns(order, view)]
    try:
        bucket = Bucket.open(Path(order.home), info)
    except StateError as problem:
        raise RuntimeError(f"{_UNREADABLE}: {problem.problem}") from problem
    chosen = np.flatnonzero((bucket.tau >= order.start) & (bucket.tau < order.end))
    for begin in range(0, len(chosen), BLOCK):
        rows = bucket.rows.select(list(view.columns)).take(pa.array(chosen[begin : begin + BLOCK]))
        arrays = [column.cast(field.type) for column, field in zip(rows.columns, fields, strict=True)]
        yield _batch(arrays, fields, rows.num_rows)


def _batch(arrays: list[pa.Array], fields: list[pa.Field], rows: int) -> pa.RecordBatch:
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


def _writing(packed: bytes, run: str) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def write(batches: Batches) -> Iterator[pa.RecordBatch]:
        order: BatchOrder = worker_of(run).plans.unpack(packed)
        report = TaskReport()
        name = order.query.name
        results = ResultFiles(order, f"w{task_name()}", report, {name: order.query})
        for batch in batches:
            results.add(name, pa.Table.from_batches([batch]))
        results.finish()
        on_disk(order, [report])
        if report.results or report.suspended or report.counts.results:
            yield _packed(report)

    return write


def _packed(report: Any) -> pa.RecordBatch:
    return pa.record_batch({"report": pa.array([pickle.dumps(report)], pa.binary())})
