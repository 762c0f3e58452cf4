"""Feeds that find their batches themselves: a thread looks, and runs a tick for what there is."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from watersmeet.runtime.loop import Batch, TickLoop

_OFTEN = 0.02  # seconds from one look to the next,
_SELDOM = 1.0  # or as many, where a look takes long and ticks are more frequent
_REST = 100  # how many times longer than a look the time to the next one is

Found = TypeVar("Found", bound=Batch)


class PollingFeed(ABC, Generic[Found]):
    """`alone` says whether no other feed runs ticks: then the next batch may be gathered before its turn. Who inherits
    calls `_start` when it is complete."""

    def __init__(self, loop: TickLoop, group: str, seconds: float, once: bool, alone: Callable[[], bool]) -> None:
        self._loop = loop
        self._group = group
        self._seconds = seconds
        self._once = once
        self._idle = seconds
        self._alone = alone
        self._next: Found | None = None  # taken, and not yet run
        self._stopped = threading.Event()
        self._problem: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"ticks of group {group}", daemon=True)

    @property
    @abstractmethod
    def _newest(self) -> int:
        """The number of the newest batch that was written down."""

    @abstractmethod
    def _look(self) -> None:
        """See what there is."""

    @abstractmethod
    def _take(self) -> Found | None:
        """The next batch, if there is something."""

    @abstractmethod
    def _repeated(self) -> Found:
        """The newest batch that was written down, again."""

    def _expects_more(self, last: float) -> bool:
        """Whether `once` goes on although there is nothing to take; `last` is when the last batch ended."""
        return False

    def stop(self) -> None:
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end, and raise what failed; False if the time was over first."""
        self._thread.join(timeout)
        if self._problem is not None:
            raise self._problem
        return not self._thread.is_alive()

    def _start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            if self._newest > self._loop.manifest.batches.get(self._group, -1):
                # It was begun before a crash.
                self._loop.run(self._repeated(), self._ahead)
            self._look_and_rest()
            last = time.monotonic()
            while not self._stopped.is_set():
                began = time.monotonic()
                batch, self._next = self._next or self._take(), None
                if batch is not None:
                    self._loop.run(batch, self._ahead)
                    last = time.monotonic()
                elif self._once and not self._expects_more(last):
                    return
                if batch is None or not self._once:
                    pause = self._seconds - (time.monotonic() - began) if batch is not None else self._idle
                    self._stopped.wait(pause)
                if self._next is None:
                    self._look_and_rest()
        except Exception as problem:
            if not self._stopped.is_set():  # a batch that came too late is taken up at the next start
                self._problem = problem

    def _look_and_rest(self) -> None:
        began = time.monotonic()
        self._look()
        # What is new is found soon, unless looking takes long.
        self._idle = min(max(self._seconds, _SELDOM), max(_OFTEN, _REST * (time.monotonic() - began)))

    def _ahead(self) -> Found | None:
        """The batch after the one that is probed now."""
        if self._alone() and not self._stopped.is_set():
            self._look_and_rest()
            self._next = self._take()
        return self._next
