"""Plans in which every query by itself is a tree of multi-way joins whose inner results are stored (MultiStream).

*flat* has no inner results, *left-deep* stores every prefix of one order of the relations (a cascade of binary joins).
Probe orders are greedy (Fig. 4 of the paper). Where queries have steps or stores in common, these are paid once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from time import perf_counter

from watersmeet.errors import ModelError
from watersmeet.optimize.heuristic.individual import together
from watersmeet.optimize.joingraph import QueryGraph
from watersmeet.optimize.problem import Path, Problem, Want
from watersmeet.optimize.solution import Solution, price

Size = Callable[[frozenset[str]], float]
SETS_OF_A_SIZE = 16  # that a left-deep order is searched among where there are too many


@dataclass(frozen=True)
class OperatorTree:
    """A plan of operators: a leaf is a relation, an inner node a multi-way join of its children."""

    children: tuple[OperatorTree | str, ...]

    @property
    def relations(self) -> tuple[str, ...]:
        return tuple(
            relation
            for child in self.children
            for relation in ((child,) if isinstance(child, str) else child.relations)
        )

    @property
    def inner(self) -> tuple[OperatorTree, ...]:
        """The operators below the root, whose results are stored."""
        below = [child for child in self.children if isinstance(child, OperatorTree)]
        return tuple(one for child in below for one in (child, *child.inner))

    def __str__(self) -> str:
        return f"({' '.join(str(child) for child in self.children)})"


def greedy_order(
    start: frozenset[str],
    others: Sequence[frozenset[str]],
    size: Size,
    tasks: Mapping[frozenset[str], float],
    linked: Callable[[frozenset[str], frozenset[str]], bool] = lambda joined, other: True,
) -> list[frozenset[str]]:
    """Fig. 4: the stores in the order in which the start's tuples probe them.

    The next store is the one with the least |R| · N_j + |R ⋈ R_j| · N_k, for the best R_k that could follow. It must be
    linked to what is joined already: we have no cross products."""
    order: list[frozenset[str]] = []
    joined, left = start, list(others)
    while len(left) > 1:

        def next_cost(at: int, joined: frozenset[str] = joined, left: list[frozenset[str]] = left) -> float:
            after = joined | left[at]
            follow = min(tasks[left[k]] for k in range(len(left)) if k != at)
            return size(joined) * tasks[left[at]] + size(after) * follow

        chosen = min((at for at, other in enumerate(left) if linked(joined, other)), key=next_cost)
        order.append(left.pop(chosen))
        joined |= order[-1]
    return order + left


def flat(problem: Problem, time_limit: float = inf) -> Solution:
    """The plan that materializes nothing."""
    return plan_of_trees(problem, "flat", lambda query: OperatorTree(tuple(sorted(query.relations))))


def left_deep(problem: Problem, time_limit: float = inf) -> Solution:
    """The plan with one order of the relations for each query, in which every prefix is materialized."""
    if not problem.materialize and any(len(query.relations) > 2 for query in problem.queries):
        raise ModelError("a left-deep plan stores intermediate results", hint="use the searcher flat, or materialize")
    return plan_of_trees(problem, "left-deep", lambda query: left_deep_tree(problem, query))


def left_deep_tree(problem: Problem, query: QueryGraph) -> OperatorTree:
    """The order with the least cost where no probe is a broadcast, by dynamic programming over connected sets; of a
    query that has too many of them, over the cheapest of each size.

    The join of a prefix M with r costs |M| for its members' tuples, |r| for r's, and |M| for storing it."""
    layer: dict[frozenset[str], tuple[float, tuple[str, ...]]] = {
        frozenset((relation,)): (0.0, (relation,)) for relation in query.relations
    }
    for _ in query.relations[1:]:
        following: dict[frozenset[str], tuple[float, tuple[str, ...]]] = {}
        for relations, (cost, order) in layer.items():
            joined = query.within(relations)
            stored = 1 if joined.is_stream else 1 + problem.weights.kept_row / problem.weights.miss
            for relation in sorted(query.reachable(relations)):
                size = problem.size(joined) * stored + problem.size(query.within(frozenset((relation,))))
                found = cost + size, (*order, relation)
                larger = relations | {relation}
                following[larger] = min(following.get(larger, found), found)
        few = None if problem.is_narrow(query) else SETS_OF_A_SIZE
        layer = dict(sorted(following.items(), key=lambda item: item[1])[:few])
    ((_, order),) = layer.values()
    tree: OperatorTree | str = order[0]
    for relation in order[1:]:
        tree = OperatorTree((tree, relation))
    return tree if isinstance(tree, OperatorTree) else OperatorTree((tree,))


def paths_of(problem: Problem, query: QueryGraph, tree: OperatorTree) -> dict[Want, Path]:
    """A path for each relation to the result of each operator: to its child of the operator, then greedily on."""
    paths: dict[Want, Path] = {}
    inputs = [frozenset((child,) if isinstance(child, str) else child.relations) for child in tree.children]
    for child in tree.children:
        if isinstance(child, OperatorTree):
            paths |= paths_of(problem, query, child)
    tasks = {some: float(problem.copies(query.within(some), (), ())) for some in inputs}
    whole = query.within(frozenset(tree.relations))
    for at, joined in enumerate(inputs):
        order = greedy_order(
            joined,
            inputs[:at] + inputs[at + 1 :],
            lambda some: problem.size(query.within(some)),
            tasks,
            lambda some, other: bool(query.reachable(some) & other),
        )
        for start in sorted(joined):
            before = paths[start, query.within(joined)] if len(joined) > 1 else ()
            paths[start, whole] = before + tuple(query.within(store) for store in order)
    return paths


def plan_of_trees(problem: Problem, name: str, tree_of: Callable[[QueryGraph], OperatorTree]) -> Solution:
    """The plan that has these trees for its queries."""
    started = perf_counter()
    plans = []
    for query in sorted(problem.queries, key=lambda query: query.whole.sort_key):
        paths = paths_of(problem, query, tree_of(query)) if len(query.relations) > 1 else {}
        plans.append(price(replace(problem, queries=(query,), storage_budget=None), paths, {}))
    draft = together(problem, plans)
    if not draft.fits:
        raise ModelError(
            f"the {name} plan stores {draft.storage:g} tuples, the storage budget is {draft.budget:g}",
            hint="raise storage_budget, or use the searcher improve",
        )
    return draft.solution(name, perf_counter() - started)
