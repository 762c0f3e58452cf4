"""What every searcher takes and gives: statistics and queries in, a Solution out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from watersmeet.model import KeyPart, Query

DEFAULT_RATE = 1000.0


@dataclass(frozen=True)
class Statistics:
    """Facts about the streams; what is not known gets a neutral default."""

    rows: Mapping[str, float] = field(default_factory=dict)  # stream -> rows in the state
    distinct: Mapping[tuple[str, str], float] = field(default_factory=dict)  # (stream, key expression) -> values

    def size(self, stream: str) -> float:
        return max(1.0, self.rows.get(stream, DEFAULT_RATE))

    def selectivity(self, left: str, left_key: KeyPart, right: str, right_key: KeyPart) -> float:
        """The share of pairs that satisfy an equality: one over the larger number of distinct keys."""
        return 1.0 / max(self._distinct(left, left_key), self._distinct(right, right_key))

    def _distinct(self, stream: str, key: KeyPart) -> float:
        return max(1.0, self.distinct.get((stream, key.expression), self.size(stream)))


@dataclass(frozen=True)
class Solution:
    """A plan before it is compiled: how every query's results are found, from every start."""

    orders: Mapping[tuple[str, str], tuple[str, ...]]  # (query, start alias) -> probe order, start first
    layouts: Mapping[str, KeyPart]  # stream -> attribute that decides a row's place (P > 1)
    probe_cost: float


def expansion(query: Query, bound: frozenset[str], alias: str, statistics: Statistics) -> float:
    """The expected partners of one partial result over `bound` in the store of `alias`."""
    stream = query.by_name[alias].stream
    found = statistics.size(stream)
    for equality in query.between(bound, alias):
        other = query.by_name[equality.other(alias)].stream
        found *= statistics.selectivity(other, equality.key_of(equality.other(alias)), stream, equality.key_of(alias))
    return found
