"""Each query by itself: what the queries would cost if nothing were shared, and the plan of these paths put together.

Without materialized stores a query's plan is exact: given the layouts every start has its own shortest path through
the lattice, and all combinations of layouts are tried (up to LAYOUTS of them and an effort FLAT, beyond that one store
at a time, and of a store with many layouts one layout at a time).
With materialized stores the exact flat plan is improved for a fixed number of iterations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations, product
from math import inf, prod
from time import perf_counter

from watersmeet.optimize.heuristic.annealing import anneal
from watersmeet.optimize.heuristic.draft_plan import Draft
from watersmeet.optimize.heuristic.numbered_problem import Space
from watersmeet.optimize.joingraph import Link, QueryGraph
from watersmeet.optimize.problem import Path, Problem, Want
from watersmeet.optimize.solution import Solution, price

Layouts = dict[int, tuple[int, ...]]  # by store
Kind = tuple[frozenset[Link], tuple[tuple[str, float, float], ...]]

LAYOUTS = 2000
FLAT = 2_000_000  # effort of a query's search for layouts: about a second
ITERATIONS = 300
EFFORT = 6_000_000  # of the searches for all queries (see `Draft.effort`); a query of eight relations takes less


def individual(problem: Problem) -> Solution:
    """The plans of all queries together. What they have in common is paid once, for `price` knows no other way.

    It has no time limit: all that it does is counted, so that a problem has the same plan on every machine."""
    started = perf_counter()
    draft = together(problem, plans_alone(problem).values())
    if not draft.fits:  # each query by itself stays within the budget, all of them do not
        flat = replace(problem, materialize=False, storage_budget=None)
        draft = together(problem, plans_alone(flat).values())
    return draft.solution("individual", perf_counter() - started)


def together(problem: Problem, plans: Iterable[Solution]) -> Draft:
    """One plan of several; of two paths to one store the first is kept. Layouts are chosen for all."""
    paths: dict[Want, Path] = {}
    for plan in plans:
        for want, path in plan.paths.items():
            paths.setdefault(want, path)
    draft = Draft(Space(problem, paths, only_known=True), stores=True)
    space = draft.space
    draft.load({space.goal(want): space.read(want, path) for want, path in paths.items() if path}, {})
    for store in [*draft.streams, *sorted(draft.users)]:
        draft.choose_layouts(store)
    draft.commit()
    return draft


def individual_cost(problem: Problem) -> float:
    """What the queries cost when each has its own steps and materialized stores. Streams are kept once, so that
    all have one placement: the one that is best for their plans together."""
    alone = plans_alone(problem)
    if not problem.has_layouts:
        return sum(alone[_kind(problem, query)].cost for query in problem.queries)
    shared = together(problem, alone.values()).solution("individual", 0.0).layouts
    total = 0.0
    for query in problem.queries:
        apart = replace(problem, queries=(query,), storage_budget=None)
        plan = alone[_kind(problem, query)]
        total += price(apart, plan.paths, {**plan.layouts, **shared}).cost
    return total


def plans_alone(problem: Problem) -> dict[Kind, Solution]:
    queries: dict[Kind, QueryGraph] = {}
    for query in sorted(problem.queries, key=lambda query: query.whole.sort_key):
        queries.setdefault(_kind(problem, query), query)
    plans: dict[Kind, Solution] = {}
    left = float(EFFORT)
    for kind, query in queries.items():  # the small ones first: what they do not use is for the others
        draft = _planned_alone(problem, query, left / (len(queries) - len(plans)))
        plans[kind] = draft.solution("individual", 0.0)
        left = max(1.0, left - draft.effort)
    return plans


def _kind(problem: Problem, query: QueryGraph) -> Kind:
    """Queries of one kind have the same plan alone."""
    demand = problem.demands.get(query.name)
    if demand is None:
        return query.links, ()
    return query.links, tuple(
        (relation, problem.wanted.passing(query.name, relation), demand.windows.get(relation, 1.0))
        for relation in sorted(query.relations)
    )


def _planned_alone(problem: Problem, query: QueryGraph, effort: float) -> Draft:
    alone = replace(problem, queries=(query,), storage_budget=None)
    draft = Draft(Space(alone))
    _best_flat(draft, min(effort, FLAT))
    if problem.materialize and len(query.relations) > 2 and alone.is_narrow(query):
        anneal(draft, inf, ITERATIONS, effort)
    return draft


def _best_flat(draft: Draft, effort: float) -> None:
    space = draft.space
    for want in space.wants:
        draft.shortest(want)  # makes the moves known
    if draft.problem.has_layouts:
        _cost(draft, _best_layouts(draft, effort))
    for want in space.wants:
        draft.put(want, draft.shortest(want)[1])
    draft.commit()


def _best_layouts(draft: Draft, effort: float) -> Layouts:
    """The best of all combinations, or where pricing them would take too long, one store after the other."""
    ends = {store: _ends(draft, store) for store in draft.streams if store in draft.space.moves_on}
    chosen = {store: some[:1] for store, some in ends.items()}
    before = draft.effort
    cost = _cost(draft, chosen)
    is_many = draft.problem.layouts == "many"
    count = prod(2 ** len(some) - 1 if is_many else len(some) for some in ends.values())
    if count <= LAYOUTS and count * (draft.effort - before) <= effort:
        choices = product(*(_sets(some, len(some) if is_many else 1) for some in ends.values()))
        return min((dict(zip(ends, held, strict=True)) for held in choices), key=lambda held: _cost(draft, held))
    for _ in range(2):
        for store, some in ends.items():
            seen = {chosen[store]}
            while draft.effort - before < effort:
                near = [held for held in _near(chosen[store], some, is_many) if held not in seen]
                seen.update(near)
                costs = {held: _cost(draft, {**chosen, store: held}) for held in near}
                best = min(near, key=costs.__getitem__, default=None)
                if best is None or costs[best] >= cost:
                    break
                chosen[store], cost = best, costs[best]
    return chosen


def _ends(draft: Draft, store: int) -> tuple[int, ...]:
    """What a store may be partitioned by."""
    found = sorted({end for move in draft.space.moves_on[store] for end in draft.space.ends[move]})
    return tuple(found) or (draft.space.any_layout(store),)


def _sets(ends: tuple[int, ...], most: int) -> list[tuple[int, ...]]:
    return [some for count in range(1, most + 1) for some in combinations(ends, count)]


def _near(held: tuple[int, ...], ends: tuple[int, ...], is_many: bool) -> list[tuple[int, ...]]:
    """What to try in place of some layouts of a store: one alone, one more, one less. These are few: a hub of 16
    relations has 32,767 sets of ends."""
    found = _sets(ends, 1)
    if is_many:
        found += [tuple(sorted((*held, end))) for end in ends if end not in held]
        found += [tuple(other for other in held if other != end) for end in held if len(held) > 1]
    return found


def _cost(draft: Draft, layouts: Layouts) -> float:
    """The cost of the shortest paths of all starts. They share nothing: a move belongs to one start."""
    for store, held in layouts.items():
        draft.set_layouts(store, held)
    extra = sum((len(held) - 1) * draft.space.keeping(store) for store, held in layouts.items() if len(held) > 1)
    return extra + sum(draft.shortest(want)[0] for want in draft.space.wants)
