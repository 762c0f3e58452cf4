"""The entry point of the optimizer: takes a problem, returns the best plan found within the time limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, isclose
from time import perf_counter

from watersmeet.errors import ModelError
from watersmeet.optimize.exact.search import exact
from watersmeet.optimize.heuristic.annealing import improve
from watersmeet.optimize.heuristic.greedy import fast
from watersmeet.optimize.heuristic.individual import individual
from watersmeet.optimize.operator_trees import flat, left_deep
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.solution import Solution, price

FEW_WANTS = 40  # for so few, the queries' own best plans are found as soon as the greedy plan is


def greedy(problem: Problem) -> Solution:
    """The greedy plan, or the queries' own best plans put together, should these be cheaper.

    It has no time limit: all that it does is counted, so that a problem has the same plan on every machine."""
    plan = fast(problem)
    if len(problem.wants) > FEW_WANTS:
        return plan
    apart = individual(problem)
    best = min(plan, apart, key=lambda solution: solution.cost)
    return replace(best, searcher="greedy", seconds=plan.seconds + apart.seconds)


searchers: dict[str, Callable[[Problem, float], Solution]] = {
    "exact": lambda problem, limit: exact(problem, time_limit=limit, start=greedy(problem)),
    "greedy": lambda problem, limit: greedy(problem),
    "improve": lambda problem, limit: improve(problem, limit, start=greedy(problem)),
    "flat": flat,
    "left-deep": left_deep,
    "individual": lambda problem, limit: individual(problem),
}

SHARE_OF_IMPROVE = 0.5  # of the time; a proof is tried afterwards
ITERATIONS_PER_WANT = 200  # small problems are proven sooner than the time to improve them is over
EFFORT = 3_000_000  # where a better plan is waited for (see `Draft.effort`): a second or two


def optimize(problem: Problem, *, searcher: str | None = None, time_limit: float = 10.0) -> Solution:
    """The plan of one searcher; without a name, a greedy plan that is improved, and then perhaps proven optimal."""
    check(problem)
    if searcher is None:
        solution = _in_turn(problem, time_limit)
    elif searcher in searchers:
        solution = searchers[searcher](problem, time_limit)
    else:
        raise ModelError(f"unknown searcher {searcher}", hint=f"use one of {', '.join(searchers)}")
    verify(problem, solution)
    return solution


def _in_turn(problem: Problem, time_limit: float) -> Solution:
    started = perf_counter()
    first = fast(problem)
    better = improve(
        problem,
        (time_limit - (perf_counter() - started)) * SHARE_OF_IMPROVE,
        start=first,
        iterations=ITERATIONS_PER_WANT * len(problem.wants),
    )
    proven = exact(problem, time_limit=time_limit - (perf_counter() - started), start=better)
    return proven if proven.cost <= better.cost * (1 + 1e-9) else better


def improved(problem: Problem) -> Solution:
    """The greedy plan, improved by an effort that is counted: a problem has the same plan on every machine."""
    check(problem)
    iterations = ITERATIONS_PER_WANT * len(problem.wants)
    solution = improve(problem, inf, start=greedy(problem), iterations=iterations, effort=EFFORT)
    verify(problem, solution)
    return solution


def check(problem: Problem) -> None:
    """Rejects queries for which no plan exists, with a hint."""
    for query in problem.queries:
        reached = frozenset(query.relations[:1])
        while more := query.reachable(reached):
            reached |= more
        apart = sorted(set(query.relations) - reached)
        if apart:
            raise ModelError(
                f"query {query.name} is not connected: nothing compares {', '.join(apart)} to the rest",
                hint="add an equality between them, or split it into two queries",
            )


def verify(problem: Problem, solution: Solution) -> None:
    """A plan must answer every query, produce what it probes, keep to the settings, and cost what it says."""
    for start, subquery in problem.wants:
        assert (start, subquery) in solution.paths, f"no path from {start} to {subquery}"
    for store in solution.materialized:
        assert problem.materialize, f"{store} is materialized"
        for start in store.relations:
            assert (start, store) in solution.paths, f"{store} is probed, but no path from {start} produces it"

    for store, held in solution.layouts.items():
        assert len(held) <= 1 or problem.layouts == "many", f"several layouts of {store}"
    again = price(problem, solution.paths, solution.layouts)
    assert isclose(again.cost, solution.cost, rel_tol=1e-9, abs_tol=1e-9), "the cost is not that of the plan"
    assert solution.storage <= (inf if problem.storage_budget is None else problem.storage_budget) * (1 + 1e-9)
