"""Anytime search from any plan: change a part, keep the change by simulated annealing, remember the best plan.

The parts are those of `neighbourhoods`: a materialized store more or less, other layouts of a store, the paths of a
query searched again. The same limits give the same plan, unless the time is one of them.
"""

from __future__ import annotations

import math
import random
from math import inf
from time import perf_counter

from watersmeet.optimize.heuristic.draft_plan import Draft
from watersmeet.optimize.heuristic.greedy import first_draft
from watersmeet.optimize.heuristic.neighbourhoods import try_anew, try_layouts, try_store, try_without
from watersmeet.optimize.heuristic.numbered_problem import Goal, Space
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.solution import Solution

WARM = 0.006  # the first temperature, as a share of the cost


def improve(
    problem: Problem,
    time_limit: float = 10.0,
    *,
    start: Solution | None = None,
    iterations: int | None = None,
    effort: float = inf,
) -> Solution:
    """A plan at most as expensive as `start`, or the greedy one. Ends by time, and by iterations and effort if given:
    without a limit of time it is the same on every machine."""
    started = perf_counter()
    if start is None:
        draft = first_draft(Space(problem))
    else:
        draft = Draft(Space(problem, start.paths))
        draft.adopt(start)
    anneal(draft, started + time_limit, iterations, effort)
    return draft.solution("improve", perf_counter() - started)


def anneal(draft: Draft, deadline: float, iterations: int | None = None, effort: float = inf) -> None:
    """Leaves the draft at the best plan that it was at. `effort` is that of `Draft.effort`."""
    chance = random.Random(0)
    choices = Choices(draft)
    best, best_cost = (dict(draft.paths), dict(draft.layouts)), draft.cost
    began, first = perf_counter(), draft.effort
    done = 0
    while choices.any:
        share = (perf_counter() - began) / max(1e-9, deadline - began)
        if iterations is not None:
            share = max(done / iterations, share if share >= 1 else 0.0)
        share = max(share, (draft.effort - first) / effort)
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
        for want in space.wants:
            space.route(want, draft.stores)
        self.results = [store for store in sorted(space.wants_over) if len(space.members[store]) > 1]
        self.queries: list[list[Goal]] = []
        self.inside: dict[int, list[int]] = {}  # whole query -> what may be materialized for it
        for query in space.queries:
            whole, streams = query.subs[-1], len(query.relations)
            if streams > 1:
                self.queries.append([(space.number[start], whole) for start in query.relations])
                self.inside[whole] = [sub for sub in query.subs[streams:-1] if sub in space.wants_over]
        self.ends: dict[int, list[int]] = {}  # streams for which there is a choice of layouts
        for store in draft.streams if space.problem.has_layouts else ():
            ends = sorted({end for move in space.moves_on.get(store, ()) for end in space.ends[move]})
            if len(ends) > 1:
                self.ends[store] = ends
        self.placed = list(self.ends)
        self.any = bool(self.queries)

    def step(self, chance: random.Random, limit: float) -> bool:
        """One change at random; it stays if the cost is at most the limit."""
        draft = self.draft
        kind = chance.random()
        if kind < 0.35 and self.results:
            store = chance.choice(self.results)
            return try_without(draft, store, limit) if draft.users.get(store) else try_store(draft, store, limit)
        if kind < 0.6 and self.placed:
            store = chance.choice(self.placed)
            _, near = chance.choice(draft.space.wants_over[store])
            return try_layouts(draft, store, self._other_layouts(chance, store), self._some(chance, near), limit)
        wants = chance.choice(self.queries)
        return try_anew(draft, chance.sample(wants, len(wants)), self._some(chance, wants[0][1]), limit)

    def _some(self, chance: random.Random, whole: int) -> list[int]:
        inside = self.inside.get(whole, [])
        return chance.sample(inside, min(len(inside), chance.randrange(3)))

    def _other_layouts(self, chance: random.Random, store: int) -> tuple[int, ...]:
        now = self.draft.layouts.get(store, ())
        others = [end for end in self.ends[store] if end not in now]
        if not others or (len(now) > 1 and chance.random() < 0.5):
            return tuple(end for end in now if end != now[chance.randrange(len(now))]) or now
        end = chance.choice(others)
        return (end,) if self.draft.problem.layouts == "one" or chance.random() < 0.5 else (*now, end)
