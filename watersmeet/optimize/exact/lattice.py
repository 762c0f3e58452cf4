"""The search space of a problem: every partial result that a plan may produce, and every step between two of them.

Nodes, moves, stores and wants are those of `problem`, numbered from 0, each once however many queries have it. The
numbers depend on nothing but the set of queries, so that equal input gives equal plans.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from operator import or_

from watersmeet.optimize.joingraph import Attribute, Link, QueryGraph, Subquery, end_in, root_of, single, store_of
from watersmeet.optimize.problem import Node, Problem, StepCost

NO_STORE = -1


@dataclass(frozen=True)
class LatticeStore:
    subquery: Subquery
    rows: float
    keeping: float  # what one copy of it costs, a stream's first one apart
    indexing: float  # what each key costs that it is probed by
    layouts: tuple[Attribute, ...]  # the candidates; none where layouts do not matter

    @property
    def is_stream(self) -> bool:
        return self.subquery.is_stream


@dataclass(frozen=True)
class LatticeMove:
    source: int  # node
    target: int  # node
    store: int
    probed: Subquery  # the store as a path names it: r@2 where the store is r's
    cost: StepCost
    broadcast: float  # what it costs more where no layout of the store is known
    ends: frozenset[Attribute]  # the key that it probes by
    known: tuple[int, ...]  # the candidates of the store's layouts, by position, that avoid a broadcast


@dataclass(frozen=True)
class LatticeWant:
    start: str
    subquery: Subquery
    origin: int  # node
    target: int  # node
    store: int  # wanted only if this store is materialized; NO_STORE where a query wants it
    moves: tuple[int, ...]  # all that lie on a path from origin to target


@dataclass(frozen=True)
class Lattice:
    """The search space as numbered arrays."""

    nodes: tuple[Node, ...]
    moves: tuple[LatticeMove, ...]
    stores: tuple[LatticeStore, ...]
    wants: tuple[LatticeWant, ...]
    homes: Mapping[Subquery, frozenset[int]]  # for each subquery and each stream's store, the queries that have it


def components(problem: Problem) -> list[Problem]:
    """The problem in parts whose best plans together are its best plan: no decision in one changes a cost in another.

    Queries interact where they may share a step or a materialized store, which takes a common equality, where they may
    share the index of a stream, and where they probe a stream whose layout is a choice. Phases are common to all of a
    tick. A storage budget is not looked at: it ties all parts together."""
    if problem.has_phases:
        return [replace(problem, storage_budget=None, larger=problem)]
    parent: dict[int, int] = {}
    first: dict[object, int] = {}
    for number, query in enumerate(problem.queries):
        streams = {store_of(query.within(frozenset((relation,)))) for relation in query.relations}
        choices = {stream for stream in streams if problem.has_layouts and len(problem.layout_candidates(stream)) > 1}
        keys = {end_in(query.within(frozenset((r,))), link) for link in query.links for r in link.relations}
        indexes = keys if problem.weights.index_entry else set()
        for token in (query.whole, *query.links, *choices, *indexes):
            one, other = root_of(parent, first.setdefault(token, number)), root_of(parent, number)
            parent[max(one, other)] = min(one, other)
    groups: dict[int, list[QueryGraph]] = defaultdict(list)
    for number, query in enumerate(problem.queries):
        groups[root_of(parent, number)].append(query)
    return [replace(problem, queries=tuple(group), storage_budget=None, larger=problem) for group in groups.values()]


def lattice_of(problem: Problem, queries: Sequence[QueryGraph] | None = None) -> Lattice:
    """The lattice of a problem, or of some of its queries with the layouts that all of them may want."""
    distinct = {query.whole: query for query in queries or problem.queries}
    spaces = [_QuerySpace(distinct[whole]) for whole in sorted(distinct, key=lambda sub: sub.sort_key)]
    builder = _Builder(problem, _useful_stores(problem, spaces))
    for space in spaces:
        builder.add(space)
    homes: dict[Subquery, set[int]] = defaultdict(set)
    for number, space in enumerate(spaces):
        for subquery in space.subqueries.values():
            homes[subquery].add(number)
            homes[store_of(subquery)].add(number)
    return builder.finish(distinct, {subquery: frozenset(numbers) for subquery, numbers in homes.items()})


class _QuerySpace:
    """The connected subqueries of one query as bit masks over its relations, and the pairs that can be joined."""

    def __init__(self, query: QueryGraph) -> None:
        self.relations = query.relations
        bit = {relation: 1 << place for place, relation in enumerate(query.relations)}
        self.subqueries = {sum(bit[relation] for relation in sub.relations): sub for sub in query.connected}
        self.links = [(link, bit[link.left[0]], bit[link.right[0]]) for link in sorted(query.links, key=str)]
        near = {bit[relation]: sum(bit[other] for other in query.neighbours[relation]) for relation in query.relations}
        reach = {mask: reduce(or_, (near[one] for one in near if one & mask)) for mask in self.subqueries}
        self.steps = [  # (joined so far, probed)
            (joined, probed)
            for joined in self.subqueries
            for probed in self.subqueries
            if not joined & probed and reach[joined] & probed
        ]

    def starts(self, joined: int) -> Iterator[str]:
        return (relation for place, relation in enumerate(self.relations) if joined >> place & 1)

    def between(self, joined: int, probed: int) -> list[Link]:
        return [
            link
            for link, left, right in self.links
            if (left & joined and right & probed) or (right & joined and left & probed)
        ]


class _Builder:
    def __init__(self, problem: Problem, useful: set[Subquery]) -> None:
        self.problem = problem
        self.useful = useful
        self.nodes: dict[Node, int] = {}
        self.moves: dict[tuple[int, int, Subquery], LatticeMove] = {}
        self.stores: dict[Subquery, int] = {}
        self.store_list: list[LatticeStore] = []

    def add(self, space: _QuerySpace) -> None:
        for joined, probed in space.steps:
            here, store, there = (space.subqueries[mask] for mask in (joined, probed, joined | probed))
            if not store.is_stream and store not in self.useful:
                continue
            number = self._store(store_of(store))
            layouts = self.store_list[number].layouts
            links = space.between(joined, probed)
            ends = {end_in(store, link) for link in links if link.theta is None}
            known = tuple(place for place, layout in enumerate(layouts) if layout in ends or not ends)
            for start in space.starts(joined):
                source, target = self._node((start, here)), self._node((start, there))
                if (source, target, store) not in self.moves:
                    cost = self.problem.step((start, here), store, there, links)
                    more = self.problem.broadcast(cost, (start, here), there)
                    self.moves[source, target, store] = LatticeMove(
                        source=source,
                        target=target,
                        store=number,
                        probed=store,
                        cost=cost,
                        broadcast=more,
                        ends=frozenset(ends),
                        known=known,
                    )

    def finish(self, wholes: Collection[Subquery], homes: Mapping[Subquery, frozenset[int]]) -> Lattice:
        moves = tuple(self.moves.values())
        into: dict[int, list[int]] = defaultdict(list)
        for number, move in enumerate(moves):
            into[move.target].append(number)
        asked = [(*want, NO_STORE) for want in self.problem.wants if len(want[1]) > 1 and want[1] in wholes]
        for store, number in self.stores.items():
            if not store.is_stream:
                asked += [(start, store, number) for start in sorted(store.relations)]
        wants = []
        for start, subquery, number in asked:
            origin = self._node((start, single(start)))
            target = self._node((start, subquery))
            wants.append(
                LatticeWant(
                    start=start,
                    subquery=subquery,
                    origin=origin,
                    target=target,
                    store=number,
                    moves=_leading_to(target, moves, into),
                )
            )
        return Lattice(tuple(self.nodes), moves, tuple(self.store_list), tuple(wants), homes)

    def _node(self, node: Node) -> int:
        return self.nodes.setdefault(node, len(self.nodes))

    def _store(self, store: Subquery) -> int:
        if store not in self.stores:
            self.stores[store] = len(self.stores)
            layouts = self.problem.layout_candidates(store) if self.problem.has_layouts else ()
            rows, keeping = self.problem.stored(store), self.problem.keeping(store)
            self.store_list.append(LatticeStore(store, rows, keeping, self.problem.indexing(store), layouts))
        return self.stores[store]


def _leading_to(target: int, moves: Sequence[LatticeMove], into: dict[int, list[int]]) -> tuple[int, ...]:
    found: list[int] = []
    frontier, seen = [target], {target}
    while frontier:
        for move in into[frontier.pop()]:
            found.append(move)
            if moves[move].source not in seen:
                seen.add(moves[move].source)
                frontier.append(moves[move].source)
    return tuple(sorted(found))


def _useful_stores(problem: Problem, spaces: Sequence[_QuerySpace]) -> set[Subquery]:
    """The materializable subqueries that could pay for themselves.

    Each probe of such a store can be replaced by probes of streams, at worst all broadcast and with indexes of their
    own. If the sum of what that costs more, over all probes of a store that exist, is not above what the store costs,
    then no best plan needs the store."""
    materializable = set(problem.materializable)
    saved: dict[Subquery, float] = defaultdict(float)
    counted = set()
    for space in spaces:
        instead = _by_streams(problem, space)
        for joined, probed in space.steps:
            here, store, there = (space.subqueries[mask] for mask in (joined, probed, joined | probed))
            if store in materializable and (here, store, there) not in counted:
                counted.add((here, store, there))
                known = space.between(joined, probed)
                for start in space.starts(joined):
                    step = problem.step((start, here), store, there, known)
                    least = step.fixed + (0.0 if problem.demands else step.probing + step.matching)
                    saved[store] += instead(start, joined, probed) - least
    return {store for store, saving in saved.items() if saving > problem.keeping(store)}


def _by_streams(problem: Problem, space: _QuerySpace) -> Callable[[str, int, int], float]:
    """For (start, joined, rest): the cost of the cheapest way from joined over the streams of rest, at the worst."""
    streams = {1 << place: space.subqueries[1 << place] for place in range(len(space.relations))}
    choice = {
        bit: problem.has_layouts and len(problem.layout_candidates(stream)) > 1 for bit, stream in streams.items()
    }

    @cache
    def step(start: str, joined: int, bit: int) -> float:
        here, there = space.subqueries[joined], space.subqueries[joined | bit]
        cost = problem.step((start, here), streams[bit], there, space.between(joined, bit))
        most = cost.probing + cost.matching + cost.fixed + (problem.indexing(streams[bit]) if cost.equality else 0.0)
        return most + (problem.broadcast(cost, (start, here), there) if choice[bit] else 0.0)

    @cache
    def cost(start: str, joined: int, rest: int) -> float:
        if not rest:
            return 0.0
        nexts = [bit for bit in streams if bit & rest and joined | bit in space.subqueries]
        return min(step(start, joined, bit) + cost(start, joined | bit, rest & ~bit) for bit in nexts)

    return cost
