"""Conversion between queries as written (aliases) and as the optimizer sees them (relations)."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.model import Alias, Query
from watersmeet.optimize.joingraph import graph_of, relations_of
from watersmeet.plan.parts import Part
from watersmeet.plan.ruleset import UNBOUNDED


class Aliases:
    def __init__(self, queries: Sequence[Query]) -> None:
        self.queries = {query.name: query for query in queries}
        self.graphs = {query.name: graph_of(query) for query in queries}
        self._by_relation = {
            query.name: {relation: query.by_name[alias] for alias, relation in relations_of(query).items()}
            for query in queries
        }
        for query in queries:
            if isinstance(query, Part):
                self._by_relation[query.name][query.join.relation] = query.leaf_alias

    def alias(self, query: Query, relation: str) -> Alias:
        return self._by_relation[query.name][relation]

    def window(self, query: Query, relation: str) -> int:
        window = self.alias(query, relation).window
        return UNBOUNDED if window is None else min(window, UNBOUNDED)
