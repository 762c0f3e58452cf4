"""Waits that end: a test that would hang fails instead, and says for what it waited."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], seconds: float = 60, what: str = "it did not happen") -> T:
    """Poll until the condition holds, and return its value."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"{what} within {seconds:g} seconds"
        time.sleep(0.02)
    return value


def join(thread: threading.Thread, seconds: float = 60) -> None:
    """Wait for the end of a thread, which must come."""
    thread.join(seconds)
    assert not thread.is_alive(), f"the thread {thread.name} did not end within {seconds:g} seconds"
