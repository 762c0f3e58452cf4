"""What the steps of a plan need of each store: indexes, filters, and columns that Spark computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from watersmeet.model import KeyPart, Query, SparkCall, Stream
from watersmeet.optimize.joingraph import Subquery
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.solution import Index, Solution, priced
from watersmeet.plan.access import seen_in
from watersmeet.plan.ruleset import FilterNeed, Key, ProbedStore, Ruleset, Step, all_steps
from watersmeet.store.derived import FEWEST_ROWS, MOST_KEYS, Block

Seldom = Mapping[Index, int]  # how many steps may look up a key that has no index
NONE_SELDOM: Seldom = {}
FEW = MOST_KEYS / 4  # partial results in a tick: it may be some times more than estimated


def probed_keys(draft: Ruleset) -> dict[str, tuple[Key, ...]]:
    """For each store the keys that it is probed by."""
    found: dict[str, dict[Key, None]] = {}
    for step in all_steps(_lasting(draft)):
        if step.key:
            found.setdefault(step.store, {})[step.key] = None
    return {store: tuple(keys) for store, keys in found.items()}


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


def looked_up_ranges(draft: Ruleset) -> dict[str, tuple[KeyPart, ...]]:
    """For each store the keys that ranges of it are looked up by."""
    found: dict[str, dict[KeyPart, None]] = {}
    for step in all_steps(_lasting(draft)):
        if step.range is not None:
            found.setdefault(step.store, {})[step.range.part] = None
    return {store: tuple(parts) for store, parts in found.items()}


def asked_filters(draft: Ruleset) -> dict[str, dict[Block, None]]:
    """For each store what is asked of its rows, by whatever start or step."""
    nodes: list[tuple[str, tuple[FilterNeed, ...]]] = [(s.stream, s.groups) for s in draft.starts if not s.backfills]
    nodes += [(step.store, step.groups) for step in all_steps(_lasting(draft))]
    found: dict[str, dict[Block, None]] = {}
    for store, asks in nodes:
        found.setdefault(store, {}).update({ask.block: None for ask in asks})
    return found


def _lasting(draft: Ruleset) -> tuple[Step, ...]:
    """The steps but those of phase 0: they run once, and buckets derive for them what they lack."""
    return tuple(step for start in draft.starts if start.phase for step in start.steps)


def spark_columns(queries: Sequence[Query], stream: Stream) -> dict[str, SparkCall]:
    """The columns that Spark computes of the rows of a stream, by name."""
    calls = {call.name: call for query in queries for call in query.spark_columns.get(stream.name, ())}
    return {name: calls[name] for name in sorted(calls)}
