"""Greedy probe orders: each query and start by itself, always to the store that leaves the fewest partial results.

Ties go to the step that an earlier query has already taken from the same prefix, so that equal steps of
different queries meet in one probe tree; after that to the alias declared first, so that a plan is a
function of its input alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from watersmeet.model import KeyPart, Query
from watersmeet.optimize.solution import Solution, Statistics, expansion

Taken = tuple[object, ...]


def greedy(queries: Sequence[Query], statistics: Statistics, partitions: int = 1) -> Solution:
    orders: dict[tuple[str, str], tuple[str, ...]] = {}
    wanted: Counter[tuple[str, KeyPart]] = Counter()
    taken: set[Taken] = set()
    cost = 0.0
    for query in queries:
        for start in query.aliases:
            order, partial = [start.name], statistics.size(start.stream)
            while len(order) < len(query.aliases):
                bound = frozenset(order)
                choice = min(
                    (
                        alias.name
                        for alias in query.aliases
                        if alias.name not in bound and query.between(bound, alias.name)
                    ),
                    key=lambda name: (
                        round(expansion(query, bound, name, statistics), 9),
                        _trace(query, [*order, name]) not in taken,
                        query.position[name],
                    ),
                )
                cost += partial / len(order)
                partial *= expansion(query, bound, choice, statistics)
                for equality in query.between(bound, choice):
                    wanted[query.by_name[choice].stream, equality.key_of(choice)] += 1
                order.append(choice)
                taken.add(_trace(query, order))
            orders[query.name, start.name] = tuple(order)
    return Solution(orders, _layouts(wanted) if partitions > 1 else {}, cost)


def _trace(query: Query, order: list[str]) -> Taken:
    """What a prefix of a probe order does, without the names that the query gives to it."""
    steps: list[object] = [query.by_name[order[0]].stream]
    for at, alias in enumerate(order[1:], 1):
        keys = frozenset(
            (order.index(equality.other(alias)), equality.key_of(equality.other(alias)), equality.key_of(alias))
            for equality in query.between(frozenset(order[:at]), alias)
        )
        steps.append((query.by_name[alias].stream, keys))
    return tuple(steps)


def _layouts(wanted: Counter[tuple[str, KeyPart]]) -> dict[str, KeyPart]:
    """For each stream the key that most steps probe it by."""
    best: dict[str, KeyPart] = {}
    for (stream, key), _ in sorted(wanted.items(), key=lambda item: (-item[1], item[0])):
        best.setdefault(stream, key)
    return best
