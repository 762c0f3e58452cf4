"""Demands: which rows queries want of streams and joins, by their filters and windows.

What several queries want of the same rows is at most the sum of what each wants and at most everything, within the
widest of their windows. The paths of a store are wanted by all queries that contain its subquery: which of them will
read it is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from watersmeet.optimize.joingraph import QueryGraph, Subquery, stream_of
from watersmeet.optimize.statistics import Named, Statistics


@dataclass(frozen=True)
class Demand:
    """What a query wants of its relations; of one that is not here, every row."""

    filters: Mapping[str, Named] = field(default_factory=dict)  # by relation: (stream, text of the filter)
    windows: Mapping[str, float] = field(default_factory=dict)  # by relation: its window by the longest of the stream


class Wanted:
    """The shares of rows that queries want, at the nodes of plans and in stores."""

    def __init__(
        self,
        queries: Sequence[QueryGraph],
        demands: Mapping[str, Demand],
        statistics: Statistics,
        larger: Wanted | None = None,
    ) -> None:
        """`demands` are by query; a query that is not there wants every row. `larger` is of the problem that these
        queries are a part of: streams are stored for all of its queries."""
        self._queries = queries
        self._demands = demands
        self._statistics = statistics
        self._larger = larger
        self._readers: dict[Subquery, tuple[str, ...]] = {}
        self._unions: dict[tuple[tuple[str, ...], str, Subquery], float] = {}

    def share(self, want: tuple[str, Subquery], joined: Subquery) -> float:
        """The share of the rows at a node on the way to a want that some query wants."""
        if not self._demands:
            return 1.0
        start, target = want
        asking = self._asking.get(target) or self._containing(target)
        return self._union(asking, start, joined)

    def most(self, node: tuple[str, Subquery], joined: Subquery) -> float:
        """The share of the rows at a node that all queries together want for a step from there."""
        return self._union(self._containing(joined), *node) if self._demands else 1.0

    def of_store(self, store: Subquery) -> float:
        """The share of the rows of a store that some query wants."""
        if not self._demands:
            return 1.0
        if not store.is_stream:
            return self._union(self._containing(store), "", store)
        return self._streams.get(str(store), 1.0) if self._larger is None else self._larger.of_store(store)

    def alone(self, query: str) -> float:
        """The share of the results of its join that one query wants."""
        graph = next(graph for graph in self._queries if graph.name == query)
        return self._union((query,), graph.relations[0], graph.whole) if self._demands else 1.0

    def passing(self, query: str, relation: str) -> float:
        """The share of the rows of a relation that pass the filter of a query."""
        demand = self._demands.get(query)
        name = demand.filters.get(relation) if demand is not None else None
        return 1.0 if name is None else self._statistics.passing(name)

    def readers_of(self, subquery: Subquery) -> Iterator[QueryGraph]:
        """The queries that contain a subquery."""
        for query in self._over.get(min(subquery.relations), ()):
            if subquery.links <= query.links and query.within(subquery.relations) == subquery:
                yield query

    @cached_property
    def _over(self) -> dict[str, list[QueryGraph]]:
        over: dict[str, list[QueryGraph]] = {}
        for query in self._queries:
            for relation in query.relations:
                over.setdefault(relation, []).append(query)
        return over

    @cached_property
    def _streams(self) -> dict[str, float]:
        """For each stream the share of its rows that some query wants."""
        total: dict[str, float] = {}
        for query in self._queries:
            for relation in query.relations:
                stream = stream_of(relation)
                total[stream] = total.get(stream, 0.0) + self.passing(query.name, relation)
        return {stream: min(1.0, share) for stream, share in total.items()}

    @cached_property
    def _asking(self) -> dict[Subquery, tuple[str, ...]]:
        found: dict[Subquery, list[str]] = {}
        for query in self._queries:
            found.setdefault(query.whole, []).append(query.name)
        return {whole: tuple(names) for whole, names in found.items()}

    def _containing(self, subquery: Subquery) -> tuple[str, ...]:
        if subquery not in self._readers:
            self._readers[subquery] = tuple(query.name for query in self.readers_of(subquery))
        return self._readers[subquery]

    def _union(self, queries: tuple[str, ...], start: str, joined: Subquery) -> float:
        """What these queries want of combinations in which the start arrives last: its own window does not matter."""
        key = (queries, start, joined)
        if key not in self._unions:
            passing, widest = 0.0, 0.0
            for query in queries:
                ratios = self._demands[query].windows if query in self._demands else {}
                passing += prod(self.passing(query, relation) for relation in joined.relations)
                widest = max(widest, prod(ratios.get(r, 1.0) for r in joined.relations if r != start))
            self._unions[key] = min(1.0, passing) * widest
        return self._unions[key]
