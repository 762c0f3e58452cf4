"""What runs inside Spark's tasks: thin shells around gather and walk."""

from __future__ import annotations

import errno
import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from watersmeet.errors import InputError, RunError, WatersmeetError
from watersmeet.io.folders import Piece, read_piece
from watersmeet.model import Stream
from watersmeet.plan.ruleset import Start, Step, StoreRule, all_steps
from watersmeet.runtime.gather import Gather
from watersmeet.runtime.orders import GatherOrder, GatherReport, ProbeOrder, ProbeReport, Slice
from watersmeet.runtime.results import Results
from watersmeet.runtime.sending import unpack
from watersmeet.runtime.walk import Partial, Stores, Walk
from watersmeet.store.bucket import Derived
from watersmeet.store.merge import merge

REPORT_SCHEMA = "report binary"

Blob = tuple[int, tuple[int, bytes]]  # place, (step to take there, pickled partial results)
REPORT = 0  # in the place of a step: the bytes are a pickled report


def gather_order_path(home: str, run: str, group: str, batch: int | str) -> Path:
    """Batch numbers come again after a restart, so `run` keeps the late order of a dead engine from its tasks."""
    return Path(home) / "orders" / run / group / f"{batch}.pickle"


def make_gather(
    home: str, run: str, group: str, stream: Stream
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark runs over every task's rows of a stream, the same for the life of the query.

    What to do changes from tick to tick, so it is read from the order that the driver wrote for the batch."""

    def gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        batch = context.getLocalProperty("streaming.sql.batchId")
        order: GatherOrder = unpack(gather_order_path(home, run, group, str(batch)).read_bytes())
        try:
            report = _gather(order, stream).run(batches)
        except Exception as problem:
            report = GatherReport(stream.name, failure=_told(problem, home))
        if report.counts or report.failure:
            yield pa.record_batch({"report": pa.array([pickle.dumps(report)], pa.binary())})

    return gather


def gather_files(
    order: GatherOrder, streams: Mapping[str, Stream], work: list[list[Piece]]
) -> Callable[[int, Iterable[object]], Iterator[GatherReport]]:
    """The same for streams that are folders: each task reads its share of the files itself."""

    def gather(task: int, _: Iterable[object]) -> Iterator[GatherReport]:
        for name in dict.fromkeys(piece.stream for piece in work[task]):
            stream, refused = streams[name], list[tuple[str, InputError]]()

            def batches(stream: Stream = stream, refused: list[tuple[str, InputError]] = refused) -> Iterator[Any]:
                for piece in work[task]:
                    if piece.stream == stream.name:
                        try:
                            rows = read_piece(stream, piece)
                        except InputError as problem:
                            refused.append((piece.path, problem))
                            continue
                        yield from rows

            try:
                report = _gather(order, stream).run(batches())
                report.refused += refused
            except Exception as problem:
                report = GatherReport(name, failure=_told(problem, order.home))
            yield report

    return gather


def _gather(order: GatherOrder, stream: Stream) -> Gather:
    rule = next((rule for rule in order.rules.stores if rule.name == stream.name), None)
    stored = rule is not None
    if rule is None:
        rule = StoreRule(stream.name, stream.columns, (), (), None, stream.time)
    return Gather(order, rule, stored, _task_name())


def obeying(
    work: Callable[[Any], Callable[[int, Any], Iterator[Any]]], sent: bytes
) -> Callable[[int, Any], Iterator[Any]]:
    """One of the functions here, for an order that reaches the task packed."""

    def run(task: int, items: Any) -> Iterator[Any]:
        return work(unpack(sent))(task, items)

    return run


def probe_whole(order: ProbeOrder) -> Callable[[int, Iterable[object]], Iterator[ProbeReport]]:
    """P = 1: each task walks the whole plan with its share of the new rows. Tasks behind those merge buckets."""

    def run(task: int, _: Iterable[object]) -> Iterator[ProbeReport]:
        report = ProbeReport()
        try:
            if task >= len(order.work):
                _merge(order, task - len(order.work), report)
            else:
                report = _walk_whole(order, order.work[task])
        except Exception as problem:
            report = ProbeReport(failure=_told(problem, order.home))
        yield report

    return run


def _walk_whole(order: ProbeOrder, work: tuple[Slice, ...]) -> ProbeReport:
    stores = Stores(order)
    results = Results(order, stores, _task_name())
    walk = Walk(order, stores, results.add)
    for piece in work:
        for start in order.starts:
            if start.stream == piece.bucket.store:
                for partial in walk.arrivals(start, piece.bucket, piece.begin, piece.end):
                    walk.follow(start, partial)
    return _finished(results, walk)


def probe_first(order: ProbeOrder) -> Callable[[int, Iterable[object]], Iterator[Blob]]:
    """P > 1, first cut: the task of each place reads the new rows that concern it from their buckets."""

    def first(task: int) -> Iterator[Blob]:
        if task >= order.rules.partitions:
            report = ProbeReport()
            _merge(order, task - order.rules.partitions, report)
            yield task % order.rules.partitions, (REPORT, pickle.dumps(report))
            return
        place = _Place(order, task)
        for start in order.starts:
            for info in order.buckets.get(start.stream, ()):
                if order.is_new(info) == (order.phase == 0):
                    continue
                for partial in place.walk.arrivals(start, info, 0, info.rows):
                    yield from place.arrive(start, partial, own=info.partition % order.rules.partitions == task)
        yield from place.finish()

    return lambda task, _: _telling(order, task, first(task))


def probe_next(order: ProbeOrder) -> Callable[[int, Iterable[Blob]], Iterator[Blob]]:
    """P > 1, any later cut: the partial results that were sent to this place take one more step."""

    def further(task: int, blobs: Iterable[Blob]) -> Iterator[Blob]:
        place = _Place(order, task)
        steps = {step.id: (step, start) for start in order.starts for step in all_steps(start.steps)}
        for _, (number, data) in blobs:
            if number == REPORT:
                yield task, (REPORT, data)
            else:
                yield from place.advance(*steps[number], pickle.loads(data))
        yield from place.finish()

    return lambda task, blobs: _telling(order, task, further(task, blobs))


def _telling(order: ProbeOrder, task: int, blobs: Iterator[Blob]) -> Iterator[Blob]:
    """The blobs, and where they fail, a report of the failure."""
    try:
        yield from blobs
    except Exception as problem:
        report = ProbeReport(failure=_told(problem, order.home))
        yield task % order.rules.partitions, (REPORT, pickle.dumps(report))


class _Place:
    """The walk of one place: what leaves is a complete result (to a file) or a blob for another place."""

    def __init__(self, order: ProbeOrder, place: int) -> None:
        self.order = order
        self.place = place
        self.stores = Stores(order)
        self.results = Results(order, self.stores, _task_name())
        self.walk = Walk(order, self.stores, self.results.add, place)

    def arrive(self, start: Start, partial: Partial, own: bool) -> Iterator[Blob]:
        if own:  # a row is stored in one place, which is the one that emits what needs no probe
            for emit in start.emits:
                self.results.add(emit, partial, start)
        for step in start.steps:
            targets = self.walk.targets(step, partial)
            mine = partial if targets is None else partial.take(targets[self.place])
            if len(mine):
                yield from self.advance(step, start, mine)

    def advance(self, step: Step, start: Start, partial: Partial) -> Iterator[Blob]:
        for found in self.walk.step(step, partial):
            for end in step.ends:
                self.results.add(end, found, start)
            for below in step.steps:
                yield from self._send(below, found)

    def _send(self, step: Step, partial: Partial) -> Iterator[Blob]:
        targets = self.walk.targets(step, partial)
        if targets is None:
            blob = pickle.dumps(partial, protocol=5)
            for place in range(self.order.rules.partitions):
                yield place, (step.id, blob)
            return
        for place, rows in enumerate(targets):
            if len(rows):
                yield place, (step.id, pickle.dumps(partial.take(rows), protocol=5))

    def finish(self) -> Iterator[Blob]:
        yield self.place, (REPORT, pickle.dumps(_finished(self.results, self.walk)))


def _finished(results: Results, walk: Walk) -> ProbeReport:
    report = results.finish()
    report.counts.update(walk.counts)
    report.off = walk.calls.off
    walk.calls.tell(walk.stores.home, walk.order.tick)
    return report


def _merge(order: ProbeOrder, number: int, report: ProbeReport) -> None:
    job = order.merges[number]
    rule = order.rules.store(job.inputs[0].store)
    file = f"state/{rule.name}/{order.tick:012d}-{order.attempt}-{_task_name()}-m{number}.bucket"
    report.merged.append((job, merge(Path(order.home), job, file, Derived(rule.keys, rule.blocks, rule.sorted_by))))


def _task_name() -> str:
    """Unique for each try of a task, so that two tries never share a file; also where the driver does the work."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return str(context.taskAttemptId()) if context is not None else f"d{next(_in_driver)}"


_in_driver = itertools.count()


def _told(problem: Exception, home: str) -> WatersmeetError:
    """A failure that another try would meet again, as a value; any other is raised for Spark to retry."""
    if isinstance(problem, WatersmeetError):
        return problem
    if isinstance(problem, OSError) and problem.errno == errno.ENOSPC:
        return no_space(home)
    raise problem


def no_space(home: str) -> RunError:
    return RunError(
        f"no space is left on the disk of {home}",
        detail="The tick was not committed; what was committed before is whole.",
        hint="free some space and run again with the same home: it goes on where it stopped",
    )
