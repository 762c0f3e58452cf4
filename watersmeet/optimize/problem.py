"""The optimization problem and what a solution of it is. Every searcher takes a Problem and gives a Solution.

A *store* is a stream's, or a materialized subquery's. A *path* is a probe order: a start relation and the stores
that its tuples visit. A plan has
  · a path to the whole query for each query and each of its relations as the start, and
  · for each materialized store, a path to its subquery for each of its relations as the start,
  · one or several layouts for each store, if there is more than one place.

The partial result after some steps is a *node*: (start, subquery joined so far). A step leads from a node through a
store to another node. However many paths use it, it is paid once:

    step cost = |subquery of the node| · 1/j · χ        (j relations joined so far, the start the last to arrive)

χ is 1 where the step knows the attribute of one of the store's layouts, otherwise P, a broadcast. That is so wherever
no equality leads to the store; one that no step reaches by an equality is spread at random. Besides, every tuple of a
materialized store, and of each layout of a store beyond the first, is shipped and stored once:

    cost = probe cost + shipping        storage = Σ size of each store · its number of layouts
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from watersmeet.errors import ModelError
from watersmeet.optimize.joingraph import (
    AT_RANDOM,
    Attribute,
    Link,
    QueryGraph,
    Subquery,
    end_in,
    links_between,
    store_of,
    stream_of,
)
from watersmeet.optimize.statistics import Statistics

Path = tuple[Subquery, ...]  # the stores that a start's tuples visit, in order
Node = tuple[str, Subquery]  # (start, joined so far)
Want = tuple[str, Subquery]  # (start, subquery that a path from it must reach)


@dataclass(frozen=True)
class Problem:
    queries: tuple[QueryGraph, ...]
    statistics: Statistics = field(default_factory=Statistics)
    partitions: int = 1
    materialize: bool = True
    layouts: str = "one"  # one or many for each store, or ignored: then no probe is a broadcast
    storage_budget: float | None = None

    def __post_init__(self) -> None:
        if self.layouts not in ("one", "many", "ignored"):
            raise ModelError(f"layouts = {self.layouts} is unknown", hint="use one, many or ignored")
        needed = sum(self.statistics.size(relation) for relation in sorted({stream_of(r) for r in self.relations}))
        if self.storage_budget is not None and self.storage_budget < needed:
            raise ModelError(
                f"a storage budget of {self.storage_budget:g} tuples cannot hold the streams themselves",
                detail=f"They have {needed:g} tuples in their windows.",
                hint="raise storage_budget, or shorten the windows",
            )

    @cached_property
    def relations(self) -> tuple[str, ...]:
        return tuple(sorted({relation for query in self.queries for relation in query.relations}))

    @cached_property
    def has_layouts(self) -> bool:
        return self.partitions > 1 and self.layouts != "ignored"

    @cached_property
    def wants(self) -> tuple[Want, ...]:
        """What the queries ask for; equal wants of different queries are one."""
        listed = {(start, query.whole): None for query in self.queries for start in query.relations}
        return tuple(sorted(listed, key=lambda want: (want[0], want[1].sort_key)))

    @cached_property
    def hosts(self) -> dict[Subquery, QueryGraph]:
        """For each subquery that may appear, a query that contains it."""
        found: dict[Subquery, QueryGraph] = {}
        for query in self.queries:
            for subquery in query.connected:
                found.setdefault(subquery, query)
        return found

    @cached_property
    def _over(self) -> dict[str, list[QueryGraph]]:
        over: dict[str, list[QueryGraph]] = {}
        for query in self.queries:
            for relation in query.relations:
                over.setdefault(relation, []).append(query)
        return over

    def host(self, subquery: Subquery) -> QueryGraph:
        """A query that contains the subquery, found without the table of all that `hosts` is."""
        for query in self._over[min(subquery.relations)]:
            if subquery.links <= query.links and query.within(subquery.relations) == subquery:
                return query
        raise KeyError(subquery)

    @cached_property
    def materializable(self) -> tuple[Subquery, ...]:
        """Subqueries that may become stores: some query extends them."""
        if not self.materialize:
            return ()
        found = {sub for query in self.queries for sub in query.connected if 1 < len(sub) < len(query.relations)}
        return tuple(sorted(found, key=lambda sub: sub.sort_key))

    @cached_property
    def _candidates(self) -> dict[Subquery, tuple[Attribute, ...]]:
        found: dict[Subquery, dict[Attribute, None]] = {}
        for query in self.queries:
            for subquery in query.connected:
                held = found.setdefault(store_of(subquery), {})
                for link in query.links:
                    if len(link.relations & subquery.relations) == 1 and link.theta is None:
                        held[end_in(subquery, link)] = None
        return {
            sub: tuple(sorted(held, key=lambda end: (end[0], end[1].expression, end[1].type)))
            or ((min(sub.relations), AT_RANDOM),)
            for sub, held in found.items()
        }

    def layout_candidates(self, store: Subquery) -> tuple[Attribute, ...]:
        """The attributes worth placing a store by: those that equalities lead to from outside, or else chance."""
        return self._candidates.get(store_of(store), ())

    @cached_property
    def _sizes(self) -> dict[Subquery, float]:
        return {}

    def size(self, subquery: Subquery) -> float:
        if subquery not in self._sizes:
            self._sizes[subquery] = self.statistics.cardinality(subquery)
        return self._sizes[subquery]

    def tuples(self, node: Node) -> float:
        """Partial results at a node: those combinations in which the start arrives last."""
        return self.size(node[1]) / len(node[1])

    def broadcast(self, store: Subquery, known: Iterable[Link], layouts: Iterable[Attribute]) -> int:
        """χ: copies of each partial result that a probe of the store sends."""
        if not self.has_layouts:
            return 1
        ends = {end_in(store, link) for link in known if link.theta is None}
        return 1 if any(layout in ends for layout in layouts) else self.partitions


@dataclass(frozen=True)
class Solution:
    """A plan and what is known of its quality."""

    paths: Mapping[Want, Path]  # for queries and for materialized stores
    layouts: Mapping[Subquery, tuple[Attribute, ...]]  # by `store_of`
    probe_cost: float
    shipping: float
    storage: float
    searcher: str = ""
    bound: float = 0.0  # proven: no plan costs less
    seconds: float = 0.0

    @property
    def cost(self) -> float:
        return self.probe_cost + self.shipping

    @property
    def optimal(self) -> bool:
        return self.cost <= self.bound * (1 + 1e-6) + 1e-9

    @cached_property
    def materialized(self) -> tuple[Subquery, ...]:
        used = {store for path in self.paths.values() for store in path if not store.is_stream}
        return tuple(sorted(used, key=lambda sub: sub.sort_key))


@dataclass(frozen=True)
class Move:
    """A step of a plan: the partial results at `node` probe `store` and reach `joined`."""

    node: Node
    store: Subquery
    joined: Subquery


def moves_of(want: Want, path: Path, query: QueryGraph) -> list[Move]:
    """The steps of a path to a want within a query that contains it."""
    start, target = want
    here = query.within(frozenset((start,)))
    moves = []
    for store in path:
        there = query.within(here.relations | store.relations)
        moves.append(Move((start, here), store, there))
        here = there
    assert here == target, f"a path from {start} ends at {here}, not at {target}"
    return moves


def price(
    problem: Problem, paths: Mapping[Want, Path], layouts: Mapping[Subquery, tuple[Attribute, ...]], **facts: object
) -> Solution:
    """The Solution that these paths and layouts are, with its costs by the definitions above."""
    moves = {move: None for want, path in paths.items() for move in moves_of(want, path, problem.host(want[1]))}
    probe = 0.0
    for move in moves:
        known = links_between(move.joined.links, move.node[1].relations, move.store.relations)
        held = layouts.get(store_of(move.store), ())
        probe += problem.tuples(move.node) * problem.broadcast(move.store, known, held)
    shipping = storage = 0.0
    streams = {store_of(query.within(frozenset((r,)))) for query in problem.queries for r in query.relations}
    for store in streams | {move.store for move in moves if not move.store.is_stream}:
        copies = max(1, len(layouts.get(store, ())))
        storage += problem.size(store) * copies
        # A stream is stored in any case; only what comes on top of that is a choice.
        shipping += problem.size(store) * (copies - 1 if store.is_stream else copies)
    return Solution(dict(paths), dict(layouts), probe, shipping, storage, **facts)  # type: ignore[arg-type]
