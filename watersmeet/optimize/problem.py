"""The optimization problem, and what the parts of its solutions cost. Every searcher takes a Problem.

A *store* is a stream's, or a materialized subquery's. A *path* is a probe order: a start relation and the stores
that its tuples visit. A plan has
  · a path to the whole query for each query and each of its relations as the start, and
  · for each materialized store, a path to its subquery for each of its relations as the start,
  · one or several layouts for each store, if there is more than one partition.

The partial result after some steps is a *node*: (start, subquery joined so far). A step leads from a node through a
store to another node. Costs are microseconds of CPU time while the windows are renewed once, which takes a number of
ticks; with the weights `PAPER` they are the unit costs of the papers.

    flow at a node = |subquery| · share of its rows that arrives · share that the queries want
    cost of a step = flow · (probe · χ) + flow at the next node · match + ticks · calls

χ is 1 where the step knows the attribute of one of the store's layouts, otherwise P, a broadcast. Where no equality
leads to the store, the tuple is broadcast to all N partitions of it, and each of them scans its share of the rows:

    probe · N + rows scanned · cost of scanning one · 1/N       instead of       probe · χ

A store that no step reaches by an equality is spread round-robin over the N partitions that minimize this, or over
more where it is too large for that (MultiStream's parallelism of a store). A store with a key is hash-partitioned.

However many paths use a step, it is paid once: for the path that needs most of it, which is at least the true flow of
the largest query and at most that of all of them. Besides, a plan pays for
  · every row of a materialized store, and of each layout of a store beyond the first, and for its files;
  · every row of a store and key that the store is probed by;
  · every phase of a tick after the first one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, log2, sqrt
from typing import NamedTuple

from watersmeet.errors import ModelError
from watersmeet.optimize.demands import Demand, Wanted
from watersmeet.optimize.joingraph import (
    Attribute,
    Link,
    QueryGraph,
    Subquery,
    end_in,
    lattice_limit,
    round_robin,
    round_robin_over,
    single,
    store_of,
    stream_of,
)
from watersmeet.optimize.statistics import Statistics
from watersmeet.optimize.weights import PAPER, Weights, share_found

Path = tuple[Subquery, ...]  # the stores that a start's tuples visit, in order
Node = tuple[str, Subquery]  # (start, joined so far)
Want = tuple[str, Subquery]  # (start, subquery that a path from it must reach)

ROWS_PER_PARTITION = 500_000  # a partition should not have more rows of one store while others have none


class StepCost(NamedTuple):
    """What a step costs if every row is wanted, apart from the indexes that it needs."""

    probing: float  # by one copy of each tuple
    matching: float
    fixed: float
    equality: bool  # whether the layout of the store matters: without it the probing would be done by P copies


@dataclass(frozen=True)
class Problem:
    """Queries, statistics and settings for which a plan is searched."""

    queries: tuple[QueryGraph, ...]
    statistics: Statistics = field(default_factory=Statistics)
    partitions: int = 1
    materialize: bool = True
    layouts: str = "one"  # one or many for each store, or ignored: then no probe is a broadcast
    storage_budget: float | None = None
    parallelism: str = "chosen"  # or all: every store is spread over all partitions
    weights: Weights = PAPER
    demands: Mapping[str, Demand] = field(default_factory=dict)  # by query; of one that is not here, every row
    ticks: float = 0.0  # in which the windows are renewed once; 0: by the statistics
    larger: Problem | None = field(default=None, repr=False)  # which this is a part of, and whose layouts it has

    def __post_init__(self) -> None:
        if self.layouts not in ("one", "many", "ignored"):
            raise ModelError(f"unknown value {self.layouts} of layouts", hint="use one, many or ignored")
        if self.parallelism not in ("chosen", "all"):
            raise ModelError(f"unknown value {self.parallelism} of parallelism", hint="use chosen or all")
        if not self.ticks:
            object.__setattr__(self, "ticks", self.statistics.ticks(map(str, self.streams)))
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
    def graphs(self) -> dict[str, QueryGraph]:
        """The queries by name."""
        return {query.name: query for query in self.queries}

    @cached_property
    def streams(self) -> tuple[Subquery, ...]:
        """The stores of the streams, by name."""
        return tuple(map(single, sorted(set(map(stream_of, self.relations)))))

    @cached_property
    def least_storage(self) -> float:
        """The tuples that the stores of the streams have."""
        return sum(map(self.stored, self.streams))

    @cached_property
    def has_layouts(self) -> bool:
        return self.partitions > 1 and self.layouts != "ignored"

    @cached_property
    def wants(self) -> tuple[Want, ...]:
        """What the queries ask for; equal wants of different queries are one."""
        listed = {(start, query.whole): None for query in self.queries for start in query.relations}
        return tuple(sorted(listed, key=lambda want: (want[0], want[1].sort_key)))

    @cached_property
    def wanted(self) -> Wanted:
        """What the queries want of rows."""
        return Wanted(self.queries, self.demands, self.statistics, self.larger.wanted if self.larger else None)

    def host(self, subquery: Subquery) -> QueryGraph:
        """A query that contains the subquery."""
        return next(self.wanted.readers_of(subquery))

    def is_narrow(self, query: QueryGraph) -> bool:
        """Whether plans of a query are searched among all its connected sets, and not only among some."""
        return query.size <= self._lattice

    @cached_property
    def _lattice(self) -> int:
        return lattice_limit(len({query.links for query in self.queries}))

    @cached_property
    def materializable(self) -> tuple[Subquery, ...]:
        """Subqueries that may become stores: some query extends them. A query with too many of them has none."""
        if not self.materialize:
            return ()
        narrow = filter(self.is_narrow, self.queries)
        found = {sub for query in narrow for sub in query.connected if 1 < len(sub) < len(query.relations)}
        return tuple(sorted(found, key=lambda sub: sub.sort_key))

    @cached_property
    def _candidates(self) -> dict[Subquery, tuple[Attribute, ...]]:
        return {}

    def layout_candidates(self, store: Subquery) -> tuple[Attribute, ...]:
        """Attributes to partition a store by: those that equalities lead to from outside, or else round-robin."""
        if self.larger is not None:
            return self.larger.layout_candidates(store)
        store = store_of(store)
        found = self._candidates.get(store)
        if found is None:
            found = self._candidates[store] = self._computed_candidates(store)
        return found

    def _computed_candidates(self, store: Subquery) -> tuple[Attribute, ...]:
        ends: dict[Attribute, None] = {}
        thetas: dict[Link, None] = {}
        of_stream = self._uses.get(min(store.relations), [])
        uses = of_stream if store.is_stream else [(query, store) for query in self.wanted.readers_of(store)]
        for query, subquery in uses:
            for link in query.links:
                if len(link.relations & subquery.relations) == 1:
                    if link.theta is None:
                        ends[end_in(subquery, link)] = None
                    else:
                        thetas[link] = None
        return tuple(sorted(ends, key=lambda end: (end[0], end[1].sort_key))) or (
            (min(store.relations), round_robin(self._spread(store, thetas))),
        )

    @cached_property
    def _uses(self) -> dict[str, list[tuple[QueryGraph, Subquery]]]:
        """For each stream the queries over it, with the relations that it is there."""
        found: dict[str, list[tuple[QueryGraph, Subquery]]] = {}
        for query in self.queries:
            for relation in query.relations:
                found.setdefault(stream_of(relation), []).append((query, query.within(frozenset((relation,)))))
        return found

    def _spread(self, store: Subquery, thetas: Iterable[Link]) -> int:
        """The number of partitions for a store that only these predicates lead to."""
        if self.parallelism == "all":
            return self.partitions
        looking = max((self._looking(store, [link]) for link in thetas), default=0.0)
        sending = self.weights.miss + self.weights.sent
        least = max(1, round(sqrt(looking / sending)))  # where sending · N + looking / N is least
        return min(self.partitions, max(least, ceil(self.size(store) / ROWS_PER_PARTITION)))

    @cached_property
    def _sizes(self) -> dict[Subquery, float]:
        return {}

    def size(self, subquery: Subquery) -> float:
        if subquery not in self._sizes:
            self._sizes[subquery] = self.statistics.cardinality(subquery)
        return self._sizes[subquery]

    def tuples(self, node: Node) -> float:
        """Partial results at a node if every row is wanted: those combinations in which the start arrives last."""
        start, subquery = node
        size = self.size(subquery)
        if self.weights.once:
            return size / len(subquery)
        return size * self.statistics.turnover(stream_of(start), self.ticks)

    def arriving(self, store: Subquery) -> float:
        """Rows that a store gets while the windows are renewed once."""
        rows = sum(self.tuples((relation, store)) for relation in sorted(store.relations))
        return rows * self.wanted.of_store(store)

    def stored(self, store: Subquery) -> float:
        return self.size(store) * self.wanted.of_store(store)

    # What plans cost ------------------------------------------------------------------------------

    def step(
        self,
        node: Node,
        store: Subquery,
        joined: Subquery,
        known: Collection[Link],
        layouts: Sequence[Attribute] = (),
    ) -> StepCost:
        """The cost of a step. Layouts matter only where no equality leads to the store; none: those it would have."""
        start, here = node
        return self.step_by_flow(
            (self.tuples(node), self.tuples((start, joined))), store, known, len(here) > 1, layouts
        )

    def step_by_flow(
        self,
        flow: tuple[float, float],
        store: Subquery,
        known: Collection[Link],
        later: bool,
        layouts: Sequence[Attribute] = (),
    ) -> StepCost:
        """The cost of a step by the tuples that reach and leave it; `later`: it is not the first step of its start."""
        came, found = flow
        equality = any(link.theta is None for link in known)
        weights = self.weights
        probe = weights.probe(self.stored(store_of(store)), share_found(came, found), self.buckets)
        if self.partitions > 1 and later:
            probe += weights.sent
        copies = 1 if equality else self.copies(store, known, layouts)
        probing = came * (probe * copies + (0.0 if equality else self._looking(store, known) / copies))
        fixed = self.ticks * (weights.step + weights.bucket * self.buckets)
        return StepCost(probing, found * weights.match, fixed, equality)

    @property
    def buckets(self) -> float:
        """Buckets of a store: four of one size become one, so that there are 1.5 of each. The papers have none."""
        return 1.0 if self.weights.once else max(1.0, 1.5 * log2(1 + self.ticks) / 2)

    def needed(self, step: StepCost, want: Want, here: Subquery, joined: Subquery) -> float:
        """What a want needs of a step, apart from what is fixed."""
        if not self.demands:
            return step.probing + step.matching
        return step.probing * self.wanted.share(want, here) + step.matching * self.wanted.share(want, joined)

    def broadcast(self, step: StepCost, node: Node, joined: Subquery) -> float:
        """What a step costs more where it does not know the layout of its store."""
        return step.probing * (self.partitions - 1) * self.wanted.most(node, joined) if step.equality else 0.0

    def keeping(self, store: Subquery) -> float:
        """What one copy of a store costs: a materialized one, or a further layout."""
        return self.arriving(store) * self.weights.kept_row + self.ticks * self.weights.file

    def indexing(self, store: Subquery) -> float:
        """What a store costs for each key that it is probed by."""
        return self.arriving(store_of(store)) * self.weights.index_entry

    def phases(self, count: int) -> float:
        return (count - 1) * self.ticks * self.weights.phase

    @property
    def has_phases(self) -> bool:
        """Whether plans may have several phases that cost something."""
        return self.weights.phase > 0 and bool(self.materializable)

    def copies(self, store: Subquery, known: Iterable[Link], layouts: Sequence[Attribute]) -> int:
        """χ: copies of each partial result that a probe of the store sends."""
        if not self.has_layouts:
            return 1
        ends = {end_in(store, link) for link in known if link.theta is None}
        if ends:
            return 1 if any(layout in ends for layout in layouts) else self.partitions
        held = layouts or self.layout_candidates(store)
        return (round_robin_over(held[0][1]) if held else None) or self.partitions

    def _looking(self, store: Subquery, known: Collection[Link]) -> float:
        """The cost of scanning all rows that could match."""
        thetas = [link.theta for link in known if link.theta is not None]
        if len(thetas) < len(known):
            return 0.0  # an equality finds them
        banded = [self.statistics.selectivity(link) for link in known if link.theta and link.theta.band]
        if banded:
            return self.stored(store_of(store)) * min(banded) * self.weights.found
        return self.stored(store_of(store)) * min(map(self.weights.tested, thetas))
