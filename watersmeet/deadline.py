"""A time limit for work whose end cannot be foreseen, such as a search: the work looks at it wherever it loops."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from contextvars import ContextVar

from watersmeet.errors import RunError

_end: ContextVar[float] = ContextVar("end", default=math.inf)  # monotonic time, for this thread


class TookTooLong(RunError):
    """The time is over."""


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """What this thread does inside has so many seconds."""
    token = _end.set(min(_end.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _end.reset(token)


def look() -> None:
    """Raise if the time is over."""
    if time.monotonic() > _end.get():
        raise TookTooLong("it took too long")
