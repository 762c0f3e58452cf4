"""Greedy: a shared plan for many queries at once, within a tenth of a second.

  1. Every want takes the path that is best for it alone.
  2. Every store takes the layout that avoids most broadcasts of the moves in use.
  3. Wants are routed again, one after the other, where a move that another path pays for is free.
  2 and 3 are repeated while the cost falls.
  4. Where there is time left, each subquery of several wants is tried as a materialized store.

No step raises the cost, so the plan is at most as expensive as the best plans of the queries by themselves would
be if they shared only what they happen to have in common.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from watersmeet.optimize.heuristic.draft_plan import Draft
from watersmeet.optimize.heuristic.neighbourhoods import try_store
from watersmeet.optimize.heuristic.numbered_problem import Space
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.solution import Solution

PASSES = 6
# Wants routed for step 4: a number, not a time, so that the same problem has the same plan. Many queries leave less.
WORK, LEAST_WORK, WORK_PER_WANT = 3000, 1200, 4


def fast(problem: Problem) -> Solution:
    started = perf_counter()
    with no_collection():
        draft = first_draft(Space(problem))
        return draft.solution("greedy", perf_counter() - started)


@contextmanager
def no_collection() -> Iterator[None]:
    """Switch the garbage collector off meanwhile: a collection can take as long as the search, and finds nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def first_draft(space: Space, *, stores: bool = True) -> Draft:
    draft = Draft(space)
    best_alone = [(want, draft.shortest(want)[1]) for want in space.wants]
    for want, path in best_alone:
        draft.put(want, path)
    improve_routes(draft)
    if stores and space.problem.materialize:
        add_stores(draft)
    draft.commit()
    return draft


def improve_routes(draft: Draft) -> None:
    for _ in range(PASSES):
        before = draft.cost
        for store in draft.streams:
            draft.choose_layouts(store)
        draft.reroute(list(draft.paths))
        if draft.cost > before * (1 - 1e-3):
            break


def add_stores(draft: Draft) -> None:
    """Tries the subqueries that most wants could use, the small ones first."""
    draft.stores = True
    space = draft.space
    for want in space.wants:
        space.route(want, True)
    tried = sorted(
        (store for store in space.wants_over if len(space.members[store]) > 1),
        key=lambda store: (-len(space.wants_over[store]) / len(space.members[store]), store),
    )
    left = max(LEAST_WORK, WORK - WORK_PER_WANT * len(space.wants))
    for store in tried:
        left -= len(space.wants_over[store]) + len(space.members[store])
        if left < 0:
            break
        try_store(draft, store)
        draft.commit()
