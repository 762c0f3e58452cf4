"""A problem in small integers: what the heuristic searchers walk over many thousand times a second.

Relations, attributes, subqueries and moves have numbers, which follow from sorted names: neither the order of the
queries nor their names change a plan. A *want* is (relation, subquery) here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from watersmeet.deadline import look
from watersmeet.optimize.heuristic.bitmask_lattice import Shape, alike, shape
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


class Space:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
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
        self.queries = [
            self._read(query)
            for query in sorted(distinct.values(), key=lambda one: sorted(self._link_bits[link] for link in one.links))
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
        space = QuerySpace(query, shape(masks), relations, neighbours)
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
                look()
                names = tuple(relation for at, relation in enumerate(relations) if mask >> at & 1)
                sub = self._add(key, names, (space, at))
            space.subs.append(sub)
        return space

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
        look()
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
    def _numbers(self) -> dict[Subquery, int]:
        return {subquery: at for at, subquery in enumerate(self.subquery)}

    def goal(self, want: Want) -> Goal:
        return self.number[want[0]], self._numbers[want[1]]

    def read(self, want: Want, path: Path) -> list[int]:
        """The moves of a path that another searcher found."""
        goal = self.goal(want)
        stores = any(len(store) > 1 for store in path)
        route = dict(self.route(goal, stores))
        node, moves = len(route), []
        for store in path:
            visited = self._numbers[store]
            found = next((option for option in route[node] if self.visited[option[0]] == visited), None)
            assert found is not None, f"no way from {want[0]} through {store} to {want[1]}"
            move, node, _ = found
            moves.append(move)
        return moves
