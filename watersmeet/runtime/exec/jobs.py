"""Orders as Spark jobs, one for each: where Spark has no slot to spare for resident tasks."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from watersmeet.runtime.exec.executor import TRIES, Rank
from watersmeet.runtime.exec.worker import worker_of
from watersmeet.runtime.probe.pruning import Stopped
from watersmeet.runtime.tick.failure import is_full, spark_has_ended
from watersmeet.runtime.tick.overload import lost, says_no_memory
from watersmeet.spark_reason import spark_reason

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext, TaskContext
    from pyspark.sql import DataFrame

_CRASHED = "Python worker exited unexpectedly"
_AT_A_TIME = 3  # jobs: the probes of a tick, its merges, the gathering of the next


class Jobs:
    def __init__(self, context: SparkContext, run: str) -> None:
        self._context = context
        self._run = run
        self._threads = ThreadPoolExecutor(_AT_A_TIME, "watersmeet job")
        self._beside = ThreadPoolExecutor(1, "watersmeet job beside")
        self._delivering = ThreadPoolExecutor(1, "watersmeet job delivering")

    def submit(self, packed: bytes, tasks: int, rank: Rank) -> Future[list[Any]]:
        threads = {Rank.BESIDE: self._beside, Rank.DELIVERY: self._delivering}.get(rank, self._threads)
        return threads.submit(self._collect, packed, tasks)

    def close(self) -> None:
        for threads in (self._threads, self._beside, self._delivering):
            threads.shutdown(wait=True, cancel_futures=True)

    def _collect(self, packed: bytes, tasks: int) -> list[Any]:
        if not tasks:
            return []
        # Elements other than numbers, left unread, would keep PySpark from using a Python worker again.
        numbers = self._context.parallelize(range(tasks), tasks)
        with noting_losses():
            return collected(numbers.mapPartitionsWithIndex(executing(packed, self._run)))


@contextlib.contextmanager
def noting_losses() -> Iterator[None]:
    """Tell tasks that have ended without an answer, or for lack of memory, from those that have failed otherwise."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as problem:
        text = str(problem)
        if _CRASHED in text or says_no_memory(text):
            raise lost(f"a task failed: {spark_reason(problem)[:300]}") from problem
        raise


def collected(found: RDD[Any] | DataFrame, is_given_up: Callable[[], bool] = lambda: False) -> list[Any]:
    """The result of a job. A job that others have cancelled is repeated; its tasks then have new names."""
    from py4j.protocol import Py4JJavaError

    for _ in range(TRIES - 1):
        try:
            return found.collect()
        except Py4JJavaError as problem:
            if not is_cancelled(problem) or is_given_up():
                raise
    return found.collect()


def is_cancelled(problem: BaseException) -> bool:
    return "cancelled" in str(problem) and not is_about_a_value(problem)


def is_about_a_value(problem: BaseException) -> bool:
    """Whether Spark rejects a value. Its message repeats the value, so the words in it say nothing else."""
    return re.search(r"SQLSTATE: 22\w{3}", str(problem)) is not None


def concerns_all(problem: BaseException) -> bool:
    """Whether a failure concerns all queries, and not only the one that Spark computed something for."""
    if is_about_a_value(problem):
        return False
    return isinstance(problem, Stopped) or spark_has_ended(problem) or is_full(problem) or is_cancelled(problem)


def reason_of_spark(problem: BaseException) -> str:
    """A failure of Spark in one line."""
    return spark_reason(problem)[:300]


def executing(packed: bytes, run: str) -> Callable[[int, Iterable[object]], Iterator[Any]]:
    def work(task: int, _: Iterable[object]) -> Iterator[Any]:
        return iter(worker_of(run).execute_packed(packed, task, task_name()))

    return work


def task_context() -> TaskContext:
    """What Spark says of the task that it runs here."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return context


def task_name() -> str:
    """Unique for each try of a task of Spark."""
    return str(task_context().taskAttemptId())
