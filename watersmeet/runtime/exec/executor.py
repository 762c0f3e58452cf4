"""Executors: they execute the orders of a tick.

    SparkExecutor   tasks of Spark: resident ones, or a job for each tick (exec/spark.py); the default everywhere
    LocalExecutor   this process, without Spark tasks (exec/local.py); for tests, or with executor=local

Both execute the same orders by the same `Worker`, so nothing else depends on the choice.
"""

from __future__ import annotations

from concurrent.futures import Future
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from watersmeet.home.manifest import Manifest
from watersmeet.runtime.tick.active_plan import ActivePlan
from watersmeet.runtime.tick.orders import (
    ComputeOrder,
    ComputeReport,
    HeadOrder,
    Order,
    ProbeOrder,
    ProbeReport,
    VerifyOrder,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLED_ROWS = 1000
TRIES = 4  # of a task, of a cancelled job, and of jobs in a row without a resident task


class Rank(IntEnum):
    """Which tasks go first where some have to wait."""

    TICK = 0  # of the tick that runs
    AHEAD = 1  # the next tick is gathered
    BESIDE = 2  # no tick waits for it; one at a time, so that it leaves the others to ticks
    DELIVERY = 3  # nor for this, which may take long where a target cannot be reached


class Executor(Protocol):
    run: str  # the name of this life of the engine, in what only its own tasks may read

    @property
    def spark(self) -> SparkSession | None:
        """The session, for jobs that the driver starts by itself; None where there is none."""

    @property
    def parallelism(self) -> int:
        """How many tasks work at a time."""

    @property
    def few_bytes(self) -> int:
        """The size of input that one task is done with in the time that it takes to share it out."""

    def obey(self, plan: ActivePlan) -> None:
        """Let orders name this plan from now on."""

    def pack(self, order: Any) -> bytes:
        """An order for a task that is not this executor's, to be read with `PlansRead.unpack`."""

    def submit(self, order: Order, rank: Rank = Rank.TICK) -> Future[list[Any]]:
        """Begin an order; the reports of its tasks come in any order."""

    def exchange(self, order: ProbeOrder) -> list[ProbeReport]:
        """Carry out an order whose partial results change places."""

    def compute(self, order: ComputeOrder) -> list[ComputeReport]:
        """Have Spark compute columns."""

    def close(self) -> None:
        """End the tasks."""


def verify(executor: Executor, home: Path, manifest: Manifest) -> None:
    """Raise what is wrong with the files of the state."""
    buckets = manifest.buckets
    shares = [buckets[at :: executor.parallelism] for at in range(executor.parallelism)]
    order = VerifyOrder(str(home), tuple(share for share in shares if share))
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
