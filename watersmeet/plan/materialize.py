"""Materialized stores: which columns, windows and filters they need for the queries that read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from watersmeet.model import Column, Expression
from watersmeet.model.identity import digest, identity
from watersmeet.optimize.joingraph import QueryGraph, Subquery, single, stream_of
from watersmeet.optimize.problem import Path
from watersmeet.optimize.solution import Solution
from watersmeet.plan.parts import JoinPart
from watersmeet.plan.ruleset import JoinStore, KeptColumn, Key, kept_filter, kept_name
from watersmeet.store.derived import TAU, Bit, Block
from watersmeet.store.placement import Placement


@dataclass(frozen=True)
class Materialized:
    """A subquery whose results are kept. Its name is made of all that its rows depend on: a change is another store."""

    name: str
    subquery: Subquery
    graph: QueryGraph
    windows: dict[str, int]  # by relation, the widest that a reader asks for
    filters: dict[str, frozenset[Expression | None]]
    columns: tuple[KeptColumn, ...]
    outside: tuple[str, ...]

    leaf: ClassVar[None] = None  # as those of a group of queries
    branch: ClassVar[str] = ""

    def alternatives(self, relation: str) -> Bit:
        """Filters of which a row of the relation must pass one; none where some reader wants every row."""
        filters = [each for each in self.filters[relation] if each is not None]
        return tuple(sorted(filters, key=str)) if len(filters) == len(self.filters[relation]) else ()

    def serves(self, part: JoinPart) -> bool:
        """Whether one more reader finds all its rows and columns here, so that the store stays the one it is."""
        relations = sorted(self.subquery.relations)
        needed = _columns([part], relations)
        return set(needed) <= set(self.columns) and all(
            part.window(relation) <= self.windows[relation]
            and part.by_relation[relation].filter in self.filters[relation]
            for relation in relations
        )

    def rule(self, keys: tuple[Key, ...], blocks: tuple[Block, ...], placement: Placement) -> JoinStore:
        return JoinStore(
            self.name,
            tuple(Column(column.name, column.type) for column in self.columns),
            keys,
            blocks,
            placement,
            members=tuple((relation, stream_of(relation)) for relation in sorted(self.subquery.relations)),
            kept=self.columns,
            outside=self.outside,
        )


def materialized_stores(parts: Sequence[JoinPart], solution: Solution) -> dict[Subquery, Materialized]:
    """The stores that the plan materializes for these parts, smaller ones first."""
    readers = _readers(parts, solution)
    found = {}
    for subquery in solution.materialized:
        reading = list(readers[subquery].values())
        relations = sorted(subquery.relations)
        windows = {relation: max(part.window(relation) for part in reading) for relation in relations}
        filters = {relation: frozenset(part.by_relation[relation].filter for part in reading) for relation in relations}
        columns = _columns(reading, relations)
        outside = {stream_of(relation) for part in reading for relation in {*part.graph.relations} - subquery.relations}
        graph = QueryGraph(str(subquery), tuple(relations), subquery.links)
        links = sorted(link.text for link in subquery.links)
        spelled = identity({relation: sorted(map(str, filters[relation])) for relation in relations})
        content = identity((relations, links, windows, spelled, columns))
        name = "_".join((*relations, digest(content, 8))).replace("@", "_")
        found[subquery] = Materialized(
            name=name,
            subquery=subquery,
            graph=graph,
            windows=windows,
            filters=filters,
            columns=columns,
            outside=tuple(sorted(outside)),
        )
    return found


def walk_streams(graph: QueryGraph, first: str = "") -> tuple[str, Path]:
    """Some way through the streams of a query, without cross products: where it starts, and what it probes."""
    order = [first or min(graph.relations)]
    while len(order) < len(graph.relations):
        order.append(min(graph.reachable(frozenset(order))))
    return order[0], tuple(map(single, order[1:]))


def _readers(parts: Sequence[JoinPart], solution: Solution) -> dict[Subquery, dict[str, JoinPart]]:
    """For each materialized subquery the parts whose results pass through it, directly or through another one; by
    name, in the order of their names."""
    readers: dict[Subquery, dict[str, JoinPart]] = {}

    def follow(path: Path, part: JoinPart) -> None:
        for store in path:
            if not store.is_stream and part.name not in readers.setdefault(store, {}):
                readers[store][part.name] = part
                for relation in store.relations:
                    follow(solution.paths[relation, store], part)

    for part in sorted(parts, key=lambda part: part.name):
        for relation in part.graph.relations:
            follow(solution.paths[relation, part.graph.whole], part)
    return readers


def _columns(parts: list[JoinPart], relations: list[str]) -> tuple[KeptColumn, ...]:
    found: dict[str, KeptColumn] = {}

    def add(relation: str, name: str, kind: str, source: str | Expression, declared: str) -> None:
        found.setdefault(name, KeptColumn(name, relations.index(relation), kind, source, declared))

    for relation in relations:
        add(relation, f"{relation}.{TAU}", "time", "", "bigint")
    for part in parts:
        relation_of = {alias.name: relation for relation, alias in part.by_relation.items()}
        for output in part.join.outputs:
            for column in output.expression.columns:
                relation = relation_of.get(column.row, "")  # a part of a query may lack the alias
                if relation in relations:
                    add(relation, f"{relation}.{column.name}", "column", column.name, column.type)
        for link in (*part.graph.links, *(part.leaf.links if part.leaf else ())):
            for relation, key in link.reads:
                if relation in relations and not link.relations <= set(relations):
                    kind = "column" if key.column else "key"
                    add(relation, kept_name(f"{relation}.", key), kind, key.column or key.expression, key.type)
        for relation in relations:
            wanted = part.by_relation[relation].filter
            # Also where all queries have this filter now: one without it must not make this another store.
            if wanted is not None:
                add(relation, kept_filter(f"{relation}.", wanted).name, "filter", wanted, "boolean")
    return tuple(found[name] for name in sorted(found))
