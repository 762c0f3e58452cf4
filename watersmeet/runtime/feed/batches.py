"""Batches: how the rows of a feed become buckets."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from watersmeet import points
from watersmeet.errors import InputError
from watersmeet.home import layout
from watersmeet.home.counters import Reason
from watersmeet.home.files import advice_in, append, write_whole
from watersmeet.io.folders import share, size_of
from watersmeet.model import Stream
from watersmeet.runtime.exec.executor import Executor, Rank
from watersmeet.runtime.exec.jobs import task_context, task_name
from watersmeet.runtime.exec.worker import worker_of
from watersmeet.runtime.tick.orders import GatherOrder, GatherReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REPORT_SCHEMA = "report binary"


@dataclass(eq=False)
class FileBatch:
    """Files of streams that are folders, read by tasks."""

    group: str
    number: int
    streams: tuple[Stream, ...]
    files: Mapping[str, list[str]]  # by stream, their paths
    home: Path
    write_down: Callable[[], None] = lambda: None

    @cached_property
    def bytes(self) -> int:
        return size_of(self.files)

    def shared_out(self, order: GatherOrder, tasks: int) -> GatherOrder:
        return replace(order, streams=self.streams, work=share(self.files, tasks))

    def gather(self, order: GatherOrder, executor: Executor, rank: Rank) -> Future[list[GatherReport]]:
        return executor.submit(self.shared_out(order, executor.parallelism), rank)

    def begin(self) -> None:
        self.write_down()

    def check(self, reports: list[GatherReport], executor: Executor) -> list[GatherReport]:
        rejected: dict[str, dict[str, InputError]] = {}  # several tasks may have rejected a large file
        for report in reports:
            for path, problem in report.rejected_files:
                rejected.setdefault(report.stream, {})[path] = problem
        return [set_aside(self.home, stream, list(files.items())) for stream, files in rejected.items()]


@dataclass(eq=False)
class FrameBatch:
    """A micro-batch of Structured Streaming, whose plan ends with `gathering`."""

    group: str
    number: int
    frame: DataFrame
    home: Path
    check_input: Callable[[list[GatherReport], Executor], list[GatherReport]]

    bytes = None  # not known before it is gathered

    def shared_out(self, order: GatherOrder, tasks: int) -> GatherOrder:
        return order  # Spark shares it out

    def gather(self, order: GatherOrder, executor: Executor, rank: Rank) -> Future[list[GatherReport]]:
        path = layout.batch_order(self.home, executor.run, self.group, self.number)
        write_whole(path, executor.pack(order))
        done: Future[list[GatherReport]] = Future()
        try:
            done.set_result([pickle.loads(row.report) for row in self.frame.collect()])
        finally:
            path.unlink(missing_ok=True)
        return done

    def begin(self) -> None:
        pass  # Spark has written it down

    def check(self, reports: list[GatherReport], executor: Executor) -> list[GatherReport]:
        return self.check_input(reports, executor)


def gathering(
    home: str, run: str, group: str, stream: Stream
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark runs over every task's rows of a stream, the same for the life of the query.

    What to do changes from tick to tick, so it is read from the order that the driver wrote for the batch."""

    def gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        path = layout.batch_order(Path(home), run, group, str(task_context().getLocalProperty("streaming.sql.batchId")))
        points.reach("order.read", path)
        worker = worker_of(run)
        order: GatherOrder = worker.plans.unpack(path.read_bytes())
        report = worker.gather_rows(order, stream, batches, task_name())
        if report.counts.rows or report.failure:
            yield pa.record_batch({"report": pa.array([pickle.dumps(report)], pa.binary())})

    return gather


def set_aside(home: Path, name: str, rejected: Sequence[tuple[str, InputError]]) -> GatherReport:
    """Name the files that are not the stream's where people find them; the report counts them."""
    listing = layout.rejected_files(home, name)
    known = list(advice_in(listing))  # a tick may be tried again
    named = [{"file": path, "because": problem.problem, "detail": problem.detail} for path, problem in rejected]
    append(listing, [record for record in named if record not in known])
    report = GatherReport(name)
    report.counts.set_aside[Reason.UNREADABLE_FILE, name] = len(rejected)
    return report
