"""Bounds for expressions: an expression that takes too long or too much memory is stopped, and named.

The bounds are those of the thread: a task has those of the plan that it executes, and a planner those of its engine.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass

import duckdb

from watersmeet.errors import RunError
from watersmeet.model.limits import Limits

OUT_OF_MEMORY = (MemoryError, duckdb.OutOfMemoryException)  # those of Arrow, NumPy and Numba are MemoryErrors
_bounds: ContextVar[Limits] = ContextVar("bounds", default=Limits())  # noqa: B039 - it cannot be changed
_LOOK = 0.1  # seconds between two looks at the clock

Clock = Callable[[], float]


@dataclass(frozen=True)
class End:
    """When an evaluation is interrupted. The clock is the CPU time of its thread, so that a query is not suspended
    because the machine is busy with something else."""

    clock: Clock
    at: float

    @property
    def is_over(self) -> bool:
        return self.clock() >= self.at

    @property
    def problem(self) -> Exception:
        """What is raised then."""
        return TimeoutError(f"it took more than {bounds().expression_seconds:g} seconds (option expression_seconds)")


NEVER = End(lambda: 0.0, math.inf)


def clock_of_this_thread() -> Clock:
    """The CPU time of this thread, for other threads to read; the time of day where there is none (macOS)."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.monotonic
    number = time.pthread_getcpuclockid(threading.get_ident())
    return lambda: time.clock_gettime(number)


class ExpressionError(RunError):
    """Expressions that cannot be evaluated at all, whatever the row. `detail` is the reason."""

    expressions: tuple[str, ...] = ()

    @classmethod
    def of(cls, failed: dict[str, str]) -> ExpressionError:
        """The error for expressions that failed, each with its reason."""
        text, reason = next(iter(failed.items()))
        error = cls(f"the expression {text[:200]} cannot be evaluated", detail=reason)
        error.expressions = tuple(failed)
        return error

    def __reduce__(self) -> tuple[object, ...]:
        return ExpressionError.of, (dict.fromkeys(self.expressions, self.detail),)


@dataclass(eq=False)
class _Watched:
    connection: duckdb.DuckDBPyConnection
    end: End
    over: bool = False


class _Watch:
    """A thread that interrupts evaluations whose time is over. One for the process: to start a thread for each would
    take longer than many of them do."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._watched: list[_Watched] = []
        self._process = 0  # in which the thread runs: a fork has none

    def begin(self, watched: _Watched) -> None:
        with self._turn:
            self._watched.append(watched)
            if self._process != os.getpid():
                self._process = os.getpid()
                threading.Thread(target=self._look, name="watersmeet expressions", daemon=True).start()

    def end(self, watched: _Watched) -> None:
        with self._turn:
            self._watched.remove(watched)

    def _look(self) -> None:
        while True:
            time.sleep(_LOOK)
            self._interrupt()  # a method, so that this thread holds no connection while it sleeps

    def _interrupt(self) -> None:
        with self._turn:  # so that what is interrupted is what was watched
            for watched in self._watched:
                if watched.end.is_over:
                    watched.over = True
                    watched.connection.interrupt()


_watch = _Watch()


def bounds() -> Limits:
    """The limits of what this thread evaluates."""
    return _bounds.get()


@contextlib.contextmanager
def within_bounds(limits: Limits) -> Iterator[None]:
    """Set the bounds of what this thread evaluates inside of the block."""
    token = _bounds.set(limits)
    try:
        yield
    finally:
        _bounds.reset(token)


def end_of_time() -> End:
    """When an evaluation that this thread begins now has to end."""
    seconds = bounds().expression_seconds
    if not seconds:
        return NEVER
    clock = clock_of_this_thread()
    return End(clock, clock() + seconds)


@contextlib.contextmanager
def bounded(connection: duckdb.DuckDBPyConnection, end: End) -> Iterator[None]:
    """Interrupt what this thread does with the connection inside of the block, once its time is over."""
    if end is NEVER:
        yield
        return
    watched = _Watched(connection, end)
    _watch.begin(watched)
    try:
        yield
    except duckdb.InterruptException:
        if watched.over:
            raise end.problem from None
        raise
    finally:
        _watch.end(watched)


class _Memory:
    """The limit of this process for memory of its own: what orders may have, and what runs beside them.

    The system counts address space. What libraries have reserved and not used (Arrow's allocator reserves a gigabyte at
    once) is no memory, so it is allowed in addition."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._megabytes = self._beside = 0

    def limit(self, megabytes: int) -> None:
        """Let this process have so much memory of its own, files that it maps not counted; 0: no limit."""
        with self._turn:
            self._megabytes = megabytes
            self._apply()

    @contextlib.contextmanager
    def beside(self, megabytes: int) -> Iterator[None]:
        """What runs inside, in a thread of its own, has so much memory besides the limit of the process."""
        self._allow_beside(megabytes)
        try:
            yield
        finally:
            self._allow_beside(-megabytes)

    def _allow_beside(self, megabytes: int) -> None:
        with self._turn:
            self._beside += megabytes
            if self._megabytes:
                self._apply()

    def _apply(self) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = resource.RLIM_INFINITY
        if self._megabytes:
            wanted = ((self._megabytes + self._beside) << 20) + _reserved()
        with contextlib.suppress(ValueError, OSError):  # a lower hard limit of the machine stays
            resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


memory = _Memory()


def retains(megabytes: int) -> bool:
    """Whether libraries have reserved more than half of a limit since it was first set in this process. They do not
    give address space back, so a limit that does not count it gets wider each time that an expression reaches it."""
    reserved = _reserved()
    return reserved - _first_reserved.setdefault(os.getpid(), reserved) > megabytes << 19


_first_reserved: dict[int, int] = {}  # by process: one that is forked begins anew


def _reserved() -> int:
    """The bytes of address space of this process that hold nothing."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            _, resident, shared, _, _, data, _ = map(int, file.read().split())
    except (OSError, ValueError):  # not Linux
        return 0
    return max(0, data - (resident - shared)) * resource.getpagesize()


def reason_of_duckdb(problem: BaseException) -> str:
    return str(problem).strip().split("\n", maxsplit=1)[0][:300] or type(problem).__name__
