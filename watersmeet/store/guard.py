"""Bounds for expressions: an expression that takes too long or too much memory is stopped, and named.

The bounds are those of the process: a task has those of the plan that it obeys.
"""

from __future__ import annotations

import contextlib
import resource
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import duckdb

from watersmeet.errors import RunError


@dataclass
class Bounds:
    seconds: float = 0.0  # for one evaluation; 0: no bound
    megabytes: int = 0  # of DuckDB's memory; 0: no bound


bounds = Bounds()


class ExpressionError(RunError):
    """Expressions that cannot be evaluated at all, whatever the row. `detail` is the reason."""

    def __init__(self, problem: str, *, detail: str = "", hint: str = "", place: None = None) -> None:
        super().__init__(problem, detail=detail, hint=hint)
        self.expressions: tuple[str, ...] = ()

    @classmethod
    def of(cls, failed: dict[str, str]) -> ExpressionError:
        """`failed` are expressions with the reason of each."""
        text, reason = next(iter(failed.items()))
        error = cls(f"the expression {text[:200]} cannot be evaluated", detail=reason)
        error.expressions = tuple(failed)
        return error

    def __reduce__(self) -> tuple[object, ...]:
        return ExpressionError.of, (dict.fromkeys(self.expressions, self.detail),)


@contextlib.contextmanager
def bounded(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Whatever the connection does inside is interrupted after a time."""
    if not bounds.seconds:
        yield
        return
    over = threading.Event()

    def interrupt() -> None:
        over.set()
        connection.interrupt()

    timer = threading.Timer(bounds.seconds, interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    except duckdb.InterruptException:
        if over.is_set():
            raise TimeoutError(f"it took more than {bounds.seconds:g} seconds (option expression_seconds)") from None
        raise
    finally:
        timer.cancel()


def limit_memory(megabytes: int) -> None:
    """Let this process have so much memory of its own, files that it maps not counted; 0: no limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = resource.RLIM_INFINITY if not megabytes else megabytes << 20
    with contextlib.suppress(ValueError, OSError):  # a lower hard limit of the machine stays
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


def reason_of_duckdb(problem: BaseException) -> str:
    return str(problem).strip().split("\n", maxsplit=1)[0][:300] or type(problem).__name__
