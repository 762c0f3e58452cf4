"""Executors: they execute the orders of a tick.

    SparkExecutor   tasks of Spark: resident ones, or a job for each tick (exec/spark.py); the default everywhere
    LocalExecutor   this process, without Spark tasks (exec/local.py); for tests, or with executor=local

Both execute the same orders by the same `Worker`, so nothing else depends on the choice.
"""

from __future__ import annotations

from concurrent.futures import Future
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

from watersmeet.runtime.tick.active_plan import ActivePlan
from watersmeet.runtime.tick.computation import ComputeOrder, ComputeReport
from watersmeet.runtime.tick.orders import (
    Order,
    ProbeOrder,
    TaskReport,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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

    def use_plan(self, plan: ActivePlan) -> None:
        """Let orders name this plan from now on."""

    def pack(self, order: Any) -> bytes:
        """An order for a task that is not this executor's, to be read with `PlansRead.unpack`."""

    def submit(self, order: Order, rank: Rank = Rank.TICK) -> Future[list[Any]]:
        """Begin an order; the reports of its tasks come in any order."""

    def exchange(self, order: ProbeOrder) -> list[TaskReport]:
        """Execute an order whose partial results move between partitions."""

    def compute(self, order: ComputeOrder) -> list[ComputeReport]:
        """Have Spark compute columns."""

    def close(self) -> None:
        """End the tasks."""
