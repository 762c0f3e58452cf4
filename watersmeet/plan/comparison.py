"""When one plan is better than another: the one rule (decision 15), and what its figures are.

Costs are those of `optimize/problem.py`: microseconds of CPU time while the windows are renewed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from watersmeet.model import Query
from watersmeet.optimize.joingraph import single
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.solution import Solution
from watersmeet.optimize.weights import share_found
from watersmeet.plan.materialize import Materialized, materialized_stores, walk_streams
from watersmeet.plan.parts import parts_of
from watersmeet.plan.ruleset import Ruleset

NOTICEABLE = 0.05  # share of the cost that the estimates are not sure of: two plans of about one cost would alternate
PAYBACK = 10  # epochs that a change has to pay for itself: the data is not believed to stay as it is for longer


@dataclass(frozen=True)
class Comparison:
    """A plan replaces another if its predicted saving over the horizon exceeds the price of the change.

    The saving is the difference of their costs, as far as the estimates are sure of it. The horizon is a share of the
    windows, at most 1. The price is what the change itself costs, once. The first plan of an engine replaces a plan
    that was made without a search, by the same rule. Costs are those of joins: plans that are compared compute the
    windows of queries in the same way, so that their cost is no reason for or against one."""

    before: float  # cost of the plan to be replaced,
    after: float  # and of the other one
    horizon: float = 1.0
    price: float = 0.0

    @property
    def gain(self) -> float:
        return (self.before - self.after) * self.horizon

    @property
    def pays(self) -> bool:
        return self.gain > self.price + NOTICEABLE * self.before * self.horizon


def horizon(renewed: float) -> float:
    """The share of the windows that is renewed until a change must have paid for itself; an epoch renews `renewed`."""
    return min(1.0, PAYBACK * renewed)


def price_of_change(
    problem: Problem,
    queries: Sequence[Query],
    before: Ruleset,
    solution: Solution,
    after: Ruleset,
) -> float:
    """The cost of filling the materialized stores that are new, and of indexing the rows of streams by new keys."""
    weights = problem.weights
    keys = {rule.name: set(rule.keys) for rule in before.probed}
    cost = 0.0
    for rule in after.probed:
        if rule.name in keys and not rule.is_materialized:
            rows = problem.stored(single(rule.name))
            cost += len(set(rule.keys) - keys[rule.name]) * rows * weights.index_entry
    if solution.materialized:
        there = set(before.materialized)
        stores = materialized_stores(parts_of(queries), solution)
        new = {store.name: store for store in stores.values() if store.name not in there}
        for rule in after.probed:
            if rule.name in new:
                cost += _price_of_store(problem, new[rule.name], len(rule.keys))
    return cost


def _price_of_store(problem: Problem, store: Materialized, keys: int) -> float:
    weights = problem.weights
    first, path = walk_streams(store.graph)
    joined, cost = frozenset((first,)), weights.phase
    for step in path:
        came, found = (problem.size(store.graph.within(some)) for some in (joined, joined | step.relations))
        cost += came * weights.probe(problem.stored(step), share_found(came, found), problem.buckets)
        cost += found * weights.match
        joined |= step.relations
    return cost + problem.stored(store.subquery) * (weights.kept_row + keys * weights.index_entry) + weights.file
