"""Queries with a leaf as parts that are inner joins.

`a LEFT JOIN b` is two things: the inner join of both, and the rows of a that have no partner. The first is a query like
any other. The second is the *preserved* side, itself an inner join of one or more aliases, whose results are looked up
in b before they leave: a *leaf check*. SEMI and ANTI joins have the second part only. The optimizer and the compiler
work with parts; each finds its way to the results of the query that it is a part of.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from watersmeet.model import Alias, JoinForm, Query
from watersmeet.model.expression import Expression, all_of
from watersmeet.model.join import LEFT_JOIN, SEMI_JOIN, Leaf
from watersmeet.optimize.joingraph import Link, QueryGraph, graph_of, relations_of
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
class JoinPart:
    """An inner join as the optimizer sees it, and the query whose results it finds."""

    name: str  # that of the query, or a longer one
    query: Query
    join: JoinForm  # without a leaf
    leaf: LeafJoin | None = None  # of the preserved side of a query with a leaf,
    leaf_alias: Alias | None = None  # and the alias that is the leaf

    @cached_property
    def graph(self) -> QueryGraph:
        return graph_of(self.name, self.join)

    @cached_property
    def by_relation(self) -> dict[str, Alias]:
        """The alias of each relation, also of the leaf's."""
        found = {relation: self.join.by_name[alias] for alias, relation in relations_of(self.join).items()}
        if self.leaf is not None and self.leaf_alias is not None:
            found[self.leaf.relation] = self.leaf_alias
        return found

    def window(self, relation: str) -> int:
        return _window(self.by_relation[relation])

    @property
    def definition(self) -> JoinPart:
        """The part without what depends on when its query was added."""
        return replace(self, query=self.query.definition)

    @property
    def is_backfilled(self) -> bool:
        """Whether results among stored rows are to be found; a windowed query fills its slices instead."""
        return self.query.backfill and not self.query.is_windowed


def parts_of(queries: Iterable[Query]) -> list[JoinPart]:
    """All joins of queries as inner joins, those below windows last."""
    return [part for query in sorted(queries, key=lambda query: query.is_windowed) for part in _parts(query)]


def _parts(query: Query) -> Iterable[JoinPart]:
    join = query.join
    if join is None:
        return
    if join.leaf is None:
        yield JoinPart(query.name, query, join)
        return
    if join.leaf.kind == LEFT_JOIN:
        yield JoinPart(query.name, query, _joined(join, join.leaf))
    yield _preserved(query, join, join.leaf)


def _joined(join: JoinForm, leaf: Leaf) -> JoinForm:
    """The part of a query with a leaf that finds the results with a partner."""
    *others, last = join.aliases
    return replace(
        join,
        aliases=(*others, replace(last, filter=_both(last.filter, leaf.filter))),
        equalities=tuple(dict.fromkeys((*join.equalities, *leaf.equalities))),
        predicates=tuple(dict.fromkeys((*join.predicates, *leaf.predicates))),
        leaf=None,
    )


def _preserved(query: Query, join: JoinForm, leaf: Leaf) -> JoinPart:
    *others, last = join.aliases
    missing = dict(leaf.missing)
    relations, graph = relations_of(join), graph_of(query.name, join)
    own = relations[last.name]
    of_leaf = LeafJoin(
        leaf.kind == SEMI_JOIN,
        own,
        frozenset(link for link in graph.links if own in link.relations),
        _window(last),
        tuple(sorted((relations[alias.name], _window(alias)) for alias in others)),
    )
    preserved = JoinForm(
        tuple(replace(alias, filter=_both(alias.filter, missing.get(alias.name))) for alias in others),
        tuple(equality for equality in join.equalities if not equality.touches(last.name)),
        join.outputs,
        tuple(predicate for predicate in join.predicates if not predicate.touches(last.name)),
    )
    name = f"{query.name} {'with' if of_leaf.wants_partner else 'without'} {last.name}"
    return JoinPart(name, query, preserved, of_leaf, last)


def _both(one: Expression | None, other: Expression | None) -> Expression | None:
    return all_of([each for each in (one, other) if each is not None]) if one or other else None


def longest_windows(aliases: Iterable[Alias]) -> dict[str, int]:
    """For each stream its longest window in microseconds; UNBOUNDED: the stream is kept for ever."""
    found: dict[str, int] = {}
    for alias in aliases:
        found[alias.stream] = max(found.get(alias.stream, 0), _window(alias))
    return found


def _window(alias: Alias) -> int:
    return UNBOUNDED if alias.window is None else min(alias.window, UNBOUNDED)
