"""Each query by itself: what the queries would cost if nothing were shared, and the plan of these paths put together.

Without materialized stores a query's plan is exact: given the layouts every start has its own shortest path through
the lattice, and all combinations of layouts are tried (up to LAYOUTS of them, beyond that one store at a time).
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

Kind = tuple[frozenset[Link], tuple[tuple[str, float, float], ...]]

LAYOUTS = 2000
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
        (relation, problem.passing(query.name, relation), demand.windows.get(relation, 1.0))
        for relation in sorted(query.relations)
    )


def plan_alone(problem: Problem, query: QueryGraph) -> Solution:
    return _planned_alone(problem, query, EFFORT).solution("individual", 0.0)


def _planned_alone(problem: Problem, query: QueryGraph, effort: float) -> Draft:
    alone = replace(problem, queries=(query,), storage_budget=None)
    draft = Draft(Space(alone))
    _best_flat(draft)
    if problem.materialize and len(query.relations) > 2 and alone.is_narrow(query):
        anneal(draft, inf, ITERATIONS, effort)
    return draft


def _best_flat(draft: Draft) -> None:
    space = draft.space
    for want in space.wants:
        draft.shortest(want)  # makes the moves known
    stores = [store for store in draft.streams if store in space.moves_on]
    choices = [_layouts(draft, store) for store in stores]
    if prod(len(some) for some in choices) <= LAYOUTS:
        best = min(product(*choices), key=lambda layouts: _cost(draft, dict(zip(stores, layouts, strict=True))))
        chosen = dict(zip(stores, best, strict=True))
    else:
        chosen = {store: some[0] for store, some in zip(stores, choices, strict=True)}
        for _ in range(2):
            for store, some in zip(stores, choices, strict=True):
                chosen[store] = min(some, key=lambda held, at=store: _cost(draft, {**chosen, at: held}))  # type: ignore[misc]
    _cost(draft, chosen)
    for want in space.wants:
        draft.put(want, draft.shortest(want)[1])
    draft.commit()


def _layouts(draft: Draft, store: int) -> list[tuple[int, ...]]:
    if not draft.problem.has_layouts:
        return [()]
    ends = sorted({end for move in draft.space.moves_on[store] for end in draft.space.ends[move]})
    if not ends:
        return [(draft.space.any_layout(store),)]
    most = 1 if draft.problem.layouts == "one" else len(ends)
    return [some for count in range(1, most + 1) for some in combinations(ends, count)]


def _cost(draft: Draft, layouts: dict[int, tuple[int, ...]]) -> float:
    """Of all starts by their shortest paths. They share nothing: a move belongs to one start."""
    for store, held in layouts.items():
        draft.set_layouts(store, held)
    extra = sum((len(held) - 1) * draft.space.keeping(store) for store, held in layouts.items() if len(held) > 1)
    return extra + sum(draft.shortest(want)[0] for want in draft.space.wants)
