"""The optimizer of the AJoin paper (section 4): groups by Eq. 2, iterative reordering, and when to plan from scratch.

Eq. 2 prices a join of two streams for a set of queries: indexing what some of them want of each stream, intersecting
the indexes, and materializing what some of them want of the result. A row that several want counts once (Eq. 1).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf

import numpy as np

from watersmeet.errors import ModelError
from watersmeet.optimize.joingraph import QueryGraph, Subquery
from watersmeet.optimize.operator_trees import OperatorTree, plan_of_trees
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.solution import Solution


@dataclass(frozen=True)
class Side:
    """Rows of a stream: the join key of each, and for each row and query whether it passes the query's filter."""

    keys: np.ndarray
    wants: np.ndarray

    def union(self, queries: Sequence[int]) -> np.ndarray:
        return np.asarray(self.wants[:, list(queries)].any(axis=1))


class Eq2:
    """The cost of a join for a set of queries, from rows of both streams."""

    def __init__(
        self, left: Side, right: Side, *, indexed: tuple[bool, bool] = (True, True), sink: bool = True
    ) -> None:
        """`indexed`: for each stream whether an index has to be built (bi1, bi2); `sink`: the result is a query's."""
        self.left, self.right = left, right
        self.indexed, self.sink = indexed, sink
        self._one, self._other = _pairs(left.keys, right.keys)
        # For each pair of rows that join, the queries that want it.
        self._results = left.wants[self._one] & right.wants[self._other]

    def __call__(self, queries: Sequence[int]) -> float:
        left, right = self.left.union(queries), self.right.union(queries)
        keys = min(len(np.unique(self.left.keys[left])), len(np.unique(self.right.keys[right])))
        built = self.indexed[0] * int(left.sum()) + self.indexed[1] * int(right.sum())
        made = int(self._results[:, list(queries)].any(axis=1).sum()) if self.sink else 0
        return float(built + keys + made)

    def of_groups(self, groups: Sequence[Sequence[int]]) -> float:
        return sum(self(group) for group in groups)


def _pairs(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The places of equal keys."""
    order = np.argsort(right, kind="stable")
    begin, end = np.searchsorted(right[order], left), np.searchsorted(right[order], left, side="right")
    counts = end - begin
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(np.arange(len(left)), counts), order[np.repeat(begin, counts) + within]


def grouped(cost: Eq2, queries: Sequence[int], groups: Sequence[Sequence[int]] = ()) -> list[list[int]]:
    """Fig. 7a: groups of two where sharing is cheaper, the cheapest first; then queries join them eagerly.

    Queries that are in none of the `groups` of before are placed; these stay together."""
    made = [list(group) for group in groups]
    left = [query for query in queries if not any(query in group for group in made)]
    alone = {query: cost([query]) for query in left}

    def join(group: list[int]) -> None:
        price = cost(group)
        for query in list(left):
            larger = cost([*group, query])
            if larger < price + alone[query]:
                group.append(query)
                left.remove(query)
                price = larger

    for group in made:
        join(group)
    pairs = [(cost(pair), *pair) for pair in combinations(left, 2)]
    for shared, one, other in sorted(pairs):
        if one in left and other in left and shared < alone[one] + alone[other]:
            made.append([one, other])
            left.remove(one)
            left.remove(other)
            join(made[-1])
    return made + [[query] for query in left]


@dataclass
class HalfChanged:
    """The rule of 50 %: whether to plan from scratch after so many queries were created and deleted.

    As printed, changes count from the last full plan on; `by_batch` counts those of each batch alone."""

    by_batch: bool = False
    changed: int = 0

    def asks(self, changes: int, queries: int) -> bool:
        self.changed = changes if self.by_batch else self.changed + changes
        if 2 * self.changed <= queries:
            return False
        self.changed = 0
        return True


GroupOf = Callable[[QueryGraph, Subquery], Hashable]
_Join = tuple[Subquery, frozenset[Subquery], Hashable]  # what is joined, of which two inputs, and in which group


def reordering(problem: Problem, time_limit: float = inf) -> Solution:
    """Fig. 7b for all queries. A Problem has no filters, so that queries with a join in common are in one group."""
    if not problem.materialize and any(len(query.relations) > 2 for query in problem.queries):
        raise ModelError("AJoin's plans store intermediate results", hint="use the searcher flat, or materialize")
    trees = reordered(problem)
    return plan_of_trees(problem, "ajoin", lambda query: trees[query.name])


def reordered(problem: Problem, group_of: GroupOf = lambda query, joined: None) -> Mapping[str, OperatorTree]:
    """A tree of binary joins for each query.

    In an iteration each query replaces two of its inputs by their join: the one with the least cardinality, divided by
    the number of queries that have the same two inputs and may share their join, being in one group."""
    inputs: dict[str, list[OperatorTree | str]] = {query.name: [*sorted(query.relations)] for query in problem.queries}
    queries = {query.name: query for query in problem.queries}
    while waiting := [name for name, parts in inputs.items() if len(parts) > 1]:
        sharing: dict[_Join, list[tuple[str, OperatorTree | str, OperatorTree | str]]] = {}
        sizes: dict[_Join, float] = {}
        for name in waiting:
            query = queries[name]
            for one, other in combinations(inputs[name], 2):
                first, second = _relations(one), _relations(other)
                if not query.reachable(first) & second:
                    continue
                joined = query.within(first | second)
                parts = frozenset((query.within(first), query.within(second)))
                key = (joined, parts, group_of(query, joined))
                sharing.setdefault(key, []).append((name, one, other))
                sizes[key] = problem.size(joined)
        free = set(waiting)
        for key in sorted(sharing, key=lambda key: (sizes[key] / len(sharing[key]), sharing[key][0][0])):
            for name, one, other in sharing[key]:
                if name in free:
                    free.remove(name)
                    rest = [part for part in inputs[name] if part not in (one, other)]
                    inputs[name] = [OperatorTree((one, other)), *rest]
    return {name: tree if isinstance(tree, OperatorTree) else OperatorTree((tree,)) for name, (tree,) in inputs.items()}


def _relations(part: OperatorTree | str) -> frozenset[str]:
    return frozenset((part,) if isinstance(part, str) else part.relations)
