"""A resident task: the side of it that runs in Spark's Python worker.

It connects to the driver, identifies itself, and then executes one order after the other until the driver ends it. Its
buckets stay open from tick to tick. While it works, it sends a heartbeat every second: the loops that take long let
other threads run. If the connection ends, the task fails, and Spark starts it again.

A second connection brings orders that no tick waits for: large merges. A thread executes them, so that ticks continue
even where there is one resident only. Most of its time goes into loops that let other threads run. A third one brings
deliveries, which may have to wait for a target.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

from watersmeet import points
from watersmeet.runtime.exec.executor import Rank
from watersmeet.runtime.exec.jobs import task_context
from watersmeet.runtime.exec.link import Address, connect, hang_up
from watersmeet.runtime.exec.worker import Worker
from watersmeet.store.evaluate import warm_up

END = b"end"
ALIVE = b"."
BEAT = 1.0  # seconds


@dataclass(frozen=True)
class Hello:
    """What a resident says of itself."""

    job: int
    stage: int  # Spark's id of the stage: a later one than that of other residents of the job if it was begun twice
    attempt: int  # Spark's id of this try of the task
    process: int
    ranks: tuple[Rank, ...] = (Rank.TICK, Rank.AHEAD)  # what the connection is for


def resident(addresses: list[Address], key: bytes, job: int) -> Callable[[int, Iterable[object]], Iterator[Any]]:
    """The function that Spark runs in the tasks of a job of residents."""

    def reside(task: int, items: Iterable[object]) -> Iterator[Any]:
        list(items)  # a worker whose input was not read is not used again
        with connect(addresses, key) as connection:
            warm_up()
            hello = Hello(job, task_context().stageId(), task_context().taskAttemptId(), os.getpid())
            connection.send_bytes(pickle.dumps(hello))
            points.reach("resident.begin", connection)
            with (
                _working_beside(addresses, key, replace(hello, ranks=(Rank.BESIDE,))),
                _working_beside(addresses, key, replace(hello, ranks=(Rank.DELIVERY,))),
            ):
                _serve(connection, Worker(owns_process=True))
        return iter(())

    return reside


@contextlib.contextmanager
def _working_beside(addresses: list[Address], key: bytes, hello: Hello) -> Iterator[None]:
    """A thread that executes orders beside those of ticks."""
    connection = connect(addresses, key)

    def work() -> None:
        # What has become of the process, the other connection shows.
        worker = Worker()
        with connection, contextlib.suppress(OSError, EOFError), contextlib.closing(worker.targets):
            connection.send_bytes(pickle.dumps(hello))
            _serve(connection, worker)

    threading.Thread(target=work, name=hello.ranks[0].name.lower(), daemon=True).start()
    try:
        yield
    finally:
        hang_up(connection)


def _serve(connection: Connection, worker: Worker) -> None:
    signs = _Signs(connection)
    try:
        while True:
            try:
                message = connection.recv_bytes()
            except EOFError:
                raise ConnectionError("the engine of this resident task has ended or closed the connection") from None
            if message == END:
                return
            points.reach("resident.order")
            with signs:
                reply = _executed(worker, *pickle.loads(message))
            points.reach("resident.reply")
            signs.send(reply)
            if worker.exhausted:
                raise MemoryError("this resident task ran out of memory; Spark starts another")
    finally:
        signs.end()


def _executed(worker: Worker, packed: bytes, task: int, name: str) -> bytes:
    """Execute a task: its reports, or what it raised as text, because not every exception can be pickled."""
    try:
        return pickle.dumps((True, worker.execute_packed(packed, task, name)), protocol=5)
    except Exception:
        return pickle.dumps((False, traceback.format_exc()))


class _Signs:
    """Sends a heartbeat every second inside a `with`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._working = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._thread.start()

    def send(self, message: bytes) -> None:
        with self._sending:
            self._connection.send_bytes(message)

    def end(self) -> None:
        self._ended = True
        self._working.set()

    def __enter__(self) -> None:
        self._working.set()

    def __exit__(self, *_: object) -> None:
        self._working.clear()

    def _beat(self) -> None:
        pause = threading.Event()
        while True:
            self._working.wait()
            pause.wait(BEAT)
            if self._ended:
                return
            if self._working.is_set():
                try:
                    self.send(ALIVE)
                except OSError:
                    return  # the thread that works finds out by itself
