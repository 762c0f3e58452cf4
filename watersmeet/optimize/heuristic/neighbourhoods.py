"""Changes that a search tries on a draft. Each keeps its change if the cost stays below a limit, or takes it back.

A change removes some paths, opens or closes stores, sets layouts, and routes what has no path by what it adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from watersmeet.optimize.heuristic.draft_cost import Mark
from watersmeet.optimize.heuristic.draft_plan import Draft
from watersmeet.optimize.heuristic.numbered_problem import Goal


def try_store(draft: Draft, store: int, limit: float | None = None) -> bool:
    """Materializes a subquery, for all wants that gain by it."""
    if draft.users.get(store):
        return False
    return _change(draft, draft.mark(), (), (store,), draft.space.wants_over.get(store, ()), limit)


def try_without(draft: Draft, store: int, limit: float | None = None) -> bool:
    """Closes a materialized store."""
    on = set(draft.space.moves_on[store])
    users = [want for want, path in draft.paths.items() if not on.isdisjoint(path)]
    return _change(draft, draft.mark(), users, (), (), limit)


def try_anew(draft: Draft, wants: Sequence[Goal], stores: Iterable[int] = (), limit: float | None = None) -> bool:
    """Forgets the paths of some wants and finds them again in the given order, with some stores at hand."""
    return _change(draft, draft.mark(), wants, stores, (), limit)


def try_layouts(
    draft: Draft, store: int, layouts: tuple[int, ...], stores: Iterable[int] = (), limit: float | None = None
) -> bool:
    """Gives a store other layouts, and every want that could probe it a path that fits them."""
    mark = draft.mark()
    draft.set_layouts(store, layouts)
    affected = [want for want in draft.space.wants_over[store] if want in draft.paths]
    return _change(draft, mark, affected, stores, (), limit)


def _change(
    draft: Draft,
    mark: Mark,
    forgotten: Sequence[Goal],
    stores: Iterable[int],
    gaining: Iterable[Goal],
    limit: float | None,
) -> bool:
    opened = [store for store in stores if not draft.users.get(store)]
    for want in forgotten:
        if want in draft.paths:
            draft.remove(want)
    for store in opened:
        draft.pin(store)
    draft.settle()
    for want in forgotten:
        if want not in draft.paths and (want in draft.asked or draft.users.get(want[1])):
            draft.route(want)
    draft.reroute(gaining)
    for store in opened:
        draft.unpin(store)
    if draft.problem.has_layouts:
        # Layouts that do not fit the new paths cost more than anything else: they follow at once, then the paths again.
        probed = draft.space.probed
        touched = {probed[move]: None for want in forgotten for move in draft.paths.get(want, ())}
        touched |= dict.fromkeys(store for store in opened if draft.users.get(store))
        for store in touched:
            before = draft.layouts.get(store)
            draft.choose_layouts(store)
            if before and draft.layouts[store] != before:
                draft.reroute(draft.space.wants_over[store])
    if draft.cost <= (mark[1] * (1 - 1e-9) if limit is None else limit) and draft.fits:
        return True
    draft.back(mark)
    return False
