"""A problem in small integers: what the heuristic searchers walk over many thousand times a second.

Relations, attributes, subqueries and moves have numbers, which follow from sorted names: neither the order of the
queries nor their names change a plan. A *want* is (relation, subquery) here.

Of a query that is not narrow the space has only some subqueries (`chosen_sets.py`), and whatever paths are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from watersmeet.optimize.heuristic.bitmask_lattice import Shape, alike, chosen_shape, shape
from watersmeet.optimize.heuristic.chosen_sets import ProbeOrders, width_for
from watersmeet.optimize.joingraph import Attribute, Link, QueryGraph, Subquery, stream_of
from watersmeet.optimize.phases import seen
from watersmeet.optimize.problem import Path, Problem, StepCost, Want

Goal = tuple[int, int]  # a want: (relation, subquery)
# Nodes from the last before the goal to the start, each with its moves (move, place of the next node, what the want
# needs of the move); 0 is the goal.
Route = list[tuple[int, list[tuple[int, int, float]]]]
NO_INDEX = -1


@dataclass(frozen=True)
class Neighbour:
    """What links one relation of a query to another."""

    place: int  # of the other relation
    links: int  # as a mask of all links
    of_stream: tuple[int, ...]  # the attributes on the first relation's side, as the stream's store names them,
    of_result: tuple[int, ...]  # and as a materialized store names them


@dataclass
class QuerySpace:
    """A query in its shape."""

    query: QueryGraph
    shape: Shape
    relations: list[str]
    neighbours: list[list[Neighbour]]
    subs: list[int] = field(default_factory=list)  # for each position of the shape the number of the subquery


class _Keys:
    """What the space knows a set of relations of a query by: (relations, links)."""

    def __init__(self, bits: list[int], neighbours: list[list[Neighbour]]) -> None:
        self._bits, self._neighbours = bits, neighbours

    def __call__(self, mask: int) -> tuple[int, int]:
        part = joined = 0
        for at, bit in enumerate(self._bits):
            if mask >> at & 1:
                part |= bit
                for other in self._neighbours[at]:
                    if mask >> other.place & 1:
                        joined |= other.links
        return part, joined


class Space:
    """The problem in numbers: moves and routes are added when they are first needed."""

    def __init__(self, problem: Problem, known: Mapping[Want, Path] | None = None, *, only_known: bool = False) -> None:
        """With `only_known`, a query that is not narrow and has paths gets no others to choose from."""
        self.problem = problem
        self._known = known or {}
        self._only_known = only_known
        self.relations = list(problem.relations)
        self.number = {relation: at for at, relation in enumerate(self.relations)}
        links = sorted({link for query in problem.queries for link in query.links}, key=lambda link: link.text)
        self._links = links
        self._link_bits = {link: 1 << at for at, link in enumerate(links)}
        self.attributes: list[Attribute] = []
        self._attributes: dict[Attribute, int] = {}
        self._side = {
            link: tuple(self._name(end) for end in (link.left, link.right)) for link in links if link.theta is None
        }
        # Subqueries
        self.subquery: list[Subquery] = []
        self.store: list[int] = []  # the number of the store that holds its tuples
        self.host: list[tuple[QuerySpace, int]] = []  # a query that contains it, and its position there
        self.members: list[list[int]] = []  # its relations
        self._subs: dict[tuple[int, int], int] = {}
        # Moves
        self.step: list[StepCost] = []
        self.broadcast: list[float] = []  # what a move costs more where no layout of the store is known
        self.index: list[int] = []  # the index that it needs, as a number
        self.indexes: list[tuple[int, float]] = []  # the store of each index, and what the index costs
        self.moves_by: list[list[int]] = []  # index -> moves
        self.ways: list[tuple[int, int]] = []  # the subqueries before and after
        self.ends: list[tuple[int, ...]] = []  # attributes of the probed store that the step knows
        self.probed: list[int] = []  # the store
        self.visited: list[int] = []  # the subquery whose tuples are found there
        self.moves_on: dict[int, list[int]] = {}  # store -> moves
        self.wants_over: dict[int, list[Goal]] = {}  # store -> wants with a way through it
        self._moves: dict[tuple[int, int, int], int] = {}
        self._indexes: dict[tuple[int, tuple[int, ...]], int] = {}
        self._keeping: dict[int, float] = {}
        self._needs: dict[tuple[Goal, int], float] = {}
        self._sees: dict[tuple[int, int], bool] = {}
        self._routes: dict[tuple[int, int, bool], Route] = {}

        for relation in self.relations:
            self._add((1 << self.number[relation], 0), (relation,), None)
        distinct = {query.links if query.links else query.relations: query for query in problem.queries}
        # The subqueries of narrow queries come first: their hosts have all ways to them.
        self._width = width_for(sum(not problem.is_narrow(query) for query in distinct.values()))
        self.queries = [
            self._read(query)
            for query in sorted(
                distinct.values(),
                key=lambda one: (not problem.is_narrow(one), sorted(self._link_bits[link] for link in one.links)),
            )
        ]
        wanted = {(self.number[start], query.subs[-1]) for query in self.queries for start in query.relations}
        self.wants: list[Goal] = sorted(want for want in wanted if len(self.members[want[1]]) > 1)

    def _name(self, end: Attribute) -> tuple[int, int]:
        """An end's number in a stream's store and in a materialized one."""
        names = (stream_of(end[0]), end[1]), end
        for name in names:
            if name not in self._attributes:
                self._attributes[name] = len(self.attributes)
                self.attributes.append(name)
        return self._attributes[names[0]], self._attributes[names[1]]

    def _read(self, query: QueryGraph) -> QuerySpace:
        linked: dict[str, dict[str, list[Link]]] = {relation: {} for relation in sorted(query.relations)}
        for link in sorted(query.links, key=self._link_bits.__getitem__):
            left, right = link.left[0], link.right[0]
            linked[left].setdefault(right, []).append(link)
            linked[right].setdefault(left, []).append(link)
        relations = alike({relation: list(others) for relation, others in linked.items()})
        place = {relation: at for at, relation in enumerate(relations)}
        neighbours = [
            [self._neighbour(relation, place[other], links) for other, links in linked[relation].items()]
            for relation in relations
        ]
        masks = tuple(sum(1 << other.place for other in others) for others in neighbours)
        found = shape(masks) if self.problem.is_narrow(query) else self._chosen(query, relations, neighbours, masks)
        space = QuerySpace(query, found, relations, neighbours)
        keys: list[tuple[int, int]] = []  # (relations, links) of each position
        for at, (mask, (smaller, added)) in enumerate(zip(space.shape.masks, space.shape.grown, strict=True)):
            key = (1 << self.number[relations[added]], 0)
            if at >= len(relations):
                part, joined = keys[smaller]
                for other in neighbours[added]:
                    if mask >> other.place & 1:
                        joined |= other.links
                key = (part | key[0], joined)
            keys.append(key)
            sub = self._subs.get(key)
            if sub is None:
                names = tuple(relation for at, relation in enumerate(relations) if mask >> at & 1)
                sub = self._add(key, names, (space, at))
            space.subs.append(sub)
        for at in (*(found.stores or ()), len(found.masks) - 1):
            if at >= len(relations):
                self.host[space.subs[at] - len(self.relations)] = (space, at)  # another may have it, but few ways to it
        return space

    def _chosen(
        self, query: QueryGraph, relations: list[str], neighbours: list[list[Neighbour]], linked: tuple[int, ...]
    ) -> Shape:
        """The shape of some sets of a query: those on paths that are known, and on others that are probably cheap."""
        orders = ProbeOrders(self.problem, query, relations)
        pending = [(relation, query.whole) for relation in relations]
        complete = all(want in self._known for want in pending)
        sets, stores = {(1 << len(relations)) - 1}, set()
        seen = set(pending)
        while pending:
            want = pending.pop()
            path = self._known.get(want, ())
            sets |= orders.sets_of(want[0], path)
            for store in path:
                if not store.is_stream:
                    stores.add(orders.mask_of(store.relations))
                    more = {(start, store) for start in store.relations} - seen
                    seen |= more
                    pending += more
        if not (complete and self._only_known):
            key_of = _Keys([1 << self.number[relation] for relation in relations], neighbours)
            for start in range(len(relations)):
                sets |= orders.sets(start, self._width)
                if len(self.problem.queries) > 1:
                    sets |= orders.sets(start, 1, free=lambda mask: key_of(mask) in self._subs)
        return chosen_shape(linked, sets, stores)

    def _neighbour(self, relation: str, place: int, links: list[Link]) -> Neighbour:
        equalities = [link for link in links if link.theta is None]
        sides = [self._side[link][0 if link.left[0] == relation else 1] for link in equalities]
        of_stream, of_result = (tuple(sorted({side[kind] for side in sides})) for kind in (0, 1))
        return Neighbour(place, sum(self._link_bits[link] for link in links), of_stream, of_result)

    def _add(self, key: tuple[int, int], names: tuple[str, ...], host: tuple[QuerySpace, int] | None) -> int:
        sub = self._subs[key] = len(self.subquery)
        if host is None:
            found = Subquery(frozenset(names), frozenset())
            self.store.append(self.number[stream_of(names[0])])
        else:
            found = host[0].query.within(frozenset(names))
            self.store.append(sub)
            self.host.append(host)
        self.subquery.append(found)
        self.members.append([self.number[name] for name in names])
        return sub

    def route(self, want: Goal, stores: bool) -> Route:
        """The ways from a relation to a subquery that contains it, through materialized stores too if asked."""
        start, target = want
        found = self._routes.get((start, target, stores))
        if found is not None:
            return found
        space, goal = self.host[target - len(self.relations)]
        if stores and space.shape.stores == frozenset():
            return self.route(want, False)
        subs, moves = space.subs, self._moves
        route: Route = []
        stores_met: dict[int, None] = {}
        for node, steps in space.shape.walk(space.relations.index(self.relations[start]), goal, stores):
            options = []
            for at, added, union, there in steps:
                move = moves.get((start, subs[at], subs[union]))
                if move is None:
                    move = self._add_move(start, space, at, added, union)
                options.append((move, there, self.need(want, move)))
                stores_met[self.probed[move]] = None
            route.append((node, options))
        self._routes[start, target, stores] = route
        for store in stores_met:
            self.wants_over.setdefault(store, []).append(want)
        return route

    def _add_move(self, start: int, space: QuerySpace, at: int, added: int, union: int) -> int:
        here, found = space.subs[at], space.subs[added]
        move = self._moves[start, here, space.subs[union]] = len(self.step)
        mask = space.shape.masks[at]
        ends: set[int] = set()
        links = 0
        if added < len(space.relations):
            for other in space.neighbours[added]:
                if mask >> other.place & 1:
                    ends.update(other.of_stream)
                    links |= other.links
        else:
            for place, neighbours in enumerate(space.neighbours):
                if space.shape.masks[added] >> place & 1:
                    for other in neighbours:
                        if mask >> other.place & 1:
                            ends.update(other.of_result)
                            links |= other.links
        known = []
        while links:
            known.append(self._links[(links & -links).bit_length() - 1])
            links &= links - 1
        union, node = space.subs[union], (self.relations[start], self.subquery[here])
        step = self.problem.step(node, self.subquery[found], self.subquery[union], known)
        self.step.append(step)
        self.broadcast.append(self.problem.broadcast(step, node, self.subquery[union]))
        self.ends.append(tuple(ends))
        self.probed.append(self.store[found])
        self.visited.append(found)
        self.ways.append((here, union))
        self.index.append(self._index_of(self.store[found], tuple(sorted(ends)), move) if ends else NO_INDEX)
        self.moves_on.setdefault(self.store[found], []).append(move)
        return move

    def _index_of(self, store: int, ends: tuple[int, ...], move: int) -> int:
        number = self._indexes.setdefault((store, ends), len(self.indexes))
        if number == len(self.indexes):
            self.indexes.append((store, self.problem.indexing(self.subquery[store])))
            self.moves_by.append([])
        self.moves_by[number].append(move)
        return number

    def need(self, want: Goal, move: int) -> float:
        """What a want needs of a move, apart from what is fixed."""
        step = self.step[move]
        if not self.problem.demands:
            return step.probing + step.matching
        found = self._needs.get((want, move))
        if found is None:
            here, joined = (self.subquery[sub] for sub in self.ways[move])
            found = self._needs[want, move] = self.problem.needed(step, self.want(want), here, joined)
        return found

    def rows(self, store: int) -> float:
        return self.problem.stored(self.subquery[store])

    def keeping(self, store: int) -> float:
        if store not in self._keeping:
            self._keeping[store] = self.problem.keeping(self.subquery[store])
        return self._keeping[store]

    def sees(self, start: int, store: int) -> bool:
        """Whether rows of a start see rows of the current tick in a materialized store."""
        key = (start, store)
        if key not in self._sees:
            self._sees[key] = bool(seen(self.relations[start], self.subquery[store]))
        return self._sees[key]

    def any_layout(self, store: int) -> int:
        """A layout for a store to which no choice of one matters."""
        return self.end(self.problem.layout_candidates(self.subquery[store])[0])

    def end(self, layout: Attribute) -> int:
        """The number of a layout, which need not be one that a link has."""
        self._name(layout)
        return self._attributes[layout]

    def want(self, want: Goal) -> Want:
        return self.relations[want[0]], self.subquery[want[1]]

    def path(self, moves: list[int]) -> Path:
        return tuple(self.subquery[self.visited[move]] for move in moves)

    @cached_property
    def numbers(self) -> dict[Subquery, int]:
        return {subquery: at for at, subquery in enumerate(self.subquery)}

    def goal(self, want: Want) -> Goal:
        return self.number[want[0]], self.numbers[want[1]]

    def read(self, want: Want, path: Path) -> list[int]:
        """The moves of a path that another searcher found. Of other ways to its goal nothing needs to be known."""
        start, target = self.goal(want)
        space, goal = self.host[target - len(self.relations)]
        place, position = {relation: at for at, relation in enumerate(space.relations)}, space.shape.index
        here, moves = 1 << place[want[0]], []
        for store in path:
            added = sum(1 << place[relation] for relation in store.relations)
            at, found, union = (position[mask] for mask in (here, added, here | added))
            move = self._moves.get((start, space.subs[at], space.subs[union]))
            moves.append(self._add_move(start, space, at, found, union) if move is None else move)
            here |= added
        assert position[here] == goal, f"the path from {want[0]} does not lead to {want[1]}"
        return moves
