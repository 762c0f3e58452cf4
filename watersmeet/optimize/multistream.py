"""MultiStream's plans: every query by itself, as a tree of multi-way joins whose inner results are stored.

*flat* has no inner results, *left-deep* stores every prefix of one order of the relations (a cascade of binary joins),
*chain* stores as many neighbouring results of a linear query as the budget allows. Probe orders are greedy (Fig. 4).
Where queries have steps or stores in common, these are paid once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from time import perf_counter

from watersmeet.errors import ModelError
from watersmeet.optimize.costs import Tree
from watersmeet.optimize.heuristic.individual import together
from watersmeet.optimize.joingraph import QueryGraph, Subquery, stream_of
from watersmeet.optimize.problem import Path, Problem, Solution, Want, price

Child = Tree | str
Size = Callable[[frozenset[str]], float]


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
    """Streams only."""
    return _plan(problem, "flat", lambda query: Tree(tuple(sorted(query.relations))))


def left_deep(problem: Problem, time_limit: float = inf) -> Solution:
    """One order of the relations for each query, every prefix a store."""
    if not problem.materialize and any(len(query.relations) > 2 for query in problem.queries):
        raise ModelError("a left-deep plan stores intermediate results", hint="use the searcher flat, or materialize")
    return _plan(problem, "left-deep", lambda query: left_deep_tree(problem, query))


def chain(problem: Problem, time_limit: float = inf) -> Solution:
    """Fig. 7 for each query. The budget is that of all of them: one query after the other takes what is left."""
    spent = sum(problem.size(query.within(frozenset((r,)))) for query, r in _streams(problem).values())
    budget = inf if problem.storage_budget is None else problem.storage_budget
    stored: set[Subquery] = set()

    def tree_of(query: QueryGraph) -> Tree:
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

    return _plan(problem, "chain", tree_of)


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


def chain_tree(relations: Sequence[str], size: Callable[[tuple[str, ...]], float], budget: float) -> Tree:
    """Fig. 7: from the flat tree on, the cheapest result of neighbours is stored while the budget lasts."""
    tree = Tree(tuple(relations))
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


def valid(tree: Tree, at: tuple[int, ...] = ()) -> list[Span]:
    """Neighbouring children of an operator that may become an operator of their own: two or more, but not all."""
    count = len(tree.children)
    spans = [(at, i, j) for i in range(count) for j in range(i + 1, count) if j - i + 1 < count]
    for place, child in enumerate(tree.children):
        if isinstance(child, Tree):
            spans += valid(child, (*at, place))
    return spans


def materialize(tree: Tree, span: Span) -> Tree:
    at, i, j = span
    children = list(tree.children)
    if at:
        below = children[at[0]]
        assert isinstance(below, Tree)
        children[at[0]] = materialize(below, (at[1:], i, j))
    else:
        children[i : j + 1] = [Tree(tuple(children[i : j + 1]))]
    return Tree(tuple(children))


def _labels(tree: Tree, span: Span) -> tuple[str, ...]:
    at, i, j = span
    for place in at:
        below = tree.children[place]
        assert isinstance(below, Tree)
        tree = below
    return Tree(tree.children[i : j + 1]).relations


def left_deep_tree(problem: Problem, query: QueryGraph) -> Tree:
    """The order with the least cost where no probe is a broadcast, by dynamic programming over connected sets.

    The join of a prefix M with r costs |M| for its members' tuples, |r| for r's, and |M| for storing it."""
    best: dict[frozenset[str], tuple[float, tuple[str, ...]]] = {
        frozenset((relation,)): (0.0, (relation,)) for relation in query.relations
    }
    for joined in query.connected:
        if len(joined) == len(query.relations):
            continue
        cost, order = best[joined.relations]
        held = problem.size(joined) * (1 if joined.is_stream else 1 + problem.keeping)
        for relation in sorted(query.reachable(joined.relations)):
            found = cost + held + problem.size(query.within(frozenset((relation,)))), (*order, relation)
            larger = joined.relations | {relation}
            best[larger] = min(best.get(larger, found), found)
    order = best[frozenset(query.relations)][1]
    tree: Child = order[0]
    for relation in order[1:]:
        tree = Tree((tree, relation))
    return tree if isinstance(tree, Tree) else Tree((tree,))


def paths_of(problem: Problem, query: QueryGraph, tree: Tree) -> dict[Want, Path]:
    """A path for each relation to the result of each operator: to its child of the operator, then greedily on."""
    paths: dict[Want, Path] = {}
    inputs = [frozenset((child,) if isinstance(child, str) else child.relations) for child in tree.children]
    for child in tree.children:
        if isinstance(child, Tree):
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


def _plan(problem: Problem, name: str, tree_of: Callable[[QueryGraph], Tree]) -> Solution:
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


def _streams(problem: Problem) -> dict[str, tuple[QueryGraph, str]]:
    return {stream_of(relation): (query, relation) for query in problem.queries for relation in query.relations}
