"""Anytime search from any plan: change a part, keep the change by simulated annealing, remember the best plan.

The parts are those of `neighbourhoods`: a materialized store more or less, other layouts of a store, the paths of a
query found anew. The same seed and number of iterations give the same plan.
"""

from __future__ import annotations

import math, collections
import random
from time import perf_counter

from watersmeet.optimize.draft import Draft
from watersmeet.optimize.fast import first_draft
from watersmeet.optimize.neighbourhoods import try_anew, try_layouts, try_store, try_without
from watersmeet.optimize.problem import Problem, Solution
from watersmeet.optimize.space import Goal, Space

WARM = 0.006  # the first temperature, as a share of the cost


def improve(
    problem: Problem,
    time_limit: float = 10.0,
    *,
    start: Solution | None = None,
    iterations: int | None = None,
    seed: int = 0,
) -> Solution:
    """A plan at most as expensive as `start`, or the greedy one. Ends by time, and by iterations if given."""
    started = perf_counter()
    if start is None:
        draft = first_draft(Space(problem))
    else:
        draft = Draft(Space(problem))
        draft.adopt(start)
    anneal(draft, started + time_limit, iterations, seed)
    return draft.solution("improve", perf_counter() - started)


def anneal(draft: Draft, deadline: float, iterations: int | None = None, seed: int = 0) -> None:
    """Leaves the draft at the best plan that it was at."""
    chance = random.Random(seed)
    choices = Choices(draft)
    best, best_cost = (dict(draft.paths), dict(draft.layouts)), draft.cost
    began = perf_counter()
    done = 0
    while choices.any:
        share = (perf_counter() - began) / max(1e-9, deadline - began)
        if iterations is not None:
            share = max(done / iterations, share if share >= 1 else 0.0)
        if share >= 1:
            break
        done += 1
        temperature = WARM * best_cost * (1 - share) ** 2
        limit = draft.cost - temperature * math.log(1 - chance.random())
        choices.step(chance, limit)
        draft.commit()
        if draft.cost < best_cost * (1 - 1e-9):
            best, best_cost = (dict(draft.paths), dict(draft.layouts)), draft.cost
    draft.load(*best)


class Choices:
    """What may be changed in a draft."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        space = draft.space
        draft.stores = space.problem.materialize
        self.together: list[list[Goal]] = [
            [(space.number[start], query.subs[-1]) for start in query.relations]
            for query in space.queries
            if len(query.relations) > 1
        ]
        for want in space.wants:
            space.route(want, draft.stores)
        self.results = [store for store in sorted(space.wants_over) if len(space.members[store]) > 1]
        self.within = [
            [sub for sub in query.subs[len(query.relations) : -1] if sub in space.wants_over] for query in space.queries
        ]
        self.inside = collections.defaultdict(list)
        for query, w in zip(space.queries, self.within):
            self.inside[query.subs[-1]] = w
        self.ends: dict[int, list[int]] = {}
        if space.problem.has_layouts:
            for store in sorted(space.wants_over):
                ends = sorted({end for move in space.moves_on[store] for end in space.ends[move]})
                if len(ends) > 1:
                    self.ends[store] = ends
        self.placed = [store for store in self.ends if len(space.members[store]) == 1]
        self.any = bool(self.together)

    def step(self, chance: random.Random, limit: float) -> bool:
        draft = self.draft
        kind = chance.random()
        if kind < 0.35 and self.results:
            store = chance.choice(self.results)
            if draft.users.get(store):
                return try_without(draft, store, limit)
            return try_store(draft, store, limit)
        if kind < 0.6 and self.placed:
            store = chance.choice(self.placed)
            start, sub = chance.choice(draft.space.wants_over[store])
            near = self.inside[sub]
            stores = chance.sample(near, min(len(near), chance.randrange(3)))
            return try_layouts(draft, store, self._other_layouts(chance, store), stores, limit)
        at = chance.randrange(len(self.together))
        wants = chance.sample(self.together[at], len(self.together[at]))
        inside = self.within[at]
        stores = chance.sample(inside, min(len(inside), chance.randrange(3))) if draft.stores else []
        return try_anew(draft, wants, stores, limit)

    def _other_layouts(self, chance: random.Random, store: int) -> tuple[int, ...]:
        now = self.draft.layouts.get(store, ())
        end = chance.choice([end for end in self.ends[store] if end not in now] or self.ends[store])
        if self.draft.problem.layouts == "one" or chance.random() < 0.5:
            return (end,)
        return (*now, end)
