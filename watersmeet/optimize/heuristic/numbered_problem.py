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
from watersmeet.optimize.problem import Path, Problem, Want

Goal = tuple[int, int]  # a want: (relation, subquery)
# Nodes from the last before the goal to the start, each with its moves (move, place of the next node); 0 is the goal.
Route = list[tuple[int, list[tuple[int, int]]]]


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
        self.size: list[float] = []
        self.store: list[int] = []  # the number of the store that holds its tuples
        self.host: list[tuple[QuerySpace, int]] = []  # a query that contains it, and its position there
        self.members: list[list[int]] = []  # its relations
        self._subs: dict[tuple[int, int], int] = {}
        # Moves
        # Cost without broadcast; but where no equality leads to the store all of it: no choice of a layout changes it.
        self.base: list[float] = []
        self.ends: list[tuple[int, ...]] = []  # attributes of the probed store that the step knows
        self.probed: list[int] = []  # the store
        self.visited: list[int] = []  # the subquery whose tuples are found there
        self.moves_on: dict[int, list[int]] = {}  # store -> moves
        self.wants_over: dict[int, list[Goal]] = {}  # store -> wants with a way through it
        self._moves: dict[tuple[int, int, int], int] = {}
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
        self.size.append(self.problem.size(found))
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
                options.append((move, there))
                stores_met[self.probed[move]] = None
            route.append((node, options))
        self._routes[start, target, stores] = route
        for store in stores_met:
            self.wants_over.setdefault(store, []).append(want)
        return route

    def _add_move(self, start: int, space: QuerySpace, at: int, added: int, union: int) -> int:
        look()
        here, found = space.subs[at], space.subs[added]
        move = self._moves[start, here, space.subs[union]] = len(self.base)
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
        factor = 1.0 if ends else self._factor(found, links)
        self.base.append(self.size[here] / len(self.members[here]) * factor)
        self.ends.append(tuple(ends))
        self.probed.append(self.store[found])
        self.visited.append(found)
        self.moves_on.setdefault(self.store[found], []).append(move)
        return move

    def _factor(self, found: int, links: int) -> float:
        known = [link for at, link in enumerate(self._links) if links >> at & 1]
        return self.problem.factor(self.subquery[found], known, ())

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
            move, node = found
            moves.append(move)
        return moves
