"""The handler of Ctrl-C while engines run: PySpark's own would cancel all jobs of the session, theirs too."""

from __future__ import annotations

import signal
import threading
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

_engines: weakref.WeakSet[Any] = weakref.WeakSet()  # an engine that nobody has stopped may be gone
_of_pyspark: Callable[[int, FrameType | None], Any] | None = None


def spare_jobs(engine: object) -> None:
    """While the engine runs, an interrupt ends what the main thread does and cancels no job.

    Only PySpark's own handler is replaced, and only from the main thread: Python allows no other."""
    global _of_pyspark  # noqa: PLW0603 - a process has one handler
    _engines.add(engine)
    handler = signal.getsignal(signal.SIGINT)
    if _in_main_thread() and callable(handler) and str(getattr(handler, "__module__", "")).startswith("pyspark."):
        _of_pyspark = handler
        signal.signal(signal.SIGINT, signal.default_int_handler)


def restore(engine: object) -> None:
    """The engine has stopped. After the last one PySpark has its handler back, unless somebody has set another."""
    global _of_pyspark  # noqa: PLW0603
    _engines.discard(engine)
    if _engines or _of_pyspark is None or not _in_main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _of_pyspark)
    _of_pyspark = None


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
