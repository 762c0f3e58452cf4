"""MultiStream's plans of chains: as many neighbouring results are stored as the budget allows (Fig. 7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from watersmeet.errors import ModelError
from watersmeet.optimize.joingraph import QueryGraph, Subquery, stream_of
from watersmeet.optimize.operator_trees import OperatorTree, plan_of_trees
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.solution import Solution


def chain(problem: Problem, time_limit: float = inf) -> Solution:
    """Fig. 7 for each query. The budget is that of all of them: one query after the other takes what is left."""
    spent = sum(problem.size(query.within(frozenset((r,)))) for query, r in _streams(problem).values())
    budget = inf if problem.storage_budget is None else problem.storage_budget
    stored: set[Subquery] = set()

    def tree_of(query: QueryGraph) -> OperatorTree:
        nonlocal spent
        relations = linear_order(query)

        def size(some: tuple[str, ...]) -> float:
            sub = query.within(frozenset(some))
            return 0.0 if len(some) == 1 or sub in stored else problem.size(sub)

        tree = chain_tree(relations, size, budget - spent if problem.materialize else 0.0)
        for inner in tree.inner:
            spent += size(inner.relations)
            stored.add(query.within(frozenset(inner.relations)))
        return tree

    return plan_of_trees(problem, "chain", tree_of)


def linear_order(query: QueryGraph) -> list[str]:
    """The relations of a query whose join graph is a line, from one end to the other."""
    neighbours = query.neighbours
    ends = sorted(relation for relation, others in neighbours.items() if len(others) == 1)
    if len(query.relations) > 1 and (len(ends) != 2 or any(len(others) > 2 for others in neighbours.values())):
        raise ModelError(
            f"query {query.name} is not a chain of joins",
            detail="The searcher chain takes queries in which every relation is joined to the next one only.",
            hint="use the searcher improve",
        )
    order = [ends[0] if ends else query.relations[0]]
    while len(order) < len(query.relations):
        order += sorted(neighbours[order[-1]] - set(order))
    return order


def chain_tree(relations: Sequence[str], size: Callable[[tuple[str, ...]], float], budget: float) -> OperatorTree:
    """Fig. 7: from the flat tree on, the cheapest result of neighbours is stored while the budget lasts."""
    tree = OperatorTree(tuple(relations))
    spent = sum(size((relation,)) for relation in relations)
    while spent < budget:
        choices = [(size(_labels(tree, span)), span) for span in valid(tree)]
        if not choices:
            break
        added, span = min(choices, key=lambda choice: (choice[0], choice[1]))
        if spent + added > budget:
            break
        tree, spent = materialize(tree, span), spent + added
    return tree


Span = tuple[
    tuple[int, ...], int, int
]  # (the children that lead to an operator, first and last of its children to fuse)


def valid(tree: OperatorTree, at: tuple[int, ...] = ()) -> list[Span]:
    """Neighbouring children of an operator that may become an operator of their own: two or more, but not all."""
    count = len(tree.children)
    spans = [(at, i, j) for i in range(count) for j in range(i + 1, count) if j - i + 1 < count]
    for place, child in enumerate(tree.children):
        if isinstance(child, OperatorTree):
            spans += valid(child, (*at, place))
    return spans


def materialize(tree: OperatorTree, span: Span) -> OperatorTree:
    at, i, j = span
    children = list(tree.children)
    if at:
        below = children[at[0]]
        assert isinstance(below, OperatorTree)
        children[at[0]] = materialize(below, (at[1:], i, j))
    else:
        children[i : j + 1] = [OperatorTree(tuple(children[i : j + 1]))]
    return OperatorTree(tuple(children))


def _labels(tree: OperatorTree, span: Span) -> tuple[str, ...]:
    at, i, j = span
    for place in at:
        below = tree.children[place]
        assert isinstance(below, OperatorTree)
        tree = below
    return OperatorTree(tree.children[i : j + 1]).relations


def _streams(problem: Problem) -> dict[str, tuple[QueryGraph, str]]:
    return {stream_of(relation): (query, relation) for query in problem.queries for relation in query.relations}
