"""A plan for few new queries in addition to many others, whose paths, stores and layouts do not change.

Each path of a new query is the one that adds least, given the steps that are paid for. It is found at once, however
many queries there are; what a search of all paths could save is left to the next epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from time import perf_counter

from watersmeet.optimize.heuristic.draft_plan import Draft
from watersmeet.optimize.heuristic.greedy import no_collection
from watersmeet.optimize.heuristic.numbered_problem import Space
from watersmeet.optimize.joingraph import QueryGraph, Subquery
from watersmeet.optimize.problem import Path, Problem, Want
from watersmeet.optimize.solution import Solution, allows, price

NO_END = -1  # in place of a layout by an attribute that no query nearby knows: every probe is a broadcast
Readable = Callable[[QueryGraph, Subquery], bool]  # whether a new query may read a store that is there


def kept_paths(problem: Problem, previous: Solution, staying: Collection[str]) -> dict[Want, Path]:
    """The paths of the queries that stay, and those that make the stores they read."""
    kept: dict[Want, Path] = {}

    def keep(want: Want) -> None:
        if want in kept:
            return
        kept[want] = previous.paths[want]
        for store in previous.paths[want]:
            if not store.is_stream:
                for relation in store.relations:
                    keep((relation, store))

    for query in problem.queries:
        if query.name in staying:
            for relation in query.relations:
                keep((relation, query.whole))
    return kept


def extended(problem: Problem, previous: Solution, staying: Collection[str], readable: Readable) -> Solution | None:
    """The previous plan without the queries that left, and with paths for those that are new.

    None where that is no plan: the storage budget does not allow it any more."""
    started = perf_counter()
    with no_collection():
        kept = kept_paths(problem, previous, staying)
        fresh = [query for query in problem.queries if query.name not in staying]
        added = _route(replace(problem, queries=_near(problem, fresh)), previous, fresh, staying, readable)
        used = {store for path in kept.values() for store in path if not store.is_stream}
        used.update(problem.streams)
        layouts = {store: held for store, held in previous.layouts.items() if store in used}
        layouts |= {store: held for store, held in added.layouts.items() if store not in layouts}
        solution = price(problem, {**added.paths, **kept}, layouts, searcher="incremental")
    if not allows(problem, solution):
        return None
    return replace(solution, seconds=perf_counter() - started)


def _near(problem: Problem, fresh: Sequence[QueryGraph]) -> tuple[QueryGraph, ...]:
    """The new queries and all that could share a step with them: a step stands for one equality at least."""
    links = frozenset().union(*(query.links for query in fresh))
    new = {query.name for query in fresh}
    return tuple(query for query in problem.queries if query.name in new or not links.isdisjoint(query.links))


def _route(
    part: Problem,
    previous: Solution,
    fresh: Sequence[QueryGraph],
    staying: Collection[str],
    readable: Readable,
) -> Solution:
    kept = kept_paths(part, previous, staying)
    stores = {store for path in kept.values() for store in path if not store.is_stream}
    space = Space(part, kept, only_known=True)
    draft = Draft(space)
    ends = {attribute: at for at, attribute in enumerate(space.attributes)}
    layouts = {
        space.numbers[store]: tuple(ends[end] for end in held if end in ends) or (NO_END,)
        for store, held in previous.layouts.items()
        if store in space.numbers and (store.is_stream or store in stores)
    }
    draft.load({space.goal(want): space.read(want, path) for want, path in kept.items() if path}, layouts)
    for query in fresh:
        inside = [s for s in stores if s.relations <= query.whole.relations and s.links <= query.links]
        draft.stores = bool(inside) and all(readable(query, store) for store in inside)
        for relation in query.relations if len(query.relations) > 1 else ():
            goal = space.goal((relation, query.whole))
            if goal not in draft.paths:
                draft.route(goal)
    for stream in draft.streams:
        if not draft.layouts.get(stream):
            draft.choose_layouts(stream)
    for store, held in layouts.items():
        if held == (NO_END,):
            draft.set_layouts(store, ())
    return draft.solution("incremental", 0.0)
