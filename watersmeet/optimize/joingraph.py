"""Queries as the optimizer sees them: relations, what links them, and the subqueries that partial results stand for.

A *relation* is a use of a stream in a query: `r`, and `r@2` for the second alias over r in one query. Names of
aliases do not matter, so the same subquery in different queries is the same value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TypeVar

from watersmeet.model import JoinForm, KeyPart, Theta
from watersmeet.model.expression import Sql
from watersmeet.model.identity import identity, spelled_as

_Node = TypeVar("_Node")
Attribute = tuple[str, KeyPart]  # a key of a relation
NO_KEY = KeyPart(Sql(("",)), "none")  # of a link that is no equality
_ROUND_ROBIN = "round-robin"  # in place of a type
# Plans are searched among all connected sets of a query if it has at most LATTICE: every query of eight relations,
# chains and cycles of sixteen (a star of sixteen has 32,783). Many queries together have at most LATTICES, unless each
# has hardly any.
LATTICE, LATTICES, LEAST_LATTICE = 300, 6000, 31


def round_robin(partitions: int) -> KeyPart:
    """The layout of a store that no equality leads to: its rows are spread round-robin over some partitions."""
    return KeyPart(Sql((str(partitions),)), _ROUND_ROBIN)


def round_robin_over(layout: KeyPart) -> int | None:
    """The number of partitions over which a layout spreads rows round-robin; None if it is a key."""
    return int(layout.expression.text) if layout.type == _ROUND_ROBIN else None


@spelled_as("Link", "left", "right", "theta")
@dataclass(frozen=True)
class Link:
    """What joins two relations, the smaller name first: an equality of two keys, or a theta and no keys."""

    left: Attribute
    right: Attribute
    theta: Theta | None = None
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Links are in the sets that every subquery is made of.
        object.__setattr__(self, "_hash", hash((self.left, self.right, self.theta)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        # Hashes of strings differ between processes: the kept one must not travel.
        return Link, (self.left, self.right, self.theta)

    @cached_property
    def relations(self) -> frozenset[str]:
        return frozenset((self.left[0], self.right[0]))

    @cached_property
    def text(self) -> str:
        """A spelling that orders links, and tells them apart on disk."""
        return identity(self)

    @cached_property
    def reads(self) -> tuple[Attribute, ...]:
        """All that a test of this link needs to know of the two rows."""
        if self.theta is None:
            return self.left, self.right
        sides = ((self.left[0], self.theta.left), (self.right[0], self.theta.right))
        found = [(relation, part) for relation, parts in sides for part in parts]
        if self.theta.band is not None:
            found += [(self.left[0], self.theta.band.left), (self.right[0], self.theta.band.right)]
        return tuple(found)

    def ends(self, inside: Collection[str]) -> tuple[Attribute, Attribute]:
        """The end within some relations, and the other one."""
        return (self.left, self.right) if self.left[0] in inside else (self.right, self.left)


@dataclass(frozen=True)
class Subquery:
    """A connected set of relations with all links that the query has between them."""

    relations: frozenset[str]
    links: frozenset[Link]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Subqueries are keys of every table of the search; hashing two sets each time would dominate it.
        object.__setattr__(self, "_hash", hash((self.relations, self.links)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return Subquery, (self.relations, self.links)

    def __len__(self) -> int:
        return len(self.relations)

    def __str__(self) -> str:
        return "⋈".join(sorted(self.relations))

    @cached_property
    def sort_key(self) -> tuple[object, ...]:
        """An order that does not depend on hashing, so that plans are a function of their input."""
        return len(self), sorted(self.relations), sorted(link.text for link in self.links)

    @property
    def is_stream(self) -> bool:
        return len(self.relations) == 1


@dataclass(frozen=True)
class QueryGraph:
    """A join as the optimizer sees it: relations and the links between them."""

    name: str
    relations: tuple[str, ...]  # in the order of the query's aliases
    links: frozenset[Link]

    @cached_property
    def whole(self) -> Subquery:
        return Subquery(frozenset(self.relations), self.links)

    @cached_property
    def _within(self) -> dict[frozenset[str], Subquery]:
        return {}

    def within(self, relations: frozenset[str]) -> Subquery:
        found = self._within.get(relations)
        if found is None:
            found = Subquery(relations, frozenset(link for link in self.links if link.relations <= relations))
            self._within[relations] = found
        return found

    @cached_property
    def neighbours(self) -> dict[str, frozenset[str]]:
        return {
            relation: frozenset().union(*(link.relations for link in self.links if relation in link.relations))
            - {relation}
            for relation in self.relations
        }

    @cached_property
    def connected(self) -> tuple[Subquery, ...]:
        """The materializable intermediate results: every connected subset, streams and the whole included.

        Only for queries that are narrow (`Problem.is_narrow`): others may have 2^relations of them."""
        subsets = (
            frozenset(relation for at, relation in enumerate(self.relations) if mask >> at & 1)
            for mask in self._connected_masks()
        )
        return tuple(sorted(map(self.within, subsets), key=lambda sub: sub.sort_key))

    @cached_property
    def size(self) -> int:
        """The number of connected sets, if it is at most LATTICE, otherwise one more."""
        return sum(1 for _ in islice(self._connected_masks(), LATTICE + 1))

    def _connected_masks(self) -> Iterator[int]:
        """The connected sets, as masks of the relations."""
        bits = {relation: 1 << at for at, relation in enumerate(self.relations)}
        near = [sum(bits[other] for other in self.neighbours[relation]) for relation in self.relations]
        found, frontier = set(bits.values()), list(bits.values())
        yield from bits.values()
        while frontier:
            mask = frontier.pop()
            for at, linked in enumerate(near):
                larger = mask | 1 << at
                if linked & mask and larger not in found:
                    found.add(larger)
                    frontier.append(larger)
                    yield larger

    def reachable(self, relations: frozenset[str]) -> frozenset[str]:
        """The relations outside that a link leads to from these."""
        return frozenset().union(*(self.neighbours[relation] for relation in relations)) - relations


def root_of(parent: Mapping[_Node, _Node], one: _Node) -> _Node:
    """Which of those that are known to be the same stands for all of them."""
    while parent.get(one, one) != one:
        one = parent[one]
    return one


def lattice_limit(queries: int) -> int:
    """How many connected sets each of so many different queries may have if plans are searched among all of them."""
    return max(LEAST_LATTICE, min(LATTICE, LATTICES // max(1, queries)))


def relation_of(stream: str, occurrence: int) -> str:
    return stream if occurrence == 1 else f"{stream}@{occurrence}"


def stream_of(relation: str) -> str:
    return relation.split("@", maxsplit=1)[0]


def single(relation: str) -> Subquery:
    """A relation by itself, or the store of a stream."""
    return Subquery(frozenset((relation,)), frozenset())


def store_of(subquery: Subquery) -> Subquery:
    """The store that holds a subquery's tuples: all relations over one stream share the stream's."""
    return single(stream_of(min(subquery.relations))) if subquery.is_stream else subquery


def end_in(store: Subquery, link: Link) -> Attribute:
    """The attribute by which an equality looks into a store, as the store names it."""
    relation, part = link.ends(store.relations)[0]
    return (stream_of(relation), part) if store.is_stream else (relation, part)


def relations_of(join: JoinForm) -> dict[str, str]:
    """For each alias its relation."""
    seen: dict[str, int] = {}
    named = {}
    for alias in join.aliases:
        seen[alias.stream] = seen.get(alias.stream, 0) + 1
        named[alias.name] = relation_of(alias.stream, seen[alias.stream])
    return named


def graph_of(name: str, join: JoinForm) -> QueryGraph:
    named = relations_of(join)
    links = []
    for equality in join.equalities:
        ends = [(named[equality.left], equality.left_key), (named[equality.right], equality.right_key)]
        ends.sort(key=lambda end: (end[0], end[1].sort_key))
        links.append(Link(ends[0], ends[1]))
    for predicate in join.predicates:
        one, other = named[predicate.left], named[predicate.right]
        theta = predicate.theta if one < other else predicate.mirrored
        links.append(Link((min(one, other), NO_KEY), (max(one, other), NO_KEY), theta))
    return QueryGraph(name, tuple(named.values()), frozenset(links))


def links_between(links: Iterable[Link], left: frozenset[str], right: frozenset[str]) -> Iterator[Link]:
    for link in links:
        one, other = link.left[0], link.right[0]
        if (one in left and other in right) or (other in left and one in right):
            yield link
