"""The operators of windows, as a plan knows them. The first one that takes the form of a query computes its windows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from watersmeet.model import Query
from watersmeet.plan.ruleset import Ruleset, WindowRule
from watersmeet.windows.costs import TickFacts, WindowCosts
from watersmeet.windows.pairs.plan import PairsPlanning
from watersmeet.windows.protocol import Planned, Planning, StoredWindows
from watersmeet.windows.slices.plan import SlicesPlanning
from watersmeet.windows.sql.plan import SqlPlanning, TaskPlanning

OPERATORS: tuple[Planning, ...] = (SlicesPlanning(), PairsPlanning(), TaskPlanning(), SqlPlanning())


def operator_of(query: Query) -> Planning | None:
    """Who computes the windows of a query; None if it has no windows."""
    return next((operator for operator in OPERATORS if operator.takes(query.form)), None)


def planned_windows(
    queries: Sequence[Query], stored: StoredWindows, partitions: int, leaving: Sequence[Query] = ()
) -> Planned:
    """What the windowed queries of a plan add to it. No search is needed: what they share follows from their forms.

    `leaving`: queries that change their form, in the one that they had."""
    now, left = (_planned(some, stored, partitions) for some in (queries, leaving))
    return Planned.of((now, replace(left, rules=tuple(replace(rule, leaves=True) for rule in left.rules))))


def _planned(queries: Sequence[Query], stored: StoredWindows, partitions: int) -> Planned:
    asked = {operator.name: [each for each in queries if operator_of(each) is operator] for operator in OPERATORS}
    found = Planned.of(each.planned(asked[each.name], stored, partitions) for each in OPERATORS if asked[each.name])
    order = {query.name: at for at, query in enumerate(queries)}
    return replace(found, rules=tuple(sorted(found.rules, key=lambda rule: order[rule.query.name])))


def cost_of(rules: Sequence[WindowRule], facts: TickFacts) -> WindowCosts:
    """What the windows of a plan cost in a tick."""
    found = WindowCosts()
    for operator in OPERATORS:
        found.include(operator.cost([rule for rule in rules if rule.operator == operator.name], facts))
    return found


def with_windows(rules: Ruleset, planned: Planned) -> Ruleset:
    """The rules with those of windowed queries."""
    if not planned.rules:
        return rules
    identity = f"{rules.version} {planned.rules!r} {[store.name for store in planned.stores]}"
    version = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return replace(rules, windows=planned.rules, stores=(*rules.stores, *planned.stores), version=version)


def streams_with_all_rows(queries: Iterable[Query], suspended: Iterable[Query]) -> frozenset[str]:
    """The streams whose every row is stored: for windows that are computed from rows, and for suspended queries, which
    are to find all rows when they are resumed. How long rows stay, ticks decide."""
    reading = [query for query in queries if _reads_rows(query)]
    reading += [query for query in suspended if _reads_rows(query) or query.join is not None]
    return frozenset(stream for query in reading for stream in query.streams)


def suspended_rule(query: Query) -> WindowRule:
    """The rule of a windowed query that is suspended: it has no stores of its own, but rows are stored for it."""
    operator = operator_of(query)
    assert operator is not None
    reads = tuple((stream, stream) for stream in query.streams) if operator.reads_rows else ()
    return WindowRule(query.definition, operator.name, reads)


def _reads_rows(query: Query) -> bool:
    operator = operator_of(query)
    return operator is not None and operator.reads_rows
