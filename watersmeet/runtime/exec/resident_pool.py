"""Resident tasks: the driver's side. A long-lived Spark job whose tasks take orders over a connection.

A Spark job costs 55 to 300 ms however little it does, an order to a resident some hundreds of microseconds. Spark
places the residents, isolates them, and restarts one that has died; if Spark has given up on the job, or the job was
cancelled, another job is begun. The task of a lost resident goes to another one under a new name, so that no manifest
names files of the lost attempt.

`wanted` returns how many there should be, and is called repeatedly: executors of a cluster come and go.
"""

from __future__ import annotations

import contextlib
import itertools
import pickle
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from watersmeet.errors import RunError
from watersmeet.runtime.exec.executor import TRIES, Rank
from watersmeet.runtime.exec.link import Listener, limit_waiting
from watersmeet.runtime.exec.resident_task import ALIVE, END, Hello, resident
from watersmeet.runtime.tick.failure import spark_has_ended
from watersmeet.runtime.tick.overload import lost, says_no_memory

if TYPE_CHECKING:
    from pyspark import SparkContext

WINDOWS = "windows"  # the key of orders for which residents keep what they have read, as much as all slices of a window
_LOOK = 1.0  # seconds between two looks at an idle resident, and at how many are wanted


class Lost(Exception):
    """A resident is gone, or sends no heartbeat."""


class Raised(Exception):
    """A resident has told what its task raised."""


def given_up(tries: int, problem: BaseException, reason: str) -> RunError:
    """Why an order fails whose task was tried so often."""
    if not isinstance(problem, Raised) or says_no_memory(reason):
        return lost(f"a task failed {tries} times: {reason}")
    hint = "correct the cause and run again with the same home: what was not committed is repeated"
    return RunError(f"a task failed {tries} times", detail=reason, hint=hint)


@dataclass(eq=False)
class _Order:
    """An order on its way: what its tasks have reported, and how many are still to report."""

    packed: bytes
    left: int
    rank: Rank
    key: str = ""  # of orders whose tasks go to the same residents, by their numbers, as long as these are there
    future: Future[list[Any]] = field(default_factory=Future)
    reports: list[Any] = field(default_factory=list)


@dataclass(eq=False)
class _Task:
    order: _Order
    number: int
    tries: int = 0


