"""A query whose names are resolved: columns say of which relation they are, and every relation has a label of its own.

Scalars are nodes of sql/tree.py, with `Bound` in the place of columns, `WindowEnd` for the ends of the window, and
`Nested` in the place of subqueries. WITH is gone: each use of a name is the query itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from watersmeet.sql.syntax import Name
from watersmeet.sql.tree import Scalar, SortKey


@dataclass(frozen=True)
class OutColumn:
    """A column of a relation: its name in SQL, and what it is called in the text for Spark."""

    name: str
    label: str
    type: str


@dataclass(frozen=True)
class Bound(Scalar):
    """A column of a relation of FROM, or of the query around."""

    relation: str  # its label
    column: str  # its label
    type: str


@dataclass(frozen=True)
class WindowEnd(Scalar):
    """window_start or window_end."""

    end: bool


@dataclass(frozen=True)
class Nested(Scalar):
    """A subquery in a scalar: its value, whether it has rows (exists), or whether a value is among its rows (in)."""

    kind: str  # value, exists, in
    query: ResolvedQuery
    value: Scalar | None = None
    type: str = "boolean"


@dataclass(frozen=True)
class Scan:
    """One use of a stream in FROM."""

    label: str
    alias: str
    stream: str


@dataclass(frozen=True)
class Subselect:
    """A subquery in FROM."""

    label: str
    query: ResolvedQuery


@dataclass(frozen=True)
class ResolvedJoin:
    """A join of two sources; USING and NATURAL are a part of `on`."""

    kind: str
    left: ResolvedSource
    right: ResolvedSource
    on: Scalar | None
    written: Name


ResolvedSource = Scan | Subselect | ResolvedJoin


@dataclass(frozen=True)
class ResolvedSelect:
    """A SELECT."""

    outputs: tuple[OutColumn, ...]
    values: tuple[Scalar, ...]  # one for each output
    source: ResolvedSource | None
    where: Scalar | None
    group: tuple[Scalar, ...] | None  # None: no GROUP BY
    having: Scalar | None
    aggregated: bool  # with GROUP BY, HAVING or an aggregate
    distinct: bool
    order: tuple[SortKey, ...]
    limit: int | None
    offset: int


@dataclass(frozen=True)
class ResolvedSetOperation:
    """UNION, INTERSECT or EXCEPT of two queries."""

    outputs: tuple[OutColumn, ...]
    operator: str
    left: ResolvedQuery
    right: ResolvedQuery
    order: tuple[SortKey, ...]  # over Bound columns of relation ""
    limit: int | None
    offset: int


ResolvedQuery = ResolvedSelect | ResolvedSetOperation


def scans(query: ResolvedQuery) -> Iterator[Scan]:
    """All uses of streams, also inside of subqueries."""
    for source in sources(query):
        if isinstance(source, Scan):
            yield source
        elif isinstance(source, Subselect):
            yield from scans(source.query)
    for node in nodes(query):
        if isinstance(node, Nested):
            yield from scans(node.query)


def sources(query: ResolvedQuery) -> Iterator[ResolvedSource]:
    """Those of its own FROM, and of both sides of a set operation."""
    if isinstance(query, ResolvedSetOperation):
        yield from sources(query.left)
        yield from sources(query.right)
        return
    waiting = [query.source] if query.source else []
    while waiting:
        source = waiting.pop()
        yield source
        if isinstance(source, ResolvedJoin):
            waiting += [source.left, source.right]


def nodes(query: ResolvedQuery) -> Iterator[Scalar]:
    """All scalars of a query, each with what is below it, but not those of subqueries."""
    if isinstance(query, ResolvedSetOperation):
        yield from nodes(query.left)
        yield from nodes(query.right)
        return
    roots = [*query.values, query.where, *(query.group or ()), query.having, *(each.value for each in query.order)]
    roots += [source.on for source in sources(query) if isinstance(source, ResolvedJoin)]
    for root in roots:
        if root is not None:
            yield from root.walk()


def all_nodes(query: ResolvedQuery) -> Iterator[Scalar]:
    """All scalars of a query and of the subqueries inside."""
    for node in nodes(query):
        yield node
        if isinstance(node, Nested):
            yield from all_nodes(node.query)
    for source in sources(query):
        if isinstance(source, Subselect):
            yield from all_nodes(source.query)
