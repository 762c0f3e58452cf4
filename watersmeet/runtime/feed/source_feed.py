"""The feed of streams whose sources are read by tasks: a thread that looks at them and runs a tick for what is new."""

from __future__ import annotations

import functools
import logging
import os
import select
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from watersmeet.errors import StateError
from watersmeet.io.positions import Extents, load_positions
from watersmeet.io.source import History, LeftOut, Piece, StreamSource, Unreachable
from watersmeet.model import Stream
from watersmeet.runtime.exec.batches import Batch
from watersmeet.runtime.feed.batches import PieceBatch, Rejected
from watersmeet.runtime.loop import TickLoop

_log = logging.getLogger("watersmeet")
_SELDOM = 1.0  # seconds from one look to the next, at most, unless ticks are less frequent
_TOGETHER = 0.01  # seconds: what arrives within them is found by one look
_RETRY = 1.0  # seconds from one try to reach a source to the next

Found = TypeVar("Found")


@dataclass(frozen=True)
class Pace:
    """How often a feed runs ticks, and until when."""

    seconds: float  # shortest time from the start of one tick to the next
    once: bool  # until the sources have nothing new
    alone: Callable[[], bool]  # no other feed runs ticks: then the next batch may be gathered before its turn


class SourceFeed:
    """Runs the ticks of a group of streams, in a thread of its own."""

    def __init__(
        self,
        loop: TickLoop,
        group: str,
        streams: Sequence[Stream],
        sources: Mapping[str, StreamSource],
        pace: Pace,
    ) -> None:
        """`sources` by stream; the feed closes them when it ends."""
        self._loop = loop
        self._group = group
        self._streams = tuple(streams)
        self._sources = dict(sources)
        self._pace = pace
        self._log = load_positions(loop.home, group)
        self._idle = pace.seconds
        self._looked = 0.0  # when the last look began, on the monotonic clock
        self._next: Batch | None = None  # taken, and not yet run
        self._stopped = threading.Event()
        self._alarm, self._bell = os.pipe()  # wakes a thread that rests
        self._closing = threading.Lock()
        self._is_closed = False
        self.problem: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"ticks of group {group}", daemon=True)
        self._thread.start()

    # The thread ----------------------------------------------------------------------------------

    def stop(self) -> None:
        self._stopped.set()
        with self._closing:
            if not self._is_closed:
                os.write(self._bell, b"!")
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end, and raise what failed; False if the time was over first."""
        self._thread.join(timeout)
        if self.problem is not None:
            raise self.problem
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._resume()
            begun = self._begun()
            if begun is not None:
                self._loop.run(begun, self._ahead)
            self._look()
            if self._pace.once:
                for source in self._sources.values():
                    source.end_here()
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
                    self._look()
        except Exception as problem:
            if not self._stopped.is_set():  # a batch that came too late is taken up at the next start
                self.problem = problem
        finally:
            self._close()

    def _rest(self, seconds: float) -> None:
        """Wait until there may be something new, but not longer."""
        bells = {bell for source in self._sources.values() for bell in source.bells}
        ready, _, _ = select.select([self._alarm, *bells], [], [], max(0.0, seconds))
        if ready and self._alarm not in ready:
            self._stopped.wait(_TOGETHER)

    def _expects_more(self, waited: float) -> bool:
        """Whether a run until nothing is new has to wait; `waited` is how long after the end of the last batch the last
        look began."""
        return any(source.expects_more(waited) for source in self._sources.values())

    def _close(self) -> None:
        for source in self._sources.values():
            source.close()
        self._sources.clear()
        with self._closing:
            self._is_closed = True
            os.close(self._bell)
            os.close(self._alarm)

    def _patiently(self, source: StreamSource, action: Callable[[], Found]) -> Found:
        """Try until the source replies. A run that ends by itself, and the first of a home, give up after a while."""
        began = time.monotonic()
        while True:
            try:
                return action()
            except Unreachable as problem:
                if (self._pace.once or self._log.is_new) and time.monotonic() - began > source.patience:
                    raise
                _log.warning("%s", problem.problem)
                if self._stopped.wait(_RETRY):  # another request could take long
                    raise

    # What there is -------------------------------------------------------------------------------

    def _resume(self) -> None:
        for name, source in self._sources.items():
            history = self._log.histories.pop(name, History())
            try:
                self._patiently(source, functools.partial(source.resume, history))
            except (LookupError, TypeError, ValueError, AttributeError) as problem:
                if history == History():
                    raise
                raise StateError(
                    f"the positions of stream {name} are not those of its source: {problem!r}",
                    detail=f"They are in {self._log.path}. Nothing was changed.",
                    hint="declare the stream as before, or use another --home",
                ) from None
        # Where "the newest rows" begin is the same at the next start.
        if self._log.is_new and any(position is not None for position in self._positions().values()):
            self._log.start(self._positions())

    def _positions(self) -> dict[str, Any]:
        return {name: source.position for name, source in self._sources.items()}

    def _begun(self) -> Batch | None:
        """The batch that was begun before a crash and is not in the state."""
        if self._log.batch <= self._loop.manifest.batches.get(self._group, -1):
            return None
        found = {
            name: self._patiently(self._sources[name], functools.partial(self._sources[name].repeat, extent))
            for name, extent in self._log.extents.items()
        }
        self._log.repeat(found)
        return self._batch(self._log.batch, found, lambda: None)

    def _look(self) -> None:
        self._looked = time.monotonic()
        for source in self._sources.values():
            self._patiently(source, source.look)
        took = time.monotonic() - self._looked  # of all: the next look is at all of them again
        self._idle = min(max(self._pace.seconds, _SELDOM), *(source.pause(took) for source in self._sources.values()))

    def _take(self) -> Batch | None:
        found = {name: extent for name, one in self._sources.items() if (extent := one.take()) is not None}
        if not found:
            return None
        others = {name: one.passed() for name, one in self._sources.items() if name not in found}
        found |= {name: extent for name, extent in others.items() if extent is not None}
        # The batch that is probed now, if there is one, has been written down by now.
        return self._batch(self._log.batch + 1, found, lambda: self._log.begin(found, self._positions))

    def _ahead(self) -> Batch | None:
        """The batch after the one that is probed now."""
        if self._pace.alone() and not self._stopped.is_set():
            self._look()
            self._next = self._take()
        return self._next

    # What a batch has ----------------------------------------------------------------------------

    def _batch(self, number: int, extents: Extents, write_down: Callable[[], None]) -> PieceBatch:
        def pieces(tasks: int) -> Mapping[str, Sequence[Piece]]:
            return {name: self._sources[name].pieces(extent, tasks) for name, extent in extents.items()}

        size = sum(self._sources[name].size(extent) for name, extent in extents.items())
        finish = functools.partial(self._finish, extents)
        group, home = self._group, self._loop.home
        return PieceBatch(group, number, self._streams, home, pieces, finish=finish, bytes=size, write_down=write_down)

    def _finish(self, extents: Extents, rejected: Rejected, rows: Counter[str]) -> dict[str, list[LeftOut]]:
        outcomes, left_out = {}, {}
        for name, extent in extents.items():
            source = self._sources[name]
            action = functools.partial(source.finish, extent, rejected.get(name, {}), rows[name])
            outcome, left_out[name] = self._patiently(source, action)
            if outcome is not None:
                outcomes[name] = outcome
        self._log.finish(outcomes)
        return left_out
