"""Queries with a leaf as parts that are inner joins.

`a LEFT JOIN b` is two things: the inner join of both, and the rows of a that have no partner. The first is a query like
any other. The second is the *preserved* side, itself an inner join of one or more aliases, whose results are looked up
in b before they leave: a *leaf check*. SEMI and ANTI joins have the second part only. The optimizer and the compiler
work with parts; each finds its way to the results of the query that it is a part of.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from watersmeet.model import Alias, Query
from watersmeet.model.expression import Expression, all_of
from watersmeet.model.query import LEFT_JOIN, SEMI_JOIN, Leaf
from watersmeet.optimize.joingraph import Link, graph_of, relations_of
from watersmeet.plan.ruleset import UNBOUNDED


@dataclass(frozen=True)
class LeafJoin:
    """How a leaf is joined. Queries that do it in the same way share leaf checks, whatever their filters."""

    wants_partner: bool  # or else those without one
    relation: str
    links: frozenset[Link]  # between the leaf and the preserved relations
    window: int
    windows: tuple[tuple[str, int], ...]  # of the preserved relations


@dataclass(frozen=True)
class Part(Query):
    """The preserved side of a query with a leaf."""

    of: str = field(kw_only=True)  # the query
    leaf_alias: Alias = field(kw_only=True)
    join: LeafJoin = field(kw_only=True)

    def __post_init__(self) -> None:
        """The query that it is a part of has been checked."""


def parts_of(queries: Iterable[Query]) -> list[Query]:
    """All queries as inner joins."""
    return [part for query in queries for part in _parts(query)]


def query_of(part: Query) -> str:
    """The name of the query that a part belongs to."""
    return part.of if isinstance(part, Part) else part.name


def leaf_of(part: Query) -> LeafJoin | None:
    return part.join if isinstance(part, Part) else None


def _parts(query: Query) -> Iterable[Query]:
    if query.leaf is None:
        yield query
        return
    if query.leaf.kind == LEFT_JOIN:
        yield _joined(query, query.leaf)
    yield _preserved(query, query.leaf)


def _joined(query: Query, leaf: Leaf) -> Query:
    """The results with a partner."""
    *others, last = query.aliases
    return replace(
        query,
        aliases=(*others, replace(last, filter=_both(last.filter, leaf.filter))),
        equalities=tuple(dict.fromkeys((*query.equalities, *leaf.equalities))),
        predicates=tuple(dict.fromkeys((*query.predicates, *leaf.predicates))),
        leaf=None,
    )


def _preserved(query: Query, leaf: Leaf) -> Part:
    *others, last = query.aliases
    missing = dict(leaf.missing)
    relations, graph = relations_of(query), graph_of(query)
    own = relations[last.name]
    join = LeafJoin(
        leaf.kind == SEMI_JOIN,
        own,
        frozenset(link for link in graph.links if own in link.relations),
        _window(last),
        tuple(sorted((relations[alias.name], _window(alias)) for alias in others)),
    )
    return Part(
        f"{query.name} {'with' if join.wants_partner else 'without'} {last.name}",
        tuple(replace(alias, filter=_both(alias.filter, missing.get(alias.name))) for alias in others),
        tuple(equality for equality in query.equalities if not equality.touches(last.name)),
        query.outputs,
        query.sink,
        query.sql,
        query.backfill,
        query.since,
        query.addition,
        tuple(predicate for predicate in query.predicates if not predicate.touches(last.name)),
        query.resumed,
        of=query.name,
        leaf_alias=last,
        join=join,
    )


def _both(one: Expression | None, other: Expression | None) -> Expression | None:
    return all_of([each for each in (one, other) if each is not None]) if one or other else None


def _window(alias: Alias) -> int:
    return UNBOUNDED if alias.window is None else min(alias.window, UNBOUNDED)
