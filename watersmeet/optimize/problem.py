"""The optimization problem and what a solution of it is. Every searcher takes a Problem and gives a Solution.

A *store* is a stream's, or a materialized subquery's. A *path* is a probe order: a start relation and the stores
that its tuples visit. A plan has
  · a path to the whole query for each query and each of its relations as the start, and
  · for each materialized store, a path to its subquery for each of its relations as the start,
  · one or several layouts for each store, if there is more than one partition.

The partial result after some steps is a *node*: (start, subquery joined so far). A step leads from a node through a
store to another node. However many paths use it, it is paid once:

    step cost = |subquery of the node| · 1/j · factor        (j relations joined so far, the start the last to arrive)

The factor of an equality is χ: 1 where the step knows the attribute of one of the store's layouts, otherwise P, a
broadcast. Where no equality leads to the store, the tuple is broadcast to all N partitions of it, and each of them
scans its share of the rows:

    factor = N + rows scanned · cost of scanning one, relative to sending a tuple · 1/N

A store that no step reaches by an equality is spread round-robin over the N partitions that minimize this, or over
more where it is too large for that (MultiStream's parallelism of a store). A store with a key is hash-partitioned.

Besides, every tuple of a materialized store, and of each layout of a store beyond the first, is shipped and stored
once:

    cost = probe cost + keeping · shipping        storage = Σ size of each store · its number of layouts

`keeping` is the cost of storing a tuple, relative to sending one to a probe: 1 in the papers, where both are messages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, sqrt

from watersmeet.errors import ModelError
from watersmeet.model import Theta
from watersmeet.optimize.joingraph import (
    Attribute,
    Link,
    QueryGraph,
    Subquery,
    at_random,
    end_in,
    links_between,
    places_at_random,
    store_of,
    stream_of,
)
from watersmeet.optimize.statistics import Statistics

Path = tuple[Subquery, ...]  # the stores that a start's tuples visit, in order
Node = tuple[str, Subquery]  # (start, joined so far)
Want = tuple[str, Subquery]  # (start, subquery that a path from it must reach)

# What looking at one stored row costs, where sending a tuple (about a microsecond) costs 1. See bench/theta.py.
_FOUND = 0.02  # in a range of a sorted index
_COMPUTED = 0.002  # by a program in the probe loop
_EVALUATED = 0.06  # by SQL, in blocks
_CALLED, _CALLED_BY_ROW = 0.2, 2.0  # by a function of the user
ROWS_A_PLACE = 500_000  # a place should not have more rows of one store while others have none


@dataclass(frozen=True)
class Problem:
    queries: tuple[QueryGraph, ...]
    statistics: Statistics = field(default_factory=Statistics)
    partitions: int = 1
    materialize: bool = True
    layouts: str = "one"  # one or many for each store, or ignored: then no probe is a broadcast
    storage_budget: float | None = None
    parallelism: str = "chosen"  # or all: every store is spread over all partitions
    keeping: float = 1.0
    larger: Problem | None = field(default=None, repr=False)  # which this is a part of, and whose layouts it has

    def __post_init__(self) -> None:
        if self.layouts not in ("one", "many", "ignored"):
            raise ModelError(f"unknown value {self.layouts} of layouts", hint="use one, many or ignored")
        if self.parallelism not in ("chosen", "all"):
            raise ModelError(f"unknown value {self.parallelism} of parallelism", hint="use chosen or all")
        if self.storage_budget is not None and self.storage_budget < self.least_storage:
            raise ModelError(
                f"a storage budget of {self.storage_budget:g} tuples is less than the streams need",
                detail=f"They have {self.least_storage:g} tuples in their windows.",
                hint="raise storage_budget, or shorten the windows",
            )

    @cached_property
    def relations(self) -> tuple[str, ...]:
        return tuple(sorted({relation for query in self.queries for relation in query.relations}))

    @cached_property
    def least_storage(self) -> float:
        """What the streams themselves need."""
        return sum(self.statistics.size(stream) for stream in sorted({stream_of(r) for r in self.relations}))

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
        if self.larger is not None:
            return self.larger._candidates
        ends: dict[Subquery, dict[Attribute, None]] = {}
        thetas: dict[Subquery, dict[Link, None]] = {}
        for query in self.queries:
            for subquery in query.connected:
                store = store_of(subquery)
                held, tested = ends.setdefault(store, {}), thetas.setdefault(store, {})
                for link in query.links:
                    if len(link.relations & subquery.relations) != 1:
                        continue
                    if link.theta is None:
                        held[end_in(subquery, link)] = None
                    else:
                        tested[link] = None
        return {
            store: tuple(sorted(held, key=lambda end: (end[0], end[1].sort_key)))
            or ((min(store.relations), at_random(self._places(store, thetas[store]))),)
            for store, held in ends.items()
        }

    def _places(self, store: Subquery, thetas: Iterable[Link]) -> int:
        """How many places a store should be spread over that only these predicates lead to."""
        if self.parallelism == "all":
            return self.partitions
        looking = max((self._looking(store, [link]) for link in thetas), default=0.0)
        least = max(1, round(sqrt(looking)))  # where N + looking / N is least
        return min(self.partitions, max(least, ceil(self.size(store) / ROWS_A_PLACE)))

    def layout_candidates(self, store: Subquery) -> tuple[Attribute, ...]:
        """Attributes to partition a store by: those that equalities lead to from outside, or else round-robin."""
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

    def copies(self, store: Subquery, known: Iterable[Link], layouts: Sequence[Attribute]) -> int:
        """χ: copies of each partial result that a probe of the store sends."""
        if not self.has_layouts:
            return 1
        ends = {end_in(store, link) for link in known if link.theta is None}
        if ends:
            return 1 if any(layout in ends for layout in layouts) else self.partitions
        held = layouts or self.layout_candidates(store)
        return (places_at_random(held[0][1]) if held else None) or self.partitions

    def factor(self, store: Subquery, known: Collection[Link], layouts: Sequence[Attribute]) -> float:
        """What a probe of the store costs for each partial result."""
        copies = self.copies(store, known, layouts)
        return copies + self._looking(store, known) / copies

    def _looking(self, store: Subquery, known: Collection[Link]) -> float:
        """What it costs to look at all rows that could match, in the unit of the cost."""
        thetas = [link.theta for link in known if link.theta is not None]
        if len(thetas) < len(known):
            return 0.0  # an equality finds them
        banded = [self.statistics.selectivity(link) for link in known if link.theta and link.theta.band]
        if banded:
            return self.size(store) * min(banded) * _FOUND
        return self.size(store) * min(_weight(theta) for theta in thetas)

    def allows(self, plan: Solution) -> bool:
        """Whether a plan, perhaps made for other settings, is one of this problem's."""
        return (
            all(want in plan.paths for want in self.wants)
            and (self.storage_budget is None or plan.storage <= self.storage_budget * (1 + 1e-9))
            and (self.materialize or not plan.materialized)
            and (self.layouts == "many" or all(len(held) <= 1 for held in plan.layouts.values()))
        )


def _weight(theta: Theta) -> float:
    if theta.is_always_true:
        return 0.0  # every pair is a result, which is paid for when it is sent on
    if theta.function is not None:
        return _CALLED_BY_ROW if theta.function.by_row else _CALLED
    return _COMPUTED if theta.program else _EVALUATED


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
        known = list(links_between(move.joined.links, move.node[1].relations, move.store.relations))
        probe += problem.tuples(move.node) * problem.factor(move.store, known, layouts.get(store_of(move.store), ()))
    shipping = storage = 0.0
    streams = {store_of(query.within(frozenset((r,)))) for query in problem.queries for r in query.relations}
    for store in streams | {move.store for move in moves if not move.store.is_stream}:
        copies = max(1, len(layouts.get(store, ())))
        storage += problem.size(store) * copies
        # A stream is stored in any case; only what comes on top of that is a choice.
        shipping += problem.size(store) * (copies - 1 if store.is_stream else copies) * problem.keeping
    return Solution(dict(paths), dict(layouts), probe, shipping, storage, **facts)  # type: ignore[arg-type]
