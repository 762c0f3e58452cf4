"""A death without a process: an exception that no handler of the product catches, at a point of a tick."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from watersmeet import points


class Died(BaseException):
    """What stands for a SIGKILL: no handler of the product catches it."""


@contextmanager
def subscribed(subscriber: points.Subscriber) -> Iterator[None]:
    points.subscribe(subscriber)
    try:
        yield
    finally:
        points.unsubscribe(subscriber)


@contextmanager
def passing(point: str) -> Iterator[threading.Event]:
    """An event that comes when the point is passed."""
    event = threading.Event()

    def tell(reached: str, about: object) -> None:
        if reached == point:
            event.set()

    with subscribed(tell):
        yield event


@contextmanager
def dying_at(point: str) -> Iterator[threading.Event]:
    """Nothing behind the point happens. The event comes when it was reached."""
    died = threading.Event()

    def die(reached: str, about: object) -> None:
        if reached == point:
            died.set()
            raise Died(point)

    with subscribed(die):
        yield died


@contextmanager
def silent_threads() -> Iterator[None]:
    """A death in the thread of a feed is what the test wants, and nothing to print."""
    hook, threading.excepthook = threading.excepthook, lambda told: None
    try:
        yield
    finally:
        threading.excepthook = hook
