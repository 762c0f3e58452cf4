"""A better plan for the data as it is now, with what the change would gain and what it would cost. Pure.

Costs are those of `optimize/problem.py`: tuples sent while the windows are renewed once. So

    gain  = (cost of the plan in force − cost of the new plan) · renewed
    price = tuples sent to fill materialized stores that are new, their rows, and the rows to index by new keys

both under the new statistics. `renewed` is the share of the windows that `PAYBACK` epochs renew, at most 1: a
change has to pay for itself while the data stays like this, and it is not believed to stay longer than that. Besides,
the new plan must be cheaper by a share of `WORTHWHILE`, so that two plans of about one cost do not alternate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from watersmeet.model import Query, Stream
from watersmeet.optimize.heuristic.annealing import improve
from watersmeet.optimize.problem import Problem, Solution, price
from watersmeet.optimize.search import ITERATIONS_PER_WANT, optimize, verify
from watersmeet.optimize.statistics import Statistics
from watersmeet.options import Options
from watersmeet.plan.aliases import Aliases
from watersmeet.plan.compile import compile_solution
from watersmeet.plan.grouping import Groups, choose_groups, rows_in_groups
from watersmeet.plan.materialize import materialized_stores
from watersmeet.plan.planner import problem_of
from watersmeet.plan.ruleset import Ruleset

PAYBACK = 10
WORTHWHILE = 0.05
NEARLY = 1.005  # of two plans of nearly one cost, the one that is like the plan in force


@dataclass(frozen=True)
class Request:
    """All that a proposal depends on."""

    streams: tuple[Stream, ...]
    queries: tuple[Query, ...]
    options: Options
    statistics: Statistics
    renewed: float  # by one epoch
    solution: Solution  # the plan in force
    rules: Ruleset
    groups: Groups = ()
    samples: Mapping[str, pa.RecordBatch] = field(default_factory=dict)  # by stream, where groups are to be chosen


@dataclass(frozen=True)
class Proposal:
    solution: Solution
    rules: Ruleset
    cost_in_force: float
    gain: float
    price: float
    groups: Groups = ()
    regrouped: bool = False  # other groups alone are worth a change: it moves no rows

    @property
    def differs(self) -> bool:
        return self.regrouped or self.cost_in_force != self.solution.cost

    @property
    def is_worth_it(self) -> bool:
        return self.regrouped or _pays(self.cost_in_force, self.solution.cost, self.gain, self.price)


def _pays(cost_in_force: float, cost: float, gain: float, price: float) -> bool:
    return cost_in_force - cost > WORTHWHILE * cost_in_force and gain > price


def propose(request: Request) -> Proposal:
    problem = problem_of(request.queries, request.options, request.statistics)
    now = price(problem, request.solution.paths, request.solution.layouts)
    found = _search(problem, request.options, now)
    verify(problem, found)
    groups, regrouped = _regroup(request, problem)

    def compiled(solution: Solution) -> Ruleset:
        sharing = request.options.sharing
        return compile_solution(request.streams, request.queries, solution, problem.partitions, groups, sharing)

    rules = compiled(found)
    gain = (now.cost - found.cost) * min(1.0, PAYBACK * request.renewed)
    change = price_of_change(problem, request, found, rules)
    if regrouped and not _pays(now.cost, found.cost, gain, change):
        found, gain, change = replace(now, searcher=request.solution.searcher), 0.0, 0.0
        rules = compiled(found)
    return Proposal(found, rules, now.cost, gain, change, groups, regrouped)


def _regroup(request: Request, problem: Problem) -> tuple[Groups, bool]:
    """Other groups for classes of many queries, if fewer rows are then in several of them."""
    if not request.samples:
        return request.groups, False
    graphs = {graph.name: graph for graph in problem.queries}
    groups = choose_groups(request.queries, graphs, request.samples.get)
    now, then = (rows_in_groups(request.queries, graphs, request.samples.get, g) for g in (request.groups, groups))
    better = then < (1 - WORTHWHILE) * now
    return (groups, True) if better else (request.groups, False)


def _search(problem: Problem, options: Options, now: Solution) -> Solution:
    found = optimize(problem, searcher=options.searcher or None, time_limit=0.7 * options.plan_seconds)
    if options.searcher:
        return found
    budget = problem.storage_budget
    if budget is not None and now.storage > budget:  # the data grew: the plan in force is no place to start from
        return found
    steps = ITERATIONS_PER_WANT * len(problem.wants)
    near = improve(problem, 0.3 * options.plan_seconds, start=now, iterations=steps)
    if near.cost <= found.cost * NEARLY:
        return replace(near, bound=found.bound, seconds=found.seconds + near.seconds)
    return found


def price_of_change(problem: Problem, request: Request, solution: Solution, rules: Ruleset) -> float:
    filled = _filling(problem, request.streams, request.queries, solution, set(request.rules.materialized))
    before = {rule.name: set(rule.keys) for rule in request.rules.stores}
    indexed = sum(
        len(set(rule.keys) - before[rule.name]) * problem.statistics.size(rule.name)
        for rule in rules.stores
        if rule.name in before and not rule.is_materialized
    )
    return filled + indexed


def _filling(
    problem: Problem, streams: Sequence[Stream], queries: Sequence[Query], solution: Solution, there: set[str]
) -> float:
    """Tuples that the walks send which fill the new stores, and the rows that they store."""
    if not solution.materialized:
        return 0.0
    total = 0.0
    stores = materialized_stores({stream.name: stream for stream in streams}, Aliases(queries), solution)
    for store in stores.values():
        if store.name not in there:
            first, path = store.walk()
            joined = frozenset((first,))
            for step in path:
                total += problem.size(store.graph.within(joined))
                joined |= step.relations
            total += problem.size(store.subquery)
    return total
