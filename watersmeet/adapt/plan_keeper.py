"""Holds the active plan. It is replaced as a whole: when queries or streams change, and when the data does."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from watersmeet.adapt.follower import Follower
from watersmeet.adapt.statistics_file import first_statistics
from watersmeet.home.manifest import Manifest
from watersmeet.model import Query, Stream
from watersmeet.options import Options
from watersmeet.plan.grouping import Sample
from watersmeet.plan.planner import CHANGE, START, Plan, make_plan
from watersmeet.runtime.exec.executor import Sampler
from watersmeet.runtime.loop import TickLoop
from watersmeet.runtime.tick.tick import is_new

_log = logging.getLogger("watersmeet")


class PlanKeeper:
    """`changing` is held by the thread that changes the queries or the streams."""

    def __init__(self, loop: TickLoop, plan: Plan, options: Options, changing: threading.RLock) -> None:
        self.current = plan
        self._loop = loop
        self._options = options
        self._changing = changing
        self.follower = Follower(loop.home, options, loop.manifest, loop.executor, lambda: self.current, self._take)
        self.follower.changed(None)
        _warn_of_storage(plan)

    @property
    def next_tick(self) -> int:
        """The number of the next tick to begin."""
        return self._loop.next_tick

    def plan_for(self, streams: Sequence[Stream], queries: Iterable[Query]) -> Plan:
        manifest = self._loop.manifest
        return make_plan(
            CHANGE if self._options.adaptive == "on" else START,  # without epochs, nothing finds a better plan later
            streams,
            still_asked(queries, manifest),
            self._options,
            self.follower.statistics,
            self.current,
            Sampler(self._loop.executor, self._loop.home, manifest),
        )

    def obey(self, plan: Plan, record: Callable[[int], None] = lambda tick: None) -> int:
        """Let the next tick that begins obey a plan; its number, which `record` gets before that."""
        before = self.current
        tick, self.current = self._loop.adopt(plan, record), plan
        self.follower.changed(before)
        if not before.over_budget:
            _warn_of_storage(plan)
        return tick

    def _take(self, plan: Plan) -> bool:
        """Let the next tick obey a plan that was made for the queries as they were, if they still are."""
        if not self._changing.acquire(blocking=False):
            return False
        try:
            if (plan.streams, plan.queries) != (self.current.streams, self.current.queries):
                return False
            self._loop.adopt(plan)
            if not self.current.over_budget:
                _warn_of_storage(plan)
            self.current = plan
            return True
        finally:
            self._changing.release()


def _warn_of_storage(plan: Plan) -> None:
    if plan.over_budget:
        _log.warning(
            "the streams alone exceed storage_budget = %g by %.0f tuples, so nothing else is stored; "
            "raise storage_budget, or shorten the windows",
            plan.storage_budget,
            plan.over_budget,
        )


def first_plan(
    home: Path,
    manifest: Manifest,
    streams: Sequence[Stream],
    queries: Iterable[Query],
    options: Options,
    sample: Sample,
) -> Plan:
    known = first_statistics(home, manifest)
    return make_plan(START, streams, still_asked(queries, manifest), options, known, sample=sample)


def still_asked(queries: Iterable[Query], manifest: Manifest) -> tuple[Query, ...]:
    """What has been backfilled needs no rules for it any more."""
    return tuple(replace(query, backfill=query.backfill and is_new(query, manifest)) for query in queries)
