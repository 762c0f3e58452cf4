"""When one plan is better than another: the one rule (decision 14), and what its figures are.

Costs are those of `optimize/problem.py`: tuples sent while the windows are renewed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from watersmeet.model import Query, Stream
from watersmeet.optimize.problem import Problem, Solution
from watersmeet.plan.aliases import Aliases
from watersmeet.plan.materialize import materialized_stores
from watersmeet.plan.ruleset import Ruleset

NOTICEABLE = 0.05  # share of the cost; below it, two plans of about one cost would alternate
PAYBACK = 10  # epochs that a change has to pay for itself: the data is not believed to stay as it is for longer
# What files, merges and phases of materialized results add to the cost in each tick, however few their tuples are.
# With NOTICEABLE it means that such a plan replaces one without them that costs more than 1.3 times as much.
UPKEEP = 0.235


@dataclass(frozen=True)
class Comparison:
    """A plan replaces another if its predicted saving over the horizon exceeds the price of the change and is
    noticeable.

    The saving is the difference of their running costs. The horizon is a share of the windows, at most 1. The price is
    what the change itself costs, once. A first plan replaces none: there the best plan that materializes results is
    compared with the best one that does not, over one renewal of the windows, and without a price."""

    before: float  # running costs of the plan to be replaced,
    after: float  # and of the other one
    horizon: float = 1.0
    price: float = 0.0

    @property
    def gain(self) -> float:
        return (self.before - self.after) * self.horizon

    @property
    def pays(self) -> bool:
        return self.before - self.after > NOTICEABLE * self.before and self.gain > self.price


def running_cost(solution: Solution) -> float:
    return solution.cost * (1 + UPKEEP) if solution.materialized else solution.cost


def horizon(renewed: float) -> float:
    """The share of the windows that is renewed until a change must have paid for itself; an epoch renews `renewed`."""
    return min(1.0, PAYBACK * renewed)


def price_of_change(
    problem: Problem,
    streams: Sequence[Stream],
    queries: Sequence[Query],
    before: Ruleset,
    solution: Solution,
    after: Ruleset,
) -> float:
    """Tuples sent to fill materialized stores that are new, their rows, and the rows to index by new keys."""
    keys = {rule.name: set(rule.keys) for rule in before.stores}
    indexed = sum(
        len(set(rule.keys) - keys[rule.name]) * problem.statistics.size(rule.name)
        for rule in after.stores
        if rule.name in keys and not rule.is_materialized
    )
    filled = 0.0
    if solution.materialized:
        there = set(before.materialized)
        stores = materialized_stores({stream.name: stream for stream in streams}, Aliases(queries), solution)
        for store in stores.values():
            if store.name not in there:
                first, path = store.walk()
                joined = frozenset((first,))
                for step in path:
                    filled += problem.size(store.graph.within(joined))
                    joined |= step.relations
                filled += problem.size(store.subquery)
    return filled + indexed
