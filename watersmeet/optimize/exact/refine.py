"""A plan made better part by part: the integer program of a few queries at a time, all others as they are.

Where the whole program is too large for the time there is, the program of some neighbouring queries, with the layouts
of their streams free, still takes well under a second. Rounds that end early let the next one take more queries.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Sequence

from watersmeet.optimize.exact.program import Program
from watersmeet.optimize.exact.solver import Solver

ROUND = 0.5  # seconds that one round should take at most


def refine(
    program: Program, values: Sequence[float], end: float, goal: float, solver: Solver
) -> tuple[list[float], bool]:
    """Values that cost no more: the best found until time `end`, or `goal` is reached, or a round had all queries.

    In the last case they are proven to be the best of all, which is the second value."""
    near = _neighbours(program)
    rng = random.Random(0)
    best = list(values)
    together = 1.0
    waiting: list[int] = []
    enough = goal + 1e-7 * abs(goal)
    while program.model.cost(best) > enough and (left := end - time.monotonic()) > 0.01:
        waiting = waiting or rng.sample(sorted(near), len(near))
        chosen = _grown(waiting.pop(), near, round(together), rng)
        best, optimal = _round(program, best, _free(program, chosen, best), min(left, ROUND), solver)
        if optimal and len(chosen) == len(near):
            return best, True
        if optimal:
            waiting = [query for query in waiting if query not in chosen]
        together = max(1.0, min(len(near), together * (1.1 if optimal else 0.8)))
    return best, False


def rounded(
    program: Program, values: Sequence[float], relaxed: Sequence[float], end: float, solver: Solver
) -> list[float]:
    """A solution with the layouts of streams that the relaxation prefers, each query in turn made the best of them."""
    fixed = set()
    best = list(values)
    for s, store in enumerate(program.lattice.stores):
        columns = [program.x[s, a] for a in range(len(store.layouts)) if (s, a) in program.x and store.is_stream]
        if columns:
            preferred = max(columns, key=lambda column: (relaxed[column], -column))
            fixed.update(columns)
            for column in columns:
                best[column] = 1.0 if column == preferred else 0.0
    best = program.values(*program.plan(best)) or list(values)
    for query in sorted(_neighbours(program)):
        if (left := end - time.monotonic()) > 0:
            free = [column for column in _free(program, {query}, best) if column not in fixed]
            best, _ = _round(program, best, free, min(left, ROUND), solver)
    return best


def _round(
    program: Program, best: list[float], free: Sequence[int], seconds: float, solver: Solver
) -> tuple[list[float], bool]:
    """The best values for the free variables, and whether they are proven to be."""
    part, given = program.model.with_only(free, best), [best[column] for column in free]
    answer = solver(part, seconds, given)
    if answer.values is not None and answer.objective < part.cost(given) - 1e-9 and part.fits(answer.values):
        better = list(best)
        for column, value in zip(free, answer.values, strict=True):
            better[column] = value
        # As paths again: what the solver divided or left lying around would stay fixed in later rounds.
        best = program.values(*program.plan(better)) or best
    return best, answer.optimal


def _neighbours(program: Program) -> dict[int, set[int]]:
    """For each query those that it shares a store with."""
    near: dict[int, set[int]] = defaultdict(set)
    for store in program.lattice.stores:
        for query in program.lattice.homes[store.subquery]:
            near[query] |= program.lattice.homes[store.subquery]
    return near


def _grown(query: int, near: dict[int, set[int]], count: int, rng: random.Random) -> set[int]:
    chosen, border = {query}, set(near[query])
    while len(chosen) < count and (border := border - chosen):
        query = rng.choice(sorted(border))
        chosen.add(query)
        border |= near[query]
    return chosen


def _free(program: Program, queries: set[int], values: Sequence[float]) -> list[int]:
    """The variables to decide again: those of the queries, and what other queries pay for their streams' layouts."""
    lattice = program.lattice
    inside = {sub for sub, homes in lattice.homes.items() if homes & queries}
    stores = {s for s, store in enumerate(lattice.stores) if store.subquery in inside}
    free = [program.m[s] for s in stores if s in program.m]
    free += [column for (s, _), column in program.x.items() if s in stores]
    moves = {i for i, move in enumerate(lattice.moves) if lattice.nodes[move.target][1] in inside}
    free += [program.y[i] for i in moves] + [program.v[i] for i in moves if i in program.v]
    free += [column for (s, _), column in program.z.items() if s in stores]
    free += [column for (s, _), column in program.l.items() if s in stores] + list(program.e.values())
    free += [
        column
        for i, column in program.b.items()
        if i in moves or (lattice.moves[i].store in stores and values[program.y[i]] > 0.5)
    ]
    wants = {w for w, want in enumerate(lattice.wants) if want.subquery in inside}
    free += [column for (w, _), column in program.f.items() if w in wants]
    return sorted(free)
