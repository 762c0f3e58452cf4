"""A better plan for the data as it is after an epoch: what it depends on, what is proposed, and whether that pays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import isclose

import pyarrow as pa

from watersmeet.optimize.problem import Problem
from watersmeet.optimize.research import IN_TURN
from watersmeet.optimize.solution import Solution, price
from watersmeet.optimize.statistics import Statistics
from watersmeet.options import Options
from watersmeet.plan.comparison import PAYBACK, Comparison, horizon, price_of_change
from watersmeet.plan.estimate import facts_of
from watersmeet.plan.grouping import Groups
from watersmeet.plan.planner import EPOCH, Plan, compiled_plan, joined_plan, price_of_join, problem_of
from watersmeet.plan.ruleset import Ruleset
from watersmeet.windows.choose import prices_of, reads_rows
from watersmeet.windows.table import streams_with_all_rows, with_windows


@dataclass(frozen=True)
class PlanRequest:
    """All that a proposal depends on, as a small message to the process that makes it."""

    plan: Plan  # the active one; its problem is made anew, and does not travel
    options: Options
    statistics: Statistics
    renewed: float  # share of the windows that an epoch renews
    samples: Mapping[str, pa.RecordBatch] = field(default_factory=dict)  # by stream, where groups are to be chosen

    def __post_init__(self) -> None:
        object.__setattr__(self, "plan", replace(self.plan, problem=Problem(())))


@dataclass(frozen=True)
class Proposal:
    """What the active plan could be replaced by, and whether that pays."""

    solution: Solution
    rules: Ruleset
    groups: Groups
    comparison: Comparison
    regrouped: bool  # other groups alone are worth a change
    forms: Mapping[str, str] = field(default_factory=dict)  # the kinds of other forms that pay, by query

    @property
    def differs(self) -> bool:
        return self.regrouped or not isclose(self.comparison.before, self.comparison.after)

    @property
    def is_worth_it(self) -> bool:
        return self.regrouped or self.comparison.pays


def propose(request: PlanRequest) -> Proposal:
    """A better plan for the data as it is after an epoch."""
    streams, queries, options = request.plan.streams, request.plan.computed, request.options
    problem = problem_of(queries, options, request.statistics)
    active = replace(request.plan, problem=problem)
    sample = request.samples.get if request.samples else None
    all_rows = streams_with_all_rows(queries, active.suspended)
    found = joined_plan(
        EPOCH, streams, queries, options, request.statistics, active=active, sample=sample, all_rows=all_rows
    )
    now = price(problem, active.solution.paths, active.solution.layouts)
    cost = price_of_change(problem, queries, active.rules, found.solution, found.rules)
    compared = Comparison(now.expected, found.solution.expected, horizon(request.renewed), cost)
    regrouped = found.groups != active.groups
    if regrouped and not compared.pays:
        same = replace(now, searcher=active.solution.searcher)
        found = compiled_plan(streams, queries, options, problem, same, groups=found.groups, all_rows=all_rows)
        compared = Comparison(compared.before, compared.before)
    rules = with_windows(found.rules, active.windows)
    return Proposal(found.solution, rules, found.groups, compared, regrouped, _other_forms(request, problem))


def _other_forms(request: PlanRequest, problem: Problem) -> dict[str, str]:
    """The forms in which queries cost so much less that a change pays: in the ticks until their open windows are
    closed they are computed in both. They are believed to stay as they are for as long as that, or for some epochs."""
    plan, forced = request.plan, request.options.research.form
    facts = facts_of(problem, plan.rules.partitions)
    found = {}
    for query in plan.queries:
        kinds = [form.kind for form in query.forms]
        if len(kinds) <= 1 or query.name in plan.windows.leaving or forced in kinds:
            continue
        if forced == IN_TURN:
            found[query.name] = kinds[(kinds.index(query.form.kind) + 1) % len(kinds)]
            continue
        prices = prices_of(query, facts, partial(price_of_join, problem=problem))
        kept, best = query.form.kind, min(kinds, key=lambda kind: prices[kind])
        free = all(reads_rows(query, form) for form in query.forms if form.kind in (kept, best))
        both = 0.0 if free else query.grid.range / facts.progress(query)
        ticks = max(PAYBACK * request.options.epoch, both)
        if Comparison(prices[kept], prices[best], ticks, price=both * prices[best]).pays:
            found[query.name] = best
    return found