class Residents:
    def __init__(self, context: SparkContext, wanted: Callable[[], int], seconds: float, remote: bool) -> None:
        """A resident is given up after `seconds` without a heartbeat. `remote`: tasks may run on other hosts."""
        self._context = context
        self._wanted = wanted
        self._seconds = seconds
        self._key = secrets.token_bytes(32)
        self._names = itertools.count()
        self._jobs: dict[int, int] = {}  # by number, the residents of a job that have not been told to end
        self._stages: dict[int, int] = {}  # by number of a job, the last stage that residents have come from
        self._job_numbers = itertools.count()
        self._group = f"watersmeet residents {secrets.token_hex(4)}"
        self._changed = threading.Condition()  # guards all that follows
        self._waiting: dict[Rank, deque[_Task]] = {rank: deque() for rank in Rank}
        self._free: set[int] = set()  # residents without a task of a tick
        self._beside: int | None = None  # the resident that executes an order that no tick waits for
        self._connected = Counter[Rank]()  # connections, by what they are for
        self._holders: dict[tuple[str, int], int] = {}  # by key of orders and task, the resident that had the last one
        self._fruitless = 0  # jobs in a row that have ended without a resident
        self._enough = 0  # what `wanted` said last
        self._failure: BaseException | None = None
        self._closed = False
        host = str(context.getConf().get("spark.driver.host")) if remote else None
        self._listener = Listener(self._key, host, self._serve)
        self._supervisor = threading.Thread(target=self._supervise, name="watersmeet supervisor", daemon=True)
        self._supervisor.start()

    @property
    def held(self) -> int:
        """How many residents there are, or will be as soon as Spark has started them."""
        with self._changed:
            return sum(self._jobs.values())

    def submit(self, packed: bytes, tasks: int, rank: Rank, key: str = "") -> Future[list[Any]]:
        order = _Order(packed, tasks, rank, key)
        with self._changed:
            if self._failure is not None:
                order.future.set_exception(self._failure)
            elif not tasks:
                order.future.set_result([])
            else:
                self._waiting[rank].extend(_Task(order, number) for number in range(tasks))
                self._changed.notify_all()
        return order.future

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._supervisor.join()
        end = time.monotonic() + 2 * _LOOK
        with self._changed:  # residents that are told to end let Spark use their processes again
            while self._connected.total() and time.monotonic() < end:
                self._changed.wait(0.1)
        with contextlib.suppress(Exception):  # if Spark is gone, so are they
            if self._jobs:
                self._context.cancelJobGroup(self._group)
        self._listener.close()

    # Jobs ----------------------------------------------------------------------------------------

    def _supervise(self) -> None:
        while True:
            with self._changed:
                if self._closed or self._failure is not None:
                    return
            try:
                wanted = self._wanted()
            except Exception as problem:
                self._fail(problem)
                return
            with self._changed:
                self._enough = wanted
                missing = wanted - sum(self._jobs.values())
                if missing > 0:
                    number = next(self._job_numbers)
                    self._jobs[number] = missing
                    name = f"watersmeet residents, job {number}"
                    threading.Thread(target=self._hold, args=(number, missing), name=name, daemon=True).start()
                if self._fruitless > 1:  # whatever ends them, it need not end a hundred a second
                    self._changed.wait_for(lambda: self._closed, _LOOK * self._fruitless)
                else:  # not at every order: asking how many are wanted is a question to Java
                    self._changed.wait_for(lambda: self._closed or sum(self._jobs.values()) < self._enough, _LOOK)

    def _hold(self, number: int, count: int) -> None:
        """Run a Spark job of residents, until it ends."""
        problem: BaseException | None = None
        try:
            self._context.setJobGroup(self._group, "resident tasks of Watersmeet", interruptOnCancel=True)
            function = resident(self._listener.addresses, self._key, number)
            self._context.parallelize(range(count), count).mapPartitionsWithIndex(function).collect()
        except Exception as raised:
            problem = raised
        with self._changed:
            self._jobs.pop(number, None)
            self._stages.pop(number, None)
            self._fruitless += 1
            if problem is not None and not self._closed and (self._fruitless > TRIES or spark_has_ended(problem)):
                self._fail(problem)
            self._changed.notify_all()

    def _fail(self, problem: BaseException) -> None:
        """Fail all orders: Spark cannot run residents any more."""
        with self._changed:
            self._failure = problem
            for task in (task for tasks in self._waiting.values() for task in tasks):
                if not task.order.future.done():
                    task.order.future.set_exception(problem)
            self._changed.notify_all()

    # One resident --------------------------------------------------------------------------------

    def _serve(self, connection: Connection) -> None:
        """Give tasks to a resident that has connected, until there is no need of it, or it is lost."""
        task: _Task | None = None
        hello: Hello | None = None
        try:
            hello = pickle.loads(connection.recv_bytes())
            limit_waiting(connection, self._seconds)
            with self._changed:
                self._connected.update(hello.ranks)
                self._stages[hello.job] = max(hello.stage, self._stages.get(hello.job, 0))
                self._fruitless = 0
            try:
                while (task := self._take(connection, hello)) is not None:
                    self._ask(connection, hello, task)
                    task = None
                connection.send_bytes(END)
            finally:
                with self._changed:
                    self._connected.subtract(hello.ranks)
                    if Rank.TICK in hello.ranks:
                        self._free.discard(hello.attempt)
                    # Whichever of its connections ends: orders must not wait for a resident that is gone.
                    self._holders = {key: one for key, one in self._holders.items() if one != hello.attempt}
                    self._changed.notify_all()
        except Exception as problem:  # of any kind: the tick waits for the task
            if isinstance(problem, BlockingIOError) and hello is not None:
                problem = Lost(f"process {hello.process} sent no heartbeat for {self._seconds:g} seconds")
                self._kill(hello.attempt)
            if task is not None:
                self._again(task, problem)
        finally:
            connection.close()

    def _take(self, connection: Connection, hello: Hello) -> _Task | None:
        """The next task for a resident; None if it is to end."""
        with self._changed:
            while True:
                if self._closed or self._failure is not None:
                    return None
                if hello.job not in self._jobs:  # it has ended, and Spark is about to kill what is left of it
                    return None
                if hello.stage < self._stages[hello.job]:
                    return None  # Py4J repeats a call whose connection was cut off, and Spark runs the job twice
                if Rank.TICK in hello.ranks and sum(self._jobs.values()) > max(1, self._enough):
                    self._jobs[hello.job] -= 1
                    return None
                for rank in Rank:
                    # If connections for it were lost, those of ticks have to do.
                    is_mine = rank in hello.ranks or (Rank.TICK in hello.ranks and not self._connected[rank])
                    task = self._next(rank, hello.attempt) if is_mine else None
                    if task is not None:
                        if Rank.TICK in hello.ranks:
                            self._free.discard(hello.attempt)
                            self._changed.notify_all()  # what was left to this one, another may have to take now
                        return task
                if Rank.TICK in hello.ranks:
                    self._free.add(hello.attempt)
                self._changed.wait(_LOOK)
                while connection.poll(0):  # no request is open: a late heartbeat, or the end
                    if connection.recv_bytes() != ALIVE:
                        raise Lost("a resident sent a reply without a request")

    def _next(self, rank: Rank, resident: int) -> _Task | None:
        waiting = self._waiting[rank]
        if rank == Rank.BESIDE:
            if not waiting or self._beside is not None:
                return None
            self._beside = resident
        leaves = self._leaves(rank, resident)
        for task in waiting:
            at = task.order.key, task.number
            holder = self._holders.get(at)
            if holder == resident or (holder is None and not leaves):
                waiting.remove(task)
                if task.order.key:
                    self._holders[at] = resident
                return task
        return None

    def _leaves(self, rank: Rank, resident: int) -> bool:
        """Whether a resident leaves tasks to another one that is free: it would share the process, and its interpreter,
        with a merge, or is the one that the windows of a tick wait for, which need not wait for what comes later."""
        if rank not in (Rank.TICK, Rank.AHEAD) or not self._free - {resident}:
            return False
        is_held = any(key == WINDOWS and one == resident for (key, _), one in self._holders.items())
        return resident == self._beside or (rank == Rank.AHEAD and is_held)

    def _ask(self, connection: Connection, hello: Hello, task: _Task) -> None:
        if task.order.future.done():
            self._let_go(task)
            return  # another task of it has failed for good
        name = f"r{next(self._names)}"
        connection.send_bytes(pickle.dumps((task.order.packed, task.number, name)))
        while (reply := connection.recv_bytes()) == ALIVE:
            pass
        done, content = pickle.loads(reply)
        if Rank.TICK in hello.ranks:
            with self._changed:  # before the next tick, which may follow at once
                self._free.add(hello.attempt)
        if not done:
            self._again(task, Raised(content))
            return
        self._let_go(task)
        with self._changed:
            task.order.reports += content
            task.order.left -= 1
            finished = not task.order.left and not task.order.future.done()
        if finished:
            task.order.future.set_result(task.order.reports)

    def _again(self, task: _Task, problem: BaseException) -> None:
        """Let another resident do a task that has failed, or was lost with its resident."""
        self._let_go(task)
        task.tries += 1
        with self._changed:
            if task.tries < TRIES and self._failure is None:
                self._waiting[task.order.rank].appendleft(task)
                self._changed.notify_all()
                return
        if not task.order.future.done():
            lines = [line for line in str(problem).splitlines() if line.strip()] or [type(problem).__name__]
            task.order.future.set_exception(self._failure or given_up(task.tries, problem, lines[-1].strip()[:500]))

    def _let_go(self, task: _Task) -> None:
        if task.order.rank == Rank.BESIDE:
            with self._changed:
                self._beside = None
                self._changed.notify_all()

    def _kill(self, attempt: int) -> None:
        """Let Spark end a try of a task and start another."""
        with contextlib.suppress(Exception):  # it may have ended by itself
            self._context._jsc.sc().killTaskAttempt(attempt, True, "it sent no heartbeat")
