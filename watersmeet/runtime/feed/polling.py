"""A feed that looks for new input itself: a thread that runs a tick when there is some."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from watersmeet.runtime.exec.batches import Batch
from watersmeet.runtime.loop import TickLoop

OFTEN = 0.02  # seconds from one look at the sources to the next,
SELDOM = 1.0  # or as many, where a look takes long and ticks are more frequent
_REST = 100  # how many times longer than a look the time to the next one is


@dataclass(frozen=True)
class Pace:
    """`alone` says whether no other feed runs ticks: then the next batch may be gathered before its turn."""

    seconds: float  # shortest time from the start of one tick to the next
    once: bool  # until the sources have nothing new
    alone: Callable[[], bool]


class PollingFeed(ABC):
    def __init__(self, loop: TickLoop, group: str, pace: Pace) -> None:
        self._loop = loop
        self._group = group
        self._pace = pace
        self._idle = pace.seconds
        self._looked = 0.0  # when the last look began, on the monotonic clock
        self._next: Batch | None = None  # taken, and not yet run
        self._stopped = threading.Event()
        self._problem: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"ticks of group {group}", daemon=True)

    @abstractmethod
    def _look(self) -> None:
        """See what is new."""

    @abstractmethod
    def _take(self) -> Batch | None:
        """The next batch of what is new; its `begin` writes it down."""

    @abstractmethod
    def _begun(self) -> Batch | None:
        """The batch that was begun before a crash and is not in the state."""

    @abstractmethod
    def _expects_more(self, waited: float) -> bool:
        """Whether a run until nothing is new has to wait; `waited` is how long after the end of the last batch the last
        look began."""

    @abstractmethod
    def _close(self) -> None:
        """Free what looking needed; nobody looks any more."""

    def stop(self) -> None:
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    @property
    def problem(self) -> Exception | None:
        return self._problem

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end, and raise what failed; False if the time was over first."""
        self._thread.join(timeout)
        if self._problem is not None:
            raise self._problem
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            begun = self._begun()
            if begun is not None:
                self._loop.run(begun, self._ahead)
            self._look_timed()
            last = time.monotonic()
            while not self._stopped.is_set():
                began = time.monotonic()
                batch, self._next = self._next or self._take(), None
                if batch is not None:
                    self._loop.run(batch, self._ahead)
                    last = time.monotonic()
                elif self._pace.once and not self._expects_more(self._looked - last):
                    return
                if batch is None:
                    self._rest(self._idle)
                elif not self._pace.once:
                    self._stopped.wait(self._pace.seconds - (time.monotonic() - began))
                if self._next is None:
                    self._look_timed()
        except Exception as problem:
            if not self._stopped.is_set():  # a batch that came too late is taken up at the next start
                self._problem = problem
        finally:
            self._close()

    def _rest(self, seconds: float) -> None:
        """Wait until there may be something new, but not longer."""
        self._stopped.wait(seconds)

    def _until_next_look(self, taken: float) -> float:
        """Seconds; what is new is found soon, unless looking takes long."""
        return min(max(self._pace.seconds, SELDOM), max(OFTEN, _REST * taken))

    def _look_timed(self) -> None:
        self._looked = time.monotonic()
        self._look()
        self._idle = self._until_next_look(time.monotonic() - self._looked)

    def _ahead(self) -> Batch | None:
        """The batch after the one that is probed now."""
        if self._pace.alone() and not self._stopped.is_set():
            self._look_timed()
            self._next = self._take()
        return self._next
