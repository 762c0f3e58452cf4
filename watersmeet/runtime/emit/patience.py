"""Whether a task that works for queries goes on: not if the engine stops, nor long for a query that was dropped."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path

from watersmeet.home.signs import dropped, engine_stops
from watersmeet.runtime.emit.confine import Confinement
from watersmeet.runtime.probe.pruning import Stopped


class Patience:
    def __init__(self, home: Path, suspended: Confinement) -> None:
        self._home, self._suspended = home, suspended
        self._dropped: dict[str, float] = {}  # queries, and since when that is known

    def look(self, coming: Collection[str]) -> None:
        """Called before a piece of work for these queries: raise if the engine stops, suspend those that were dropped.
        A query without results so far may still take many pieces."""
        if engine_stops(self._home):
            raise Stopped("the engine stops, and does not wait for this tick")
        now = time.monotonic()
        for query, patience in dropped(self._home).items():
            if now - self._dropped.setdefault(query, now) >= patience and query in coming:
                self._suspended.suspend(query, "it was dropped")
