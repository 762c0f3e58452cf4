"""Waits that end: a test that would hang fails instead, and says for what it waited.

`PATIENCE` is the limit of all waits of all tests. It only ends a test that hangs: no machine is so slow, or so busy
with other work, that what a test waits for takes that long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 1500.0  # seconds, below the limit of a test in tests/conftest.py


def eventually(condition: Callable[[], T], what: str = "it did not happen") -> T:
    """Poll until the condition holds, and return its value."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < end, f"{what} within {PATIENCE:g} seconds"
        time.sleep(0.02)
    return value


def join(thread: threading.Thread) -> None:
    """Wait for the end of a thread, which must come."""
    thread.join(PATIENCE)
    assert not thread.is_alive(), f"the thread {thread.name} did not end within {PATIENCE:g} seconds"


def happens(event: threading.Event) -> None:
    """Wait for an event, which must come."""
    assert event.wait(PATIENCE), f"the event did not come within {PATIENCE:g} seconds"
