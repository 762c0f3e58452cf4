"""The stores and keys that are probed so seldom that an index costs more than it saves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from watersmeet.optimize.joingraph import Subquery
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.solution import Index, Solution, priced
from watersmeet.plan.access import seen_in
from watersmeet.plan.ruleset import Key, ProbedStore, Ruleset, all_steps
from watersmeet.store.derived import FEWEST_ROWS, MOST_KEYS

Seldom = Mapping[Index, int]  # how many steps may look up a key that has no index
NONE_SELDOM: Seldom = {}
FEW = MOST_KEYS / 4  # partial results in a tick: it may be some times more than estimated


def seldom_probed(problem: Problem, solution: Solution) -> Seldom:
    """For each key that few partial results look up, how many steps may look it up before an index costs less than the
    passes over the store that they take without one."""
    flows: dict[Index, float] = {}
    for move in priced(problem, solution.paths, solution.layouts).values():
        if move.index is not None:
            flows[move.index] = max(flows.get(move.index, 0.0), move.flow / problem.ticks)
    found = {}
    for (store, ends), flow in flows.items():
        rows, weight = problem.stored(store), problem.weights.scanned
        if flow <= FEW and rows >= FEWEST_ROWS and weight:
            found[store, ends] = int(problem.indexing(store) / problem.ticks / (rows * weight))
    return found


def without_indexes(rules: Ruleset, name_of: Callable[[Subquery], str], seldom: Seldom) -> Ruleset:
    """The rules with no index where that is cheaper."""
    most = {}
    for (store, ends), steps in seldom.items():
        parts = sorted((seen_in(store, *end) for end in ends), key=lambda part: part.sort_key)
        most[name_of(store), tuple(parts)] = steps
    scanned = {probed for probed, steps in _steps_by_key(rules).items() if 0 < steps <= most.get(probed, 0)}

    def changed(rule: ProbedStore) -> ProbedStore:
        indexed, passed = ([key for key in rule.keys if ((rule.name, key) in scanned) == few] for few in (False, True))
        return replace(rule, keys=tuple(indexed), scanned=tuple(passed))

    return replace(rules, stores=tuple(map(changed, rules.probed))) if scanned else rules


def _steps_by_key(draft: Ruleset) -> dict[tuple[str, Key], int]:
    """By how many steps each store is probed by a key; 0 where some of them are not those of a searched path."""
    found: dict[tuple[str, Key], int] = {}
    others: set[tuple[str, Key]] = set()
    for start in draft.starts:
        for step in all_steps(start.steps) if start.phase else ():
            probed = (step.store, step.key)
            found[probed] = found.get(probed, 0) + 1
            if step.leaf is not None or start.of:
                others.add(probed)
    return found | dict.fromkeys(others, 0)
