"""Adapts the plan of a running engine to the data: combines measurements, epochs, optimizer and history.

The thread that runs ticks notifies it of every tick, and it does only small things there; the search for plans is in a
process of its own. A failure here must not stop a tick: without a reply, the active plan stays.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from watersmeet.adapt.decisions import Decision, is_worth_a_search, reason, record
from watersmeet.adapt.epochs import Decide, Epochs
from watersmeet.adapt.measure import Counted, Measurements, all_links, both_counted, learned, measure_tick
from watersmeet.adapt.measured_slices import combined
from watersmeet.adapt.optimizer_process import OptimizerProcess
from watersmeet.adapt.statistics_file import first_statistics, remember
from watersmeet.adapt.step_facts import step_facts
from watersmeet.adapt.weight_fit import fitted
from watersmeet.adapt.window_sketches import WindowSketches
from watersmeet.home.manifest import Manifest
from watersmeet.model import KeyPart, Query
from watersmeet.optimize.statistics import Named, Statistics
from watersmeet.options import Options
from watersmeet.plan.comparison import Comparison
from watersmeet.plan.parts import longest_windows
from watersmeet.plan.planner import Plan, problem_of
from watersmeet.plan.proposals import PlanRequest, Proposal
from watersmeet.plan.units import SECONDS, TUPLES, names_text
from watersmeet.runtime.exec.executor import Executor
from watersmeet.runtime.exec.looking import Sampler
from watersmeet.runtime.tick.orders import GatherReport
from watersmeet.store.sketch import Sketch

OLD_SHARE = 0.1  # of what was known before, in what is known after an epoch


class Follower:
    """The observer that adapts the plan. `current` gives the active plan; `take` activates another one from the next
    tick on, unless streams or queries are not those that it was made for."""

    def __init__(
        self,
        home: Path,
        options: Options,
        manifest: Manifest,
        executor: Executor,
        current: Callable[[], Plan],
        take: Callable[[Plan], bool],
    ) -> None:
        self.home = home
        self.options = options
        self.executor = executor
        self.current = current
        self.take = take
        self.optimizer = OptimizerProcess()
        self.epochs = Epochs(options.epoch)
        self.statistics = first_statistics(home, manifest)
        self._turn = threading.Lock()  # queries change in other threads than the one that runs ticks
        self._last = manifest
        self._at = time.monotonic()
        self._sketches: dict[tuple[str, KeyPart], Sketch] = {}
        self._filters: dict[Named, Counted] = {}
        self._running = Measurements()
        self._measured = Measurements()  # of the last epoch that has ended
        self._older = WindowSketches()
        self._asked: tuple[Plan, Statistics] | None = None  # what the optimizer works on,
        self._thought: tuple[Plan, Statistics] | None = None  # its last request,
        self._proposal: Proposal | None = None  # and its answer
        self._searched = 0.0  # seconds that the last search took,
        self._worked = 0.0  # and CPU seconds of tasks since then
        self.forms: Mapping[str, str] = {}  # the kinds of the forms that queries are to get instead of theirs
        self._first: tuple[Plan, Statistics] | None = None  # the plan made without a search that one is under way for
        self._grouped: tuple[Query, ...] = ()  # those for which groups were chosen by what their streams hold
        self._known = self._facts(current())

    def _facts(self, plan: Plan) -> Plan:
        self._steps = step_facts(plan)
        return plan

    # Notified by the engine ----------------------------------------------------------------------

    def gathered(self, reports: Sequence[GatherReport]) -> None:
        """The reports of the tick that is running."""
        self._sketches, self._filters = {}, {}
        for report in reports:
            passing = {(report.stream, text): (report.examined, passed) for text, passed in report.passing.items()}
            self._filters = combined(self._filters, passing, both_counted)
            sketches = {(report.stream, part): sketch for part, sketch in report.sketches.items()}
            self._sketches = combined(self._sketches, sketches, Sketch.merged)

    def committed(self, manifest: Manifest) -> None:
        with self._turn:
            plan = self.current()
            if plan is not self._known:
                self._known = self._facts(plan)
            now = time.monotonic()
            if manifest.plan == plan.rules.version:  # not where another plan came while the tick ran
                seconds = now - self._at
                told = measure_tick(
                    self._last, manifest, plan, self._steps, self._sketches, seconds=seconds, filters=self._filters
                )
                self._running = self._running.plus(told)
            self._last, self._at = manifest, now
            self._hear()
            self.epochs, instructions = self.epochs.committed()
            if self.epochs.ticks % self.epochs.length == 0:
                self._end_epoch(plan)
            for instruction in instructions:
                if isinstance(instruction, Decide):
                    self._decide()
                elif self.options.adaptive == "on":
                    self._ask(self.current())
                else:
                    self._skip()

    def changed(self, before: Plan | None) -> None:
        """The engine has made its first plan, or one for other queries than before."""
        plan = self.current()
        with self._turn:
            self.epochs = self.epochs.with_other_queries()
            self._record("queries" if before else "start", _difference(before, plan), True, plan)
            if before is None or self.options.adaptive == "off":  # otherwise the next epoch searches
                self._search(plan)

    def _search(self, plan: Plan) -> None:
        """Have a better plan looked for beside the ticks, for one that was made without a search."""
        nothing_known = self.options.adaptive == "on" and not self.statistics.sizes
        if self.options.searcher or not plan.has_choices or plan.solution.is_searched or nothing_known:
            return
        if not self.optimizer.busy:  # otherwise its answer is for another plan, and this one follows
            self._first = (plan, self.statistics)
            self.optimizer.ask(
                PlanRequest(plan, self.options, self.statistics, self.options.epoch / plan.problem.ticks)
            )

    def close(self) -> None:
        self.optimizer.close()

    # An epoch ------------------------------------------------------------------------------------

    def _end_epoch(self, plan: Plan) -> None:
        windows = longest_windows(alias for query in plan.queries for join in query.joins for alias in join.aliases)
        self._measured, self._running = self._running.with_unstored(windows), Measurements()
        self._worked += self._measured.cpu_seconds
        links, older = all_links(plan.problem, plan.queries), self._older.all()
        known = learned(self.statistics, self._measured, links, OLD_SHARE, older=older, rules=plan.rules)
        self._older.add(self._measured.sketches, self._measured.live)
        self.statistics = replace(known, weights=fitted(known.weights, self._measured))
        with contextlib.suppress(OSError):  # advice for the next start, not state
            remember(self.home, self._last.tick, self.statistics, self._measured)

    def _ask(self, plan: Plan) -> None:
        samples = self._samples(plan)
        self._proposal, last = None, self._thought
        same = (
            last is not None
            and last[0] is plan
            and not is_worth_a_search(last[1], self.statistics, self._searched, self._worked)
        )
        if not (plan.problem.queries or plan.windows.forms) or (same and not samples) or self.optimizer.busy:
            self._skip()
            return
        self._asked = self._thought = (plan, self.statistics)
        self._worked = 0.0
        self.optimizer.ask(PlanRequest(plan, self.options, self.statistics, self._measured.renewed, samples))

    def _samples(self, plan: Plan) -> dict[str, pa.RecordBatch]:
        """Rows of the streams, where queries are in several groups; once for the same queries."""
        named = {name for group in plan.groups for name in group}
        if plan.queries == self._grouped:
            return {}
        streams = {alias.stream for part in plan.parts if part.name in named for alias in part.join.aliases}
        rows = Sampler(self.executor, self.home, self._last)
        found = {stream: rows(stream) for stream in sorted(streams)}
        sampled = {stream: batch for stream, batch in found.items() if batch is not None}
        self._grouped = plan.queries if sampled else ()
        return sampled

    def _skip(self) -> None:
        """Send no request in this epoch, as if the optimizer had found nothing."""
        self._asked = None
        self.epochs = self.epochs.with_answer()

    def _hear(self) -> None:
        answer = self.optimizer.answer() if self.optimizer.busy else None
        if answer is None:
            return
        self._searched = answer.seconds
        if answer.proposal is None:
            plan = self.current()
            self._record("statistics", f"the optimizer found no plan: {answer.failure}", False, plan)
            self._asked = self._thought = None
        if self._first is not None:
            self._hear_first(answer.proposal)
            return
        self.epochs = self.epochs.with_answer()
        self._proposal = answer.proposal

    def _decide(self) -> None:
        if self._asked is None or self._proposal is None:
            return
        (plan, statistics), proposal = self._asked, self._proposal
        self._asked = self._proposal = None
        self._consider(plan, statistics, proposal, reason(plan.problem.statistics, statistics))

    def _hear_first(self, proposal: Proposal | None) -> None:
        assert self._first is not None
        (plan, statistics), self._first = self._first, None
        if self.current() is not plan:
            self._search(self.current())
        elif proposal is not None:
            self._consider(plan, statistics, proposal, "the search beside the first ticks found a cheaper plan")

    def _consider(self, plan: Plan, statistics: Statistics, proposal: Proposal, why: str) -> None:
        if self.current() is not plan:
            return
        if proposal.forms:
            self.forms = proposal.forms
            return
        if not proposal.differs:
            return
        problem = problem_of(plan.computed, self.options, statistics, plan)
        new = replace(plan, problem=problem, solution=proposal.solution, rules=proposal.rules, groups=proposal.groups)
        adopted = False
        if proposal.is_worth_it:
            adopted = self.take(new)
            if not adopted:
                self._thought = None  # queries change at this very moment: plan again
        self._record("statistics", why, adopted, new, proposal.comparison)

    def _record(self, kind: str, why: str, adopted: bool, plan: Plan, compared: Comparison | None = None) -> None:
        middle, worst = self._measured.errors
        in_tuples = plan.problem.weights.once
        unit, of_tick = (1.0, 1.0) if in_tuples else (1e-6, 1e-6 / plan.problem.ticks)
        windows = plan.window_costs.total * 1e-6  # both plans have the same
        decision = Decision(
            tick=self._last.tick,
            epoch=self.epochs.epoch,
            kind=kind,
            reason=why,
            adopted=adopted,
            plan=self.current().rules.version,
            cost=plan.solution.expected * of_tick + windows,
            cost_in_force=compared.before * of_tick + windows if compared else None,
            gain=compared.gain * unit if compared else 0.0,
            price=compared.price * unit if compared else 0.0,
            searcher=plan.solution.searcher,
            seconds=plan.solution.seconds,
            median_error=middle,
            worst_error=worst,
            materialized=tuple(str(store) for store in plan.solution.materialized),
            unit=TUPLES if in_tuples else SECONDS,
        )
        record(self.home, decision)


def _difference(before: Plan | None, plan: Plan) -> str:
    if before is None:
        return f"the engine started; queries: {len(plan.queries)}"
    old, new = ({query.name for query in one.queries} for one in (before, plan))
    out_before, out = ({query.name for query in one.suspended} for one in (before, plan))
    changes = {
        "new:": new - old - out_before,
        "dropped:": (old | out_before) - new - out,
        "suspended:": out - out_before,
        "resumed:": new & out_before,
    }
    parts = [f"{what} {names_text(sorted(names), 3)}" for what, names in changes.items() if names]
    now, then = plan.windows.forms, before.windows.forms
    parts += [f"{name}: from {then[name]} to {now[name]}" for name in now if then.get(name, now[name]) != now[name]]
    return "; ".join(parts) or "streams or queries changed"
