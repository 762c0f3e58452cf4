"""Executes orders in Spark tasks. The driver opens no input file and no bucket.

Whatever needs no exchange goes to resident tasks (exec/resident_pool.py), if Spark has slots for them: at most half of
those that it has, so that other jobs of the same session have some. Otherwise each order is a job (exec/jobs.py).
Exchanges between partitions are Spark's shuffle.
"""

from __future__ import annotations

import pickle
import secrets
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watersmeet.runtime.exec.by_spark import SparkColumns
from watersmeet.runtime.exec.exchange import Blob
from watersmeet.runtime.exec.executor import Rank
from watersmeet.runtime.exec.jobs import Jobs, collected, noting_losses, task_name
from watersmeet.runtime.exec.open_targets import DeliverOrder
from watersmeet.runtime.exec.plan_files import PlanFiles
from watersmeet.runtime.exec.resident_pool import WINDOWS, Residents
from watersmeet.runtime.exec.worker import worker_of
from watersmeet.runtime.tick.active_plan import ActivePlan
from watersmeet.runtime.tick.computation import ComputeOrder, ComputeReport
from watersmeet.runtime.tick.orders import (
    Order,
    ProbeOrder,
    TaskReport,
)
from watersmeet.windows.slices.tick import SlicesOrder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AUTO = "auto"
FEW_BYTES = 512 << 10  # of Parquet, some 20,000 rows: an order to a resident takes little time
FEW_BYTES_OF_A_JOB = 4 << 20  # a job takes as long as 100,000 rows
_executors: weakref.WeakSet[SparkExecutor] = weakref.WeakSet()  # of this process: they share the slots of one Spark
_counting = threading.Lock()


class SparkExecutor:
    def __init__(self, spark: SparkSession, home: Path, residents: str = AUTO, seconds: float = 30.0) -> None:
        """`residents` is how many there are to be at most; "auto": as many as there may be, "0": none."""
        self.run = secrets.token_hex(4)
        self.spark: SparkSession | None = spark
        self._context = spark.sparkContext
        self._most = None if residents == AUTO else int(residents)
        self._plans = PlanFiles(home, self.run)
        self._jobs = Jobs(self._context, self.run)
        self._columns = SparkColumns(spark, self.run)
        self.residents: Residents | None = None
        with _counting:
            self._share = self._fair_share()
            _executors.add(self)
        if self._most != 0:
            remote = not str(self._context.master).startswith("local")
            self.residents = Residents(self._context, self._count, seconds, remote)

    @property
    def parallelism(self) -> int:
        return max(1, self._share or self._slots())

    @property
    def few_bytes(self) -> int:
        return FEW_BYTES if self._share else FEW_BYTES_OF_A_JOB

    def use_plan(self, plan: ActivePlan) -> None:
        self._plans.write(plan)

    def pack(self, order: Any) -> bytes:
        return self._plans.pack(order)

    def submit(self, order: Order, rank: Rank = Rank.TICK) -> Future[list[Any]]:
        packed = self.pack(order)
        if self._share and self.residents is not None:
            return self.residents.submit(packed, order.tasks, rank, _key(order))
        return self._jobs.submit(packed, order.tasks, rank)

    def exchange(self, order: ProbeOrder) -> list[TaskReport]:
        partitions, packed = order.rules.partitions, self.pack(order)
        blobs: Any = self._context.parallelize(range(partitions), partitions)
        blobs = blobs.mapPartitionsWithIndex(_exchange_step(packed, self.run, first=True))
        for _ in range(order.exchanges):
            sent = blobs.partitionBy(partitions, lambda number: number)
            blobs = sent.mapPartitionsWithIndex(_exchange_step(packed, self.run, first=False))
        with noting_losses():
            return [pickle.loads(data) for _, (_, data) in collected(blobs)]

    def compute(self, order: ComputeOrder) -> list[ComputeReport]:
        return self._columns.compute(order, self._plans.pack)

    def close(self) -> None:
        with _counting:
            _executors.discard(self)
            self._share = 0
        if self.residents is not None:
            self.residents.close()
        self._jobs.close()
        self._plans.remove()

    def _count(self) -> int:
        """How many residents are wanted now."""
        with _counting:
            share = self._fair_share()
            # One that ticks rely upon stays, though other engines or jobs may have come.
            self._share = max(share, min(1, self._share))
            return self._share

    def _fair_share(self) -> int:
        others = sum(other._share for other in _executors if other is not self)
        share = max(0, self._slots() // 2 - others)
        return share if self._most is None else min(share, self._most)

    def _slots(self) -> int:
        """How many tasks Spark runs at a time, with the executors that there are."""
        scala = self._context._jsc.sc()
        return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))


def _key(order: Order) -> str:
    """What is kept for an order by the resident that has executed the last one of its kind."""
    if isinstance(order, DeliverOrder):
        return f"target of {order.query}"  # which it has open
    return WINDOWS if isinstance(order, SlicesOrder) else ""


def _exchange_step(packed: bytes, run: str, first: bool) -> Callable[[int, Iterable[Any]], Iterator[Blob]]:
    def work(partition: int, blobs: Iterable[Any]) -> Iterator[Blob]:
        worker = worker_of(run)
        return worker.exchange_step(worker.plans.unpack(packed), partition, task_name(), None if first else blobs)

    return work
