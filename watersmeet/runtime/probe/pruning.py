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
from watersmeet.runtime.probe.partial_results import PartialResults
from watersmeet.runtime.probe.shared_matches import SharedMatches
from watersmeet.runtime.tick.orders import ProbeOrder
from watersmeet.runtime.tick.overload import Overload
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
        self._shared: dict[int, SharedMatches] = {}  # by step, once it has many matches

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

    def found(self, step: Step, total: int, matches: PartialResults | None = None) -> None:
        """A step has found matches, and so many in this task by now. They count for the limit of its queries.

        Without `matches` they were only counted, and each query that shares the step has its own count."""
        self.look()
        limit, suspended = self._order.rules.limits.matches, self._suspended
        if not limit or total <= limit or suspended is None:
            return
        owners = self._owners_of(step)
        if len(owners) == 1:
            suspended.suspend(min(owners), too_many_matches(limit))
            return
        if matches is None:
            return
        if step.id not in self._shared:
            self._shared[step.id] = SharedMatches(self._order.rules, step)
        self._shared[step.id].add(matches)
        at_fault = {query for query in self._shared[step.id].at_fault(limit) if query not in suspended}
        if at_fault:
            raise Overload.of(at_fault, too_many_matches(limit))

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
