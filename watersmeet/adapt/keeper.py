"""Keeps the plan that ticks obey. It is replaced as a whole: when queries or streams change, and when the data does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from watersmeet.adapt.follow import first_statistics, follow
from watersmeet.model import Query, Stream
from watersmeet.options import Options
from watersmeet.planning import Plan, make_plan, sample_of
from watersmeet.runtime.spark import SparkRuntime
from watersmeet.runtime.tick import is_new
from watersmeet.store.manifest import Manifest


class PlanKeeper:
    """`changing` is held by whoever changes the queries or the streams."""

    def __init__(self, runtime: SparkRuntime, plan: Plan, options: Options, changing: threading.RLock) -> None:
        self.current = plan
        self._runtime = runtime
        self._options = options
        self._changing = changing
        self.follower = follow(runtime, options, lambda: self.current, self._take)

    def plan_for(self, streams: Sequence[Stream], queries: Iterable[Query]) -> Plan:
        manifest, home = self._runtime.manifest, self._runtime.home
        return make_plan(
            streams,
            still_asked(queries, manifest),
            self._options,
            self.follower.statistics,
            self.current,
            quick=self._options.adaptive == "on",  # the next epoch finds a better one
            sample=sample_of(home, manifest),
        )

    def obey(self, plan: Plan, record: Callable[[int], None] = lambda tick: None) -> int:
        """Let the next tick that begins obey a plan; its number, which `record` gets before that."""
        before = self.current
        tick, self.current = self._runtime.adopt(plan, record), plan
        self.follower.changed(before)
        return tick

    def _take(self, plan: Plan) -> bool:
        """Let the next tick obey a plan that was made for the queries as they were, if they still are."""
        if not self._changing.acquire(blocking=False):
            return False
        try:
            if (plan.streams, plan.queries) != (self.current.streams, self.current.queries):
                return False
            self._runtime.adopt(plan)
            self.current = plan
            return True
        finally:
            self._changing.release()


def first_plan(
    home: Path, manifest: Manifest, streams: Sequence[Stream], queries: Iterable[Query], options: Options
) -> Plan:
    known = first_statistics(home, manifest)
    return make_plan(streams, still_asked(queries, manifest), options, known, sample=sample_of(home, manifest))


def still_asked(queries: Iterable[Query], manifest: Manifest) -> tuple[Query, ...]:
    """What has been backfilled needs no rules for it any more."""
    return tuple(replace(query, backfill=query.backfill and is_new(query, manifest)) for query in queries)
