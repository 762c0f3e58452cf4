"""Batches: how the rows of a feed become buckets.

Tasks of Structured Streaming read their order from a file. It is a pickle, so it carries a proof (HMAC) that this
engine wrote it for this batch, and one without it is never unpickled.
"""

from __future__ import annotations

import hmac
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from watersmeet import points
from watersmeet.errors import InputError, StateError
from watersmeet.home import layout
from watersmeet.home.files import advice_in, append, write_whole
from watersmeet.io.source import LeftOut, Piece, share_pieces
from watersmeet.model import Stream
from watersmeet.runtime.exec.batches import SmallerBatch
from watersmeet.runtime.exec.executor import Executor, Rank
from watersmeet.runtime.exec.jobs import task_context, task_name
from watersmeet.runtime.exec.on_disk import on_disk
from watersmeet.runtime.exec.worker import worker_of
from watersmeet.runtime.tick.orders import GatherOrder, GatherReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REPORT_SCHEMA = "report binary"
_PROOF_BYTES = 32


Rejected = dict[str, dict[str, InputError]]  # by stream and path, the files that are not files of the stream
Finish = Callable[[Rejected, Counter[str]], Mapping[str, Sequence[LeftOut]]]


@dataclass(eq=False)
class PieceBatch:
    """A batch whose pieces are read by tasks."""

    group: str
    number: int
    streams: tuple[Stream, ...]
    home: Path
    pieces: Callable[[int], Mapping[str, Sequence[Piece]]]  # for so many tasks, by stream
    finish: Finish  # called with the files that could not be read and the rows by stream; what is left out, by stream
    bytes: int | None = None
    write_down: Callable[[], None] = lambda: None
    _left_out: Rejected = field(default_factory=dict)  # files of which a part could be read

    def shared_out(self, order: GatherOrder, tasks: int) -> GatherOrder:
        pieces = {
            stream: [piece for piece in some if piece.file not in self._left_out.get(stream, ())]
            for stream, some in self.pieces(tasks).items()
        }
        return replace(order, streams=self.streams, work=share_pieces(pieces, tasks))

    def gather(self, order: GatherOrder, executor: Executor, rank: Rank) -> Future[list[GatherReport]]:
        return executor.submit(self.shared_out(order, executor.parallelism), rank)

    def begin(self) -> None:
        self.write_down()

    def check(self, reports: list[GatherReport], executor: Executor) -> list[GatherReport]:
        self._leave_out_parts(reports)
        rejected: Rejected = {stream: dict(files) for stream, files in self._left_out.items()}
        rows: Counter[str] = Counter()
        for report in reports:
            rows += report.counts.rows
            for piece, problem in report.rejected_files:
                rejected.setdefault(report.stream, {})[piece.file] = problem
        left_out = self.finish(rejected, rows)
        return [_noted(self.home, stream, some) for stream, some in left_out.items() if some]

    def _leave_out_parts(self, reports: list[GatherReport]) -> None:
        """Of a file all rows are used, or none: one that is damaged inside, or was another for one task than for the
        next, is not in the batch."""
        rejected: dict[tuple[str, str], list[tuple[Piece, InputError]]] = {}
        for report in reports:
            for piece, problem in report.rejected_files:
                rejected.setdefault((report.stream, piece.file), []).append((piece, problem))
        parts = [some for some in rejected.values() if len(some) < some[0][0].shares]
        for piece, problem in [*(some[0] for some in parts), *(part for report in reports for part in report.parts)]:
            self._left_out.setdefault(piece.stream, {})[piece.file] = problem
        if parts or any(report.parts for report in reports):
            raise SmallerBatch


@dataclass(eq=False)
class FrameBatch:
    """A micro-batch of Structured Streaming, whose plan ends with `gathering`."""

    group: str
    number: int
    frame: DataFrame
    home: Path
    key: bytes
    check_files: Callable[[], None]
    files: PieceBatch  # those that Spark has found and does not read
    explained: Callable[[Exception], Exception] = lambda problem: problem  # what Spark has failed with

    bytes = None  # not known before it is gathered

    def shared_out(self, order: GatherOrder, tasks: int) -> GatherOrder:
        return order  # Spark shares it out

    def gather(self, order: GatherOrder, executor: Executor, rank: Rank) -> Future[list[GatherReport]]:
        self.check_files()
        path = layout.batch_order(self.home, executor.run, self.group, self.number)
        write_whole(path, sealed(self.key, path, executor.pack(order)))
        done: Future[list[GatherReport]] = Future()
        try:
            by_tasks = self.files.gather(order, executor, rank)
            by_spark = [pickle.loads(row.report) for row in self.frame.collect()]
            done.set_result(by_spark + by_tasks.result())
        except Exception as problem:
            raise self.explained(problem) from problem
        finally:
            path.unlink(missing_ok=True)
        return done

    def begin(self) -> None:
        pass  # Spark has written it down

    def check(self, reports: list[GatherReport], executor: Executor) -> list[GatherReport]:
        return self.files.check(reports, executor)


def sealed(key: bytes, path: Path, packed: bytes) -> bytes:
    return _proof(key, path, packed) + packed


def unsealed(key: bytes, path: Path) -> bytes:
    """The content of a sealed file, if this engine wrote it under this name."""
    content = path.read_bytes()
    proof, packed = content[:_PROOF_BYTES], content[_PROOF_BYTES:]
    if not hmac.compare_digest(proof, _proof(key, path, packed)):
        raise StateError(
            f"the order {path} was not written by this engine",
            detail="It is not read, because a changed order could make tasks run any code.",
            hint="see who may write into the home folder, and start again",
        )
    return packed


def _proof(key: bytes, path: Path, packed: bytes) -> bytes:
    return hmac.digest(key, str(path).encode() + b"\0" + packed, "sha256")


def gathering(
    home: str, run: str, group: str, stream: Stream, key: bytes
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark runs over every task's rows of a stream, the same for the life of the query.

    What to do changes from tick to tick, so it is read from the order that the driver wrote for the batch."""

    def gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        path = layout.batch_order(Path(home), run, group, str(task_context().getLocalProperty("streaming.sql.batchId")))
        points.reach("order.read", path)
        worker = worker_of(run)
        order: GatherOrder = worker.plans.unpack(unsealed(key, path))
        (report,) = on_disk(order, [worker.gather_rows(order, stream, batches, task_name())])
        if report.counts.rows or report.failure:
            yield pa.record_batch({"report": pa.array([pickle.dumps(report)], pa.binary())})

    return gather


def _noted(home: Path, name: str, left_out: Sequence[LeftOut]) -> GatherReport:
    """List what is left out of a stream where users find it; the report counts it."""
    listing = layout.rejected_files(home, name)
    known = {record["file"]: record for record in advice_in(listing)}  # a tick may be tried again
    records = [{"file": one.what, "because": one.because, "detail": one.detail} for one in left_out]
    append(listing, [record for record in records if known.get(record["file"]) != record])
    report = GatherReport(name)
    for one in left_out:
        report.counts.set_aside[one.reason, name] += one.count
    return report
