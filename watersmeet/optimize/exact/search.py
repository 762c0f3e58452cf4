"""The exact searcher: an integer program for each independent part of the problem, within a time limit.

Whatever happens to the solver, the plan returned is complete and not worse than the one given as a start. Queries that
are not narrow keep the paths of the start: their programs would have millions of variables.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from watersmeet.optimize.exact.lattice import components, lattice_of
from watersmeet.optimize.exact.layout_tables import Tightened, tightened
from watersmeet.optimize.exact.program import Layouts, Paths, Program
from watersmeet.optimize.exact.refine import refine, rounded
from watersmeet.optimize.exact.solver import Solver, solve_highs
from watersmeet.optimize.joingraph import QueryGraph
from watersmeet.optimize.problem import Path, Problem, Want
from watersmeet.optimize.solution import Solution, allows, price

TABLES = 0.4  # share of the time to make the whole program tighter
WHOLE = 0.5  # share of the time in which the whole program is tried, before its parts
LARGE = 6000  # variables of a program that its own search would hardly begin to divide in seconds
TOLERANCE = 1e-6  # relative, between the solver's arithmetic and ours


def exact(
    problem: Problem,
    *,
    time_limit: float = 10.0,
    start: Solution | None = None,
    solver: Solver = solve_highs,
) -> Solution:
    """The cheapest plan, or the best one found in time_limit seconds; the search ends once it is proven.

    Of the plan's `bound` is known that no plan costs less."""
    began = time.monotonic()
    first = start if start is not None and allows(problem, start) else simple_plan(problem)
    wide = tuple(query for query in problem.queries if not problem.is_narrow(query))
    plan, bound = first, 0.0
    if len(wide) < len(problem.queries):
        plan, bound = _by_parts(
            problem, wide, first, began + time_limit, lambda part, seconds: _solve(part, first, seconds, solver)
        )
    return replace(plan, searcher="exact", bound=min(bound, plan.cost), seconds=time.monotonic() - began)


def _by_parts(
    problem: Problem,
    wide: Sequence[QueryGraph],
    first: Solution,
    end: float,
    solve: Callable[[Problem, float], Solution],
) -> tuple[Solution, float]:
    """The plan, and a bound: that of a part of the queries is one for all."""
    narrow = problem
    paths: Paths = {}
    layouts: Layouts = {}
    if wide:
        narrow = replace(problem, queries=tuple(filter(problem.is_narrow, problem.queries)), larger=problem)
        kept = _restricted(first, replace(problem, queries=tuple(wide), storage_budget=None, larger=problem))
        paths, layouts = dict(kept.paths), dict(kept.layouts)
    parts = sorted(components(narrow), key=_weight)
    clock = _Clock(end, [_weight(part) for part in parts])
    solved = [solve(part, clock.share()) for part in parts]
    for solution in solved:
        paths |= solution.paths
        layouts |= solution.layouts
    bound = sum(solution.bound for solution in solved)
    plan = price(problem, paths, layouts)
    if problem.storage_budget is not None and plan.storage > problem.storage_budget * (1 + 1e-9):
        if wide:
            return first, bound
        # Without the budget the parts are independent and often stay below it; only if not, all must be solved as one.
        plan = solve(problem, end - time.monotonic())
        return plan, max(bound, plan.bound)
    return (first if wide and first.cost < plan.cost else plan), bound


def simple_plan(problem: Problem) -> Solution:
    """A plan without a search: streams only, in the order of their names as far as equalities lead, first layouts."""
    paths: dict[Want, Path] = {}
    for start, subquery in problem.wants:
        query = problem.host(subquery)
        joined, path = frozenset((start,)), []
        while joined != subquery.relations:
            following = min(query.reachable(joined) & subquery.relations)
            path.append(query.within(frozenset((following,))))
            joined |= {following}
        paths[start, subquery] = tuple(path)
    streams = problem.streams if problem.has_layouts else ()
    return price(problem, paths, {stream: problem.layout_candidates(stream)[:1] for stream in streams})


def _weight(part: Problem) -> float:
    return sum(2.0 ** len(query.relations) for query in part.queries)


class _Clock:
    """Deals out the time that is left: to each part by its weight, and what one does not use to those after it."""

    def __init__(self, end: float, weights: Sequence[float]) -> None:
        self.end = end
        self.weights = list(weights)

    def share(self) -> float:
        total = sum(self.weights)
        return (self.end - time.monotonic()) * self.weights.pop(0) / total


def _solve(part: Problem, start: Solution, seconds: float, solver: Solver) -> Solution:
    end = time.monotonic() + seconds
    known = _restricted(start, part)
    program = Program(part, lattice_of(part))
    values = program.values(known.paths, known.layouts)
    tight = Tightened(program, [])
    if solver is solve_highs:  # it makes the tables, and is not to be loaded beside another one
        tight = tightened(part, program, end - (1 - TABLES) * seconds)
    bound, optimal = tight.bound, False
    if tight.relaxed is None or len(program.model.objective) < LARGE:
        given = tight.extended(values) if values is not None else None
        answer = solver(tight.model, WHOLE * (end - time.monotonic()), given)
        bound, optimal = max(bound, answer.bound), answer.optimal
        if answer.values is not None and tight.model.fits(answer.values):
            values = answer.values[: len(program.model.objective)]
    if bound <= 0 and time.monotonic() < end:
        bound = _bound_without_broadcasts(part, end, solver)
    if values is None:
        return replace(known, bound=max(0.0, min(bound, known.cost)))
    if not optimal and tight.relaxed is not None:
        values = min(values, rounded(program, values, tight.relaxed, end, solver), key=program.model.cost)
    if not optimal:
        values, optimal = refine(program, values, end, bound, solver)
        bound = program.model.cost(values) if optimal else bound
    found, objective = price(part, *program.plan(values)), program.model.cost(values)
    slack = TOLERANCE * (1 + abs(found.cost))
    assert found.cost <= objective + slack, f"a plan costs {found.cost}, its program {objective}"
    assert not optimal or found.cost >= objective - slack, f"a plan costs {found.cost}, the best {objective}"
    best = found if found.cost <= known.cost else known
    return replace(best, bound=max(0.0, min(bound, best.cost)))


def _bound_without_broadcasts(part: Problem, end: float, solver: Solver) -> float:
    """A bound where not even the relaxation of the program was solved in time: if every layout were known everywhere,
    queries would fall into smaller parts, whose relaxations are quickly solved."""
    bound = 0.0
    for smaller in components(replace(part, layouts="ignored", storage_budget=None)):
        model = Program(smaller, lattice_of(smaller)).model
        model.integer = [False] * len(model.integer)
        answer = solver(model, 0.3 * (end - time.monotonic()), None)
        bound += max(0.0, answer.bound) if answer.optimal else 0.0
    return bound


def _restricted(plan: Solution, part: Problem) -> Solution:
    """What a plan of the whole problem has for a part of it."""
    paths: Paths = {}
    pending = list(part.wants)
    while pending:
        want = pending.pop()
        paths[want] = path = plan.paths[want]
        for store in path:
            if not store.is_stream:
                pending += [(start, store) for start in store.relations if (start, store) not in paths]
    stores = {*part.streams, *(store for path in paths.values() for store in path)}
    layouts: Layouts = {store: held for store, held in plan.layouts.items() if store in stores}
    return price(part, paths, layouts)
