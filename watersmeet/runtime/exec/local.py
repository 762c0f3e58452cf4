"""Executes orders in the engine's own process, one task after the other, without Spark tasks.

What no tick waits for is done by a thread beside them."""

from __future__ import annotations

import itertools
import pickle
import secrets
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from watersmeet.runtime.exec.executor import Rank
from watersmeet.runtime.exec.worker import Worker
from watersmeet.runtime.tick.active_plan import ActivePlan
from watersmeet.runtime.tick.computation import ComputeOrder, ComputeReport
from watersmeet.runtime.tick.orders import Order, ProbeOrder, TaskReport


class LocalExecutor:
    few_bytes = 0
    spark = None

    def __init__(self, parallelism: int = 1) -> None:
        """`parallelism` is the number of tasks that work is cut into, which a test may want to be more than one."""
        self.run = secrets.token_hex(4)
        self.parallelism = parallelism
        self._worker = Worker()
        self._beside = {
            rank: (Worker(), ThreadPoolExecutor(1, f"watersmeet {rank.name.lower()}"))
            for rank in (Rank.BESIDE, Rank.DELIVERY)
        }
        self._numbers = itertools.count()

    def use_plan(self, plan: ActivePlan) -> None:
        pass  # orders are handed over as they are

    def pack(self, order: Any) -> bytes:
        return pickle.dumps(order, protocol=5)

    def submit(self, order: Order, rank: Rank = Rank.TICK) -> Future[list[Any]]:
        if rank in self._beside:
            worker, thread = self._beside[rank]
            return thread.submit(self._reports, worker, order)
        done: Future[list[Any]] = Future()
        try:
            done.set_result(self._reports(self._worker, order))
        except Exception as problem:
            done.set_exception(problem)
        return done

    def _reports(self, worker: Worker, order: Order) -> list[Any]:
        return [report for task in range(order.tasks) for report in worker.execute(order, task, self._name())]

    def exchange(self, order: ProbeOrder) -> list[TaskReport]:
        numbers, worker = range(order.rules.partitions), self._worker
        blobs = [blob for number in numbers for blob in worker.exchange_step(order, number, self._name())]
        for _ in range(order.exchanges):
            sent = [[blob for blob in blobs if blob[0] == number] for number in numbers]
            blobs = [blob for at in numbers for blob in worker.exchange_step(order, at, self._name(), sent[at])]
        return [pickle.loads(data) for _, (_, data) in blobs]

    def compute(self, order: ComputeOrder) -> list[ComputeReport]:
        raise AssertionError("a pipeline with executor=local has no query that needs Spark")

    def close(self) -> None:
        for worker, thread in self._beside.values():
            thread.shutdown(cancel_futures=True)
            worker.targets.close()

    def _name(self) -> str:
        return f"l{next(self._numbers)}"
