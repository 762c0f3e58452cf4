"""The cheapest plan of a small problem by looking at all, from the definition of a plan and without the lattice.

For all sets of materialized stores and all layouts: every choice of paths. Paths of different starts have no step in
common, so the cheapest choice is looked for among the paths of one start at a time; where indexes and phases have a
price, for each set of indexes and of stores that paths wait for. `price()` has the last word."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations, product

from watersmeet.optimize.joingraph import Attribute, Link, QueryGraph, Subquery, end_in, links_between, store_of
from watersmeet.optimize.problem import Path, Problem, Want
from watersmeet.optimize.solution import Move, Solution, moves_of, price

Layouts = dict[Subquery, tuple[Attribute, ...]]
Used = dict[Move, list[Want]]  # steps, and the wants whose paths take them
Choice = tuple[Used, dict[Want, Path]]


def cheapest(problem: Problem) -> Solution:
    best: tuple[float, dict[Want, Path], Layouts] = (float("inf"), {}, {})
    for materialized in _subsets(problem.materializable):
        choices = _choices(problem, materialized)
        for layouts in _layouts(problem, materialized):
            stored = {store: problem.stored(store) * len(layouts.get(store, (None,))) for store in _stores(problem)}
            kept = sum(problem.keeping(store) * (len(layouts.get(store, (None,))) - 1) for store in stored)
            for store in materialized:
                stored[store] = problem.stored(store) * len(layouts.get(store, (None,)))
                kept += problem.keeping(store) * len(layouts.get(store, (None,)))
            if problem.storage_budget is not None and sum(stored.values()) > problem.storage_budget:
                continue
            for chosen in product(*(_worthwhile(problem, of_start, layouts) for of_start in choices)):
                paths = {want: path for _, _, of_start in chosen for want, path in of_start.items()}
                indexes = frozenset().union(*(indexes for _, indexes, _ in chosen))
                total = kept + sum(cost for cost, _, _ in chosen)
                total += sum(problem.indexing(store) for store, _ in indexes)
                if total < best[0]:
                    total += problem.phases(_phases(paths))
                best = min(best, (total, paths, layouts), key=lambda plan: plan[0])
    solution = price(problem, best[1], best[2])
    assert abs(solution.cost - best[0]) <= 1e-9 * (1 + best[0])
    return solution


Option = tuple[float, frozenset[tuple[Subquery, frozenset[Attribute]]], dict[Want, Path]]


def _worthwhile(problem: Problem, choices: list[Choice], layouts: Layouts) -> list[Option]:
    """Of the choices that need the same indexes and wait for the same stores, the cheapest one."""
    best: dict[object, Option] = {}
    for used, paths in choices:
        cost, indexes = 0.0, set()
        for move, wants in used.items():
            known = list(links_between(move.joined.links, move.node[1].relations, move.store.relations))
            of_step = _cost(problem, move, known, wants, layouts)
            cost += of_step
            ends = frozenset(end_in(move.store, link) for link in known if link.theta is None)
            if ends and problem.weights.index_entry:
                indexes.add((store_of(move.store), ends))
        waits = {want: frozenset(s for s in path if len(s) > 1) for want, path in paths.items()}
        kind = (frozenset(indexes), tuple(sorted(waits.items(), key=str)) if problem.weights.phase else None)
        if kind not in best or cost < best[kind][0]:
            best[kind] = cost, kind[0], paths
    return list(best.values())


def _phases(paths: dict[Want, Path]) -> int:
    """By the definition: a row of a store that a tick adds is there once the phase that makes it has ended."""

    def before(relation: str, start: str) -> bool:
        return (relation.split("@", maxsplit=1)[0], int((relation + "@1").split("@")[1])) < (
            start.split("@", maxsplit=1)[0],
            int((start + "@1").split("@")[1]),
        )

    def phase(want: Want) -> int:
        start, latest = want[0], 0
        for store in paths[want]:
            if len(store) > 1 and any(before(relation, start) for relation in store.relations):
                latest = max(latest, *(phase((relation, store)) for relation in store.relations))
        return 1 + latest

    return max(map(phase, paths), default=1)


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


def _cost(problem: Problem, move: Move, known: list[Link], wants: list[Want], layouts: Layouts) -> float:
    step = problem.step(move.node, move.store, move.joined, known)
    most = max(
        step.probing * problem.wanted.share(want, move.node[1])
        + step.matching * problem.wanted.share(want, move.joined)
        for want in wants
    )
    copies = problem.copies(move.store, known, layouts.get(store_of(move.store), ()))
    if any(link.theta is None for link in known):
        most += step.probing * (copies - 1) * problem.wanted.most(move.node, move.joined)
    return most + step.fixed


def _choices(problem: Problem, materialized: tuple[Subquery, ...]) -> list[list[Choice]]:
    """For each start all choices of paths for its wants, as the steps that they have together."""
    wants = dict.fromkeys(problem.wants) | {(start, sub): None for sub in materialized for start in sub.relations}
    result = []
    for start in sorted({start for start, _ in wants}):
        options = []
        for want in (want for want in wants if want[0] == start):
            query = problem.host(want[1])
            options.append([(want, path, moves_of(want, path, query)) for path in _paths(*want, query, materialized)])
        of_start: list[Choice] = []
        for chosen in product(*options):
            used: Used = {}
            for want, _, steps in chosen:
                for move in steps:
                    used.setdefault(move, []).append(want)
            of_start.append((used, {want: path for want, path, _ in chosen}))
        result.append(of_start)
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
