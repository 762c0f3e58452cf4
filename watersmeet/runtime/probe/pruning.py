"""What ends a walk early: steps that only suspended queries need, and an engine that stops.

A walk looks here between two chunks of rows, so that the work of one query, however much, can be given up.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol

from watersmeet.errors import RunError
from watersmeet.home.signs import dropped, engine_stops
from watersmeet.plan.ruleset import Step
from watersmeet.runtime.tick.orders import ProbeOrder
from watersmeet.runtime.tick.tick import too_many_matches

_LOOK = 0.5  # seconds between two looks for the sign that the engine stops


class Stopped(RunError):
    """The engine stops, and does not wait for this tick."""


class Suspended(Protocol):
    """The queries that are not answered; there may be more of them after each chunk."""

    def __contains__(self, query: str) -> bool: ...

    def __len__(self) -> int: ...

    def suspend(self, query: str, reason: str) -> None: ...


class Pruning:
    def __init__(self, order: ProbeOrder, suspended: Suspended | None) -> None:
        self._order = order
        self._suspended = suspended
        self._home = Path(order.home)
        self._dropped: dict[str, float] = {}  # queries that were dropped, and since when that is known here
        self._looked = time.monotonic()
        self._owners: dict[int, set[str]] = {}
        self._pruned: dict[int, bool] = {}
        self._known = 0

    def look(self) -> None:
        """Raise if the engine stops."""
        now = time.monotonic()
        if now - self._looked >= _LOOK:
            self._looked = now
            self._leave_out_dropped(now)
            if engine_stops(self._home):
                raise Stopped(
                    "the engine was stopped before the tick had ended",
                    detail="Nothing of the tick was committed.",
                    hint="the next start repeats it; drop or change the query that takes long before that",
                )

    def _leave_out_dropped(self, now: float) -> None:
        for query, patience in dropped(self._home).items():
            over = now - self._dropped.setdefault(query, now) >= patience
            if over and self._suspended is not None and any(r.query == query for r in self._order.rules.results):
                self._suspended.suspend(query, "it was dropped")

    def found(self, step: Step, matches: int) -> None:
        """A step has so many matches in this task by now; if they are of one query only, they count for its limit."""
        self.look()
        limit = self._order.rules.limits.matches
        if limit and matches > limit and self._suspended is not None:
            owners = self._owners_of(step)
            if len(owners) == 1:
                self._suspended.suspend(min(owners), too_many_matches(limit))

    def has_pruned(self, step: Step) -> bool:
        """Whether only suspended queries need a step."""
        if self._suspended is None or not len(self._suspended):
            return False
        if self._known != len(self._suspended):
            self._known, self._pruned = len(self._suspended), {}
        if step.id not in self._pruned:
            self._pruned[step.id] = all(query in self._suspended for query in self._owners_of(step))
        return self._pruned[step.id]

    def _owners_of(self, step: Step) -> set[str]:
        if step.id not in self._owners:
            self._owners[step.id] = self._order.rules.queries_of(step)
        return self._owners[step.id]
