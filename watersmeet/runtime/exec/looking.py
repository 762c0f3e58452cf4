"""Orders that look at files and change nothing: checksums of the state, the first rows of a bucket or of a result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.errors import StateError, WatersmeetError
from watersmeet.home.manifest import BucketInfo, Manifest, WaitingFile
from watersmeet.runtime.emit.waiting_results import check_waiting
from watersmeet.runtime.exec.executor import Executor
from watersmeet.store.bucket import Bucket
from watersmeet.store.bucket_file import verify_file

SAMPLED_ROWS = 1000


@dataclass(frozen=True)
class VerifyOrder:
    """Compare the files of the state, and those in which results wait, with their checksums."""

    home: str
    work: tuple[tuple[BucketInfo | WaitingFile, ...], ...]

    @property
    def tasks(self) -> int:
        return len(self.work)


@dataclass(frozen=True)
class HeadOrder:
    """The first rows of a bucket, or of a result file."""

    home: str
    of: BucketInfo | str
    rows: int

    tasks = 1


# In the driver -----------------------------------------------------------------------------------


def verify(executor: Executor, home: Path, manifest: Manifest) -> None:
    """Raise what is wrong with the files of the state."""
    files: list[BucketInfo | WaitingFile] = [*manifest.buckets, *manifest.waiting]
    shares = [files[at :: executor.parallelism] for at in range(executor.parallelism)]
    order = VerifyOrder(str(home), tuple(tuple(share) for share in shares if share))
    for problem in executor.submit(order).result():
        raise problem


class Sampler:
    """The first rows of the newest bucket of a stream, for the planner."""

    def __init__(self, executor: Executor, home: Path, manifest: Manifest) -> None:
        self._executor, self._home, self._manifest = executor, home, manifest

    def __call__(self, stream: str) -> pa.RecordBatch | None:
        buckets = [bucket for bucket in self._manifest.buckets if bucket.store == stream]
        if not buckets:
            return None
        newest = max(buckets, key=lambda bucket: (bucket.last_tick, bucket.file))
        found = self._executor.submit(HeadOrder(str(self._home), newest, SAMPLED_ROWS)).result()
        return found[0][0] if found else None


# In tasks ----------------------------------------------------------------------------------------


def verified(order: VerifyOrder, task: int, name: str) -> list[WatersmeetError]:
    """The first problem of the files of a task."""
    for info in order.work[task]:
        try:
            if isinstance(info, WaitingFile):
                check_waiting(Path(order.home), info)
            else:
                verify_file(Path(order.home), info)
        except StateError as problem:
            return [problem]
    return []


def first_rows(order: HeadOrder, task: int, name: str) -> list[tuple[pa.RecordBatch, int]]:
    """The first rows, and how many there are; nothing where a later tick has deleted the bucket."""
    try:
        if isinstance(order.of, str):
            found = pq.read_table(order.of, use_threads=False)
            rows = found.slice(0, order.rows).combine_chunks().to_batches()
            return [(rows[0], found.num_rows)] if rows else []
        bucket = Bucket.open(Path(order.home), order.of).rows
        # A copy: what is pickled of a slice is all of its buffers.
        return [(bucket.take(pa.array(range(min(order.rows, bucket.num_rows)))), bucket.num_rows)]
    except StateError:
        return []
