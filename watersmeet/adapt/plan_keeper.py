"""Holds the active plan. It is replaced as a whole: when queries or streams change, and when the data does."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from watersmeet.adapt.follower import Follower
from watersmeet.adapt.origins_file import remember_windows
from watersmeet.adapt.statistics_file import first_statistics
from watersmeet.errors import RunError, WatersmeetError
from watersmeet.home.manifest import Manifest
from watersmeet.model import Query, Stream
from watersmeet.options import Options
from watersmeet.plan.at_fault import planning, queries_at_fault
from watersmeet.plan.estimate import window_costs
from watersmeet.plan.grouping import Sample
from watersmeet.plan.planner import AT_ONCE, CHANGE, RESTART, START, Plan, make_plan, problem_of
from watersmeet.plan.rendered import RenderedPlan
from watersmeet.runtime.exec.looking import Sampler
from watersmeet.runtime.loop import TickLoop
from watersmeet.runtime.tick.suspension import is_new, suspended_names
from watersmeet.store.retention import KEEP_ALL
from watersmeet.windows.choose import without_their_form
from watersmeet.windows.life import WindowLife
from watersmeet.windows.protocol import StoredWindows

_log = logging.getLogger("watersmeet")


class PlanKeeper:
    """The holder of the active plan. The thread that changes queries or streams holds the lock `changing`."""

    def __init__(self, loop: TickLoop, plan: Plan, options: Options, changing: threading.RLock) -> None:
        self.current = plan
        self._loop = loop
        self._options = options
        self._changing = changing
        # Queries that the running tick suspends, or the first one because they have no plan; with their additions.
        self._failing = {(query.name, query.addition) for query in plan.suspended}
        loop.replan = self._replan_without
        self.follower = Follower(
            loop.home, options, loop.manifest, loop.executor, current=lambda: self.current, take=self._take
        )
        self.follower.changed(None)
        _warn_of_storage(plan)

    @property
    def next_tick(self) -> int:
        return self._loop.next_tick

    @property
    def manifest(self) -> Manifest:
        """What is committed."""
        return self._loop.manifest

    def rendered(self) -> RenderedPlan:
        """The active plan as it is shown. Windows cost what was measured last: unlike joins, they are not
        planned anew when the data changes."""
        current, manifest = self.current, self._loop.manifest
        problem = problem_of(current.computed, self._options, self.follower.statistics, current)
        plan = current if current.parts else replace(current, problem=problem)
        costs = window_costs(problem, plan.rules, plan.computed)
        return plan.rendered(manifest.totals, costs, first_windows(plan, manifest))

    def plan_for(
        self,
        streams: Sequence[Stream],
        queries: Iterable[Query],
        active: Plan | None = None,
        changed: Mapping[str, str] | None = None,
    ) -> Plan:
        """`changed`: the kinds of the forms that queries are to get."""
        manifest = self._loop.manifest
        self._failing = {one for one in self._failing if one[0] not in manifest.suspended}
        answered, suspended = divided(queries, manifest, self._failing)
        with planning():
            plan = make_plan(
                # A searcher that was named has the last word; without epochs nothing would ask it later.
                START if self._options.searcher and self._options.adaptive == "off" else CHANGE,
                streams,
                answered,
                self._options,
                self.follower.statistics,
                active=without_left_forms(active or self.current, manifest),
                sample=Sampler(self._loop.executor, self._loop.home, manifest),
                stored=StoredWindows(complete=manifest.complete),
                suspended=suspended,
                changed=changed,
            )
        return plan

    def catch_up(self) -> None:
        """Plan without the queries that were suspended since the plan was made, and without the forms that queries have
        left, which ticks leave out already; and with the forms that were found to be cheaper."""
        manifest, current, forms = self._loop.manifest, self.current, self.follower.forms
        has_left = without_left_forms(current, manifest) is not current
        if not (forms or has_left or suspended_names(current.queries, manifest)):
            return
        if self._changing.acquire(blocking=False):  # otherwise a plan is being made
            try:
                self.follower.forms = {}
                self.adopt(self.plan_for(self.current.streams, self._known, changed=forms))
            finally:
                self._changing.release()

    def _replan_without(self, names: Collection[str]) -> None:
        """Adopt a plan without queries that the running tick could not be finished with. Nor does it keep slice stores
        that no tick has written into: they would still compute what only these queries wanted."""
        with self._changing:
            self._failing |= {(query.name, query.addition) for query in self._known if query.name in names}
            windows, complete = self.current.windows, self._loop.manifest.complete
            origins = {store: origin for store, origin in windows.origins.items() if store in complete}
            active = replace(self.current, windows=replace(windows, origins=origins))
            self.adopt(self.plan_for(self.current.streams, self._known, active))

    @property
    def _known(self) -> tuple[Query, ...]:
        return (*self.current.queries, *self.current.suspended)

    def adopt(self, plan: Plan, record: Callable[[int], None] = lambda tick: None) -> int:
        """Let the next tick that begins follow a plan; its number, which `record` gets before that."""
        before = self.current
        # If the change cannot be logged, or a crash comes first, the queries before it need their stores and forms.
        known = before.windows.remembered
        remember_windows(self._loop.home, known.joined(plan.windows.remembered), known)
        tick, self.current = self._loop.adopt(plan, record), plan
        self.follower.changed(before)
        if not before.over_budget:
            _warn_of_storage(plan)
        return tick

    def _take(self, plan: Plan) -> bool:
        """Let the next tick follow a plan that was made for the queries as they were, if they still are."""
        if not self._changing.acquire(blocking=False):
            return False
        try:
            now = self.current
            if (plan.streams, plan.queries) != (now.streams, now.queries):
                return False
            self._loop.adopt(plan)
            if not self.current.over_budget:
                _warn_of_storage(plan)
            self.current = plan
            return True
        finally:
            self._changing.release()


def first_windows(plan: Plan, manifest: Manifest) -> dict[str, int]:
    """By query that is leaving a form, the first window of its new one."""
    if not plan.leaving:
        return {}
    life = WindowLife(plan.windowed, plan.streams, plan.rules, manifest)
    return {query.name: life.begins[query.name] for query in plan.leaving if life.leaves(query.name)}


def without_left_forms(plan: Plan, manifest: Manifest) -> Plan:
    """The plan as one that follows it sees it: the forms that queries have left for good are not there."""
    leaving = {name: plan.windows.leaving[name] for name in first_windows(plan, manifest)}
    if len(leaving) == len(plan.windows.leaving):
        return plan
    return replace(plan, windows=replace(plan.windows, leaving=leaving))


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
    remembered: StoredWindows,
) -> tuple[Plan, dict[str, str]]:
    """The plan, and the queries that it leaves out because the planner fails for them, with the reasons.

    It is made at once; a better one is looked for beside the ticks. But it is searched for where a searcher was
    named, and improved where the home has materialized stores: a plan that was made at once would hardly have the same
    ones, and they would have to be filled again."""
    statistics = first_statistics(home, manifest)

    def made(answered: Sequence[Query], suspended: Sequence[Query]) -> Plan:
        return make_plan(
            START if options.searcher else RESTART if manifest.materialized else AT_ONCE,
            streams,
            answered,
            options,
            statistics,
            sample=sample,
            stored=replace(remembered, complete=manifest.complete, answered=frozenset(manifest.windows)),
            suspended=suspended,
        )

    known, unplanned = tuple(queries), dict[str, str]()
    answered, suspended = divided(known, manifest)
    _check_open_windows(answered, remembered, manifest)
    try:
        plan = made(answered, suspended)
    except WatersmeetError:
        raise
    except Exception:
        unplanned = queries_at_fault(streams, answered, options, statistics)
        if not unplanned:
            raise
        failing = {(query.name, query.addition) for query in answered if query.name in unplanned}
        answered, suspended = divided(known, manifest, failing)
        plan = made(answered, suspended)
    remember_windows(home, plan.windows.remembered, remembered)
    return plan, unplanned


def _check_open_windows(queries: Sequence[Query], remembered: StoredWindows, manifest: Manifest) -> None:
    """Reject a start that would lose open windows, because only Spark computes them and there is none."""
    for query in without_their_form(queries, remembered):
        opened = manifest.windows.get(query.name)
        newest = max((manifest.newest.get(stream, KEEP_ALL) for stream in query.streams), default=KEEP_ALL)
        if opened is not None and opened <= newest and not is_new(query, manifest):
            raise RunError(
                f"query {query.name}: Spark was to compute its open windows, and with executor=local there is none",
                hint="start with Spark once, with --once --flush, which closes them; or drop the query",
            )


def divided(
    queries: Iterable[Query], manifest: Manifest, failing: Collection[tuple[str, str]] = ()
) -> tuple[tuple[Query, ...], tuple[Query, ...]]:
    """The queries to be answered, and those that are suspended, or are about to be because they fail.

    What has been backfilled needs no rules for it any more."""
    known = [replace(query, backfill=query.backfill and is_new(query, manifest)) for query in queries]
    out = suspended_names(known, manifest).union(q.name for q in known if (q.name, q.addition) in failing)
    return tuple(q for q in known if q.name not in out), tuple(q for q in known if q.name in out)
