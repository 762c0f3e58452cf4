"""The cheapest plan of a small problem by looking at all, from the definition of a plan and without the lattice.

For all sets of materialized stores and all layouts: every choice of paths. Paths of different starts have no step in
common, so the cheapest choice is looked for among the paths of one start at a time. `price()` has the last word."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations, product

from watersmeet.optimize.joingraph import Attribute, QueryGraph, Subquery, links_between, store_of
from watersmeet.optimize.problem import Move, Path, Problem, Solution, Want, moves_of, price

Layouts = dict[Subquery, tuple[Attribute, ...]]
Choice = tuple[frozenset[Move], dict[Want, Path]]


def cheapest(problem: Problem) -> Solution:
    best: tuple[float, dict[Want, Path], Layouts] = (float("inf"), {}, {})
    for materialized in _subsets(problem.materializable):
        choices = _choices(problem, materialized)
        steps = {move for of_start in choices for moves, _ in of_start for move in moves}
        for layouts in _layouts(problem, materialized):
            stored = {store: problem.size(store) * len(layouts.get(store, (None,))) for store in _stores(problem)}
            shipping = sum(stored.values()) - sum(problem.size(store) for store in stored)
            for store in materialized:
                stored[store] = problem.size(store) * len(layouts.get(store, (None,)))
                shipping += stored[store]
            shipping *= problem.keeping
            if problem.storage_budget is not None and sum(stored.values()) > problem.storage_budget:
                continue
            costs = {move: _cost(problem, move, layouts) for move in steps}
            paths: dict[Want, Path] = {}
            total = shipping
            for of_start in choices:
                cost, number = min(
                    (sum(costs[move] for move in moves), number) for number, (moves, _) in enumerate(of_start)
                )
                total += cost
                paths |= of_start[number][1]
            best = min(best, (total, paths, layouts), key=lambda plan: plan[0])
    solution = price(problem, best[1], best[2])
    assert abs(solution.cost - best[0]) <= 1e-9 * (1 + best[0])
    return solution


def effort(problem: Problem) -> int:
    """How many sets of materialized stores with layouts there are to look at."""
    options = 1 << len(problem.materializable)
    if problem.has_layouts:
        for store in (*_stores(problem), *problem.materializable):
            candidates = len(problem.layout_candidates(store))
            options *= candidates if problem.layouts == "one" else (1 << candidates) - 1
    return options


def _stores(problem: Problem) -> set[Subquery]:
    return {store_of(Subquery(frozenset((relation,)), frozenset())) for relation in problem.relations}


def _cost(problem: Problem, move: Move, layouts: Layouts) -> float:
    known = list(links_between(move.joined.links, move.node[1].relations, move.store.relations))
    return problem.tuples(move.node) * problem.factor(move.store, known, layouts.get(store_of(move.store), ()))


def _choices(problem: Problem, materialized: tuple[Subquery, ...]) -> list[list[Choice]]:
    """For each start all choices of paths for its wants, as the steps that they have together."""
    wants = dict.fromkeys(problem.wants) | {(start, sub): None for sub in materialized for start in sub.relations}
    result = []
    for start in sorted({start for start, _ in wants}):
        options = []
        for want in (want for want in wants if want[0] == start):
            query = problem.hosts[want[1]]
            options.append([(want, path, moves_of(want, path, query)) for path in _paths(*want, query, materialized)])
        of_start: dict[frozenset[Move], dict[Want, Path]] = {}
        for chosen in product(*options):
            moves = frozenset(move for _, _, steps in chosen for move in steps)
            of_start.setdefault(moves, {want: path for want, path, _ in chosen})
        result.append(list(of_start.items()))
    return result


def _paths(start: str, goal: Subquery, query: QueryGraph, materialized: tuple[Subquery, ...]) -> Iterator[Path]:
    streams = [Subquery(frozenset((relation,)), frozenset()) for relation in sorted(goal.relations)]
    stores = streams + [sub for sub in materialized if sub == query.within(sub.relations & goal.relations)]

    def continued(joined: frozenset[str]) -> Iterator[Path]:
        if joined == goal.relations:
            yield ()
        for store in stores:
            linked = any(link.relations & joined and link.relations & store.relations for link in query.links)
            if linked and not store.relations & joined:
                for rest in continued(joined | store.relations):
                    yield (store, *rest)

    return continued(frozenset((start,)))


def _layouts(problem: Problem, materialized: tuple[Subquery, ...]) -> Iterator[Layouts]:
    if not problem.has_layouts:
        yield {}
        return
    stores = [*sorted(_stores(problem), key=str), *materialized]
    options = []
    for store in stores:
        candidates = problem.layout_candidates(store)
        most = 1 if problem.layouts == "one" else len(candidates)
        options.append([held for size in range(1, most + 1) for held in combinations(candidates, size)])
    for chosen in product(*options):
        yield dict(zip(stores, chosen, strict=True))


def _subsets(items: tuple[Subquery, ...]) -> Iterator[tuple[Subquery, ...]]:
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))
