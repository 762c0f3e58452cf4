"""Between the queries as they were written (aliases) and as the optimizer sees them (relations)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from watersmeet.model import Alias, Query
from watersmeet.optimize.joingraph import QueryGraph, graph_of, relations_of
from watersmeet.plan.ruleset import UNBOUNDED

if TYPE_CHECKING:
    from watersmeet.plan.materialize import Materialized


class Aliases:
    def __init__(self, queries: Sequence[Query]) -> None:
        self.queries = {query.name: query for query in queries}
        self.graphs = {query.name: graph_of(query) for query in queries}
        self._by_relation = {
            query.name: {relation: query.by_name[alias] for alias, relation in relations_of(query).items()}
            for query in queries
        }

    def alias(self, query: Query, relation: str) -> Alias:
        return self._by_relation[query.name][relation]

    def window(self, query: Query, relation: str) -> int:
        window = self.alias(query, relation).window
        return UNBOUNDED if window is None else min(window, UNBOUNDED)

    def graph_of(self, end: Query | Materialized) -> QueryGraph:
        return self.graphs[end.name] if isinstance(end, Query) else end.graph

    def all_windows(self, relation: str) -> set[int]:
        return {
            self.window(self.queries[name], relation) for name, held in self._by_relation.items() if relation in held
        }

    def all_filters(self, relation: str) -> set[str | None]:
        return {held[relation].filter for held in self._by_relation.values() if relation in held}
