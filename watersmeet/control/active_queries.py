"""The queries of an engine: declared before the start, changed while it runs, recalled after a restart.

All changes go one way, whatever process requests them: `apply` checks each request, plans all of them once, writes them
into the log, and hands the plan over to the tick loop. If planning or the log fails, nothing has changed.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from watersmeet.adapt.plan_keeper import PlanKeeper, planning_seconds
from watersmeet.control.change_log import append_entries, entries_of, recall
from watersmeet.control.changes import (
    Add,
    Asked,
    Change,
    Drop,
    InForce,
    Resume,
    Verdict,
    changed,
    missed,
    not_written,
)
from watersmeet.control.compaction import Compaction
from watersmeet.control.description import write_description
from watersmeet.deadline import TookTooLong, within
from watersmeet.errors import ModelError, RunError, WatersmeetError
from watersmeet.home.manifest import load_newest
from watersmeet.io.into import resolved_sink
from watersmeet.io.sinks import prepare_folder
from watersmeet.model import AnyQuery, Query
from watersmeet.pipeline import Pipeline
from watersmeet.plan.planner import Plan
from watersmeet.runtime.emit.confine import reason_of
from watersmeet.runtime.tick.failure import is_full


def _aliases(asked: Asked) -> int:
    """What decides how long it takes to plan a request."""
    added = [change.query for change in asked.changes if isinstance(change, Add)]
    return max((len(query.aliases) for query in added if isinstance(query, Query)), default=0)


def _name(change: Change) -> str:
    return change.query.name if isinstance(change, Add) else change.name


class ActiveQueries:
    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.changing = threading.RLock()  # held while the pipeline changes
        self._keeper: PlanKeeper | None = None  # while the engine runs
        self._recalled: set[str] | None = None  # queries that the log brought back; None before it was read
        self._compaction: Compaction  # of the log, once it was read

    @property
    def queries(self) -> tuple[AnyQuery, ...]:
        return tuple(self.pipeline.queries.values())

    # The life of the engine ----------------------------------------------------------------------

    def recall(self) -> None:
        """Queries that were added or dropped during the previous run on this home stay added or dropped."""
        if self._recalled is None:
            self._compaction = Compaction(self.pipeline.home, self.pipeline.queries)
            self.pipeline, self._recalled = recall(self.pipeline.home, self.pipeline)
        # The tick that was promised may never have been committed, and then the next one is the first.
        following = load_newest(self.pipeline.home).tick + 1
        due = {n: replace(query, since=min(query.since, following)) for n, query in self.pipeline.queries.items()}
        self.pipeline = replace(self.pipeline, queries=due)

    def prepare(self, query: AnyQuery) -> None:
        prepare_folder(self.pipeline.folder_of(query), query.sink, query.outputs)

    def prepare_all(self) -> dict[str, str]:
        """Make the folders of all queries; for those of which that cannot be done, why: they are to be suspended."""
        troubled = {}
        for query in self.queries:
            try:
                self.prepare(query)
            except OSError as problem:
                if is_full(problem):
                    raise
                troubled[query.name] = f"results cannot be written: {reason_of(problem)}"
        return troubled

    def run_on(self, keeper: PlanKeeper | None) -> None:
        """From now on changes take effect at ticks; with None, they are declarations again."""
        self._keeper = keeper
        if keeper is not None:
            write_description(self.pipeline.home, self.queries)

    # Changes -------------------------------------------------------------------------------------

    def add(self, query: AnyQuery) -> None:
        with self.changing:
            if query.name in (self._recalled or ()) and query.name in self.pipeline.queries:
                # The same program ran before on this home and added it while running; now it does so again.
                present = self.pipeline.queries[query.name]
                given = replace(
                    query,
                    since=present.since,
                    addition=present.addition,
                    resumed=present.resumed,
                    sink=resolved_sink(query.sink),
                )
                if given == present:
                    self._recalled = (self._recalled or set()) - {query.name}
                    return
            self._apply_one(Add(query))

    def drop(self, name: str) -> None:
        self._apply_one(Drop(name))

    def resume(self, names: Sequence[str]) -> InForce:
        return self._apply_one(*(Resume(name) for name in names))

    def _apply_one(self, *changes: Change) -> InForce:
        (verdict,) = self.apply([Asked(time.monotonic(), changes)])
        if isinstance(verdict, WatersmeetError):
            raise verdict
        return verdict

    def apply(self, requests: Sequence[Asked]) -> list[Verdict]:
        """Execute requests as one batch; for each, the tick from which it is active, or why it is rejected.

        An invalid request is rejected alone. The others are planned once and become active together, with the
        next tick that begins; if that cannot be done, each is tried for itself. A rejected one changes nothing."""
        with self.changing:
            after = self.pipeline
            suspended = self._keeper.suspended if self._keeper is not None else {}
            verdicts: list[WatersmeetError | None] = []
            for asked in requests:
                try:
                    following = changed(after, asked.changes, self._keeper is not None, suspended)
                    if self._keeper is not None:
                        self._prepare(following)
                    after = following
                    verdicts.append(None)
                except WatersmeetError as problem:
                    verdicts.append(problem)
            accepted = [asked for asked, rejected in zip(requests, verdicts, strict=True) if rejected is None]
            tick, now = 0, time.monotonic()
            if accepted:
                try:
                    tick, now = self._activate(after, accepted)
                except (WatersmeetError, OSError) as problem:
                    if len(accepted) > 1:  # one of them is no reason to reject the others
                        return self._apply_in_halves(requests)
                    failed = problem if isinstance(problem, WatersmeetError) else not_written(after.home, problem)
                    verdicts = [rejected or failed for rejected in verdicts]
            return [
                bad or InForce(tick, now - asked.at, missed(asked.changes, suspended, tick))
                for asked, bad in zip(requests, verdicts, strict=True)
            ]

    def _apply_in_halves(self, requests: Sequence[Asked]) -> list[Verdict]:
        """The simple requests first, so that they do not wait for those that take long to plan, unless some depend on
        each other."""
        order = list(range(len(requests)))
        names = [name for asked in requests for name in {_name(change) for change in asked.changes}]
        if len(set(names)) == len(names):
            order.sort(key=lambda at: _aliases(requests[at]))
        verdicts: dict[int, Verdict] = {}
        for half in (order[: len(order) // 2], order[len(order) // 2 :]):
            verdicts |= zip(half, self.apply([requests[at] for at in half]), strict=True)
        return [verdicts[at] for at in range(len(requests))]

    @staticmethod
    def _planned(keeper: PlanKeeper, after: Pipeline, added: int) -> Plan:
        """A plan, or an error if it takes long to find one: others wait for their changes meanwhile."""
        seconds = planning_seconds(after.options, added)
        try:
            with within(seconds):
                return keeper.plan_for(tuple(after.streams.values()), after.queries.values())
        except TookTooLong:
            raise RunError(
                f"the change was rejected: it took more than {seconds:g} seconds to plan it",
                detail="The number of plans of a query doubles with each alias.",
                hint="join fewer aliases, drop predicates that follow from others, or raise the option check_seconds",
            ) from None

    def _prepare(self, after: Pipeline) -> None:
        """Make the folders of queries that are added or resumed, each request for itself: one that cannot be made is
        no reason to reject the others."""
        for name, query in after.queries.items():
            if query is not self.pipeline.queries.get(name):
                try:
                    self.prepare(query)
                except OSError as problem:
                    raise ModelError(
                        f"query {name}: results cannot be written into {self.pipeline.folder_of(query)}",
                        detail=str(problem),
                        hint="give the query another INTO path, or make the folder writable",
                    ) from None

    def _activate(self, after: Pipeline, accepted: Sequence[Asked]) -> tuple[int, float]:
        """The first tick with the changes (0: declared only), and the monotonic time at which it was fixed."""
        keeper, tick, now = self._keeper, 0, time.monotonic()
        before = self.pipeline.queries
        if keeper is not None:
            fresh = {name for name, q in after.queries.items() if q is not before.get(name) and not q.resumed}
            since = keeper.next_tick
            added = {n: replace(after.queries[n], since=since, addition=secrets.token_hex(8)) for n in fresh}
            after = replace(after, queries={**after.queries, **added})
            plan = self._planned(keeper, after, len(fresh))

            def record(tick: int) -> None:
                nonlocal now
                now = time.monotonic()
                resumed = {name: query.resumed for name, query in after.queries.items()}
                append_entries(after.home, entries_of(accepted, after.queries, resumed, tick, now))
                self._compaction.run(keeper.committed_changes)

            tick = keeper.obey(plan, record)
            due = {n: replace(query, since=tick) if n in fresh else query for n, query in after.queries.items()}
            after = replace(after, queries=due)
            with contextlib.suppress(OSError):  # only for users, and the change is active
                write_description(after.home, after.queries.values())
        if self._recalled is not None:
            self._recalled &= {name for name, query in after.queries.items() if query is before.get(name)}
        self.pipeline = after
        return tick, now
