"""A query whose names are resolved: columns say of which relation they are, and every relation has a label of its own.

Scalars are nodes of sql/tree.py, with `Bound` in the place of columns, `WindowEnd` for the ends of the window, and
`Nested` in the place of subqueries. WITH is gone: each use of a name is the query itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from watersmeet.sql.syntax import Name
from watersmeet.sql.tree import Node, Ordered


@dataclass(frozen=True)
class OutColumn:
    """A column of a relation: its name in SQL, and what it is called in the text for Spark."""

    name: str
    label: str
    type: str


@dataclass(frozen=True)
class Bound(Node):
    relation: str  # its label
    column: str  # its label
    type: str


@dataclass(frozen=True)
class WindowEnd(Node):
    end: bool


@dataclass(frozen=True)
class Nested(Node):
    """A subquery as a value, [a test whether it has rows, or whether it has a value]."""

    kind: str  # value, exists, in
    query: Query
    value: Node | None = None
    type: str = "boolean"


@dataclass(frozen=True)
class Scan:
    """The rows of a stream in the window."""

    label: str
    alias: str
    stream: str
    columns: tuple[OutColumn, ...]


@dataclass(frozen=True)
class Subselect:
    label: str
    query: Query


@dataclass(frozen=True)
class Joined:
    kind: str
    left: Source
    right: Source
    on: Node | None
    written: Name


Source = Scan | Subselect | Joined


@dataclass(frozen=True)
class Select:
    outputs: tuple[OutColumn, ...]
    values: tuple[Node, ...]  # one for each output
    source: Source | None
    where: Node | None
    group: tuple[Node, ...] | None  # None: no GROUP BY
    having: Node | None
    aggregated: bool  # with GROUP BY, HAVING or an aggregate
    distinct: bool
    order: tuple[Ordered, ...]
    limit: int | None
    offset: int


@dataclass(frozen=True)
class SetOperation:
    outputs: tuple[OutColumn, ...]
    operator: str
    left: Query
    right: Query
    order: tuple[Ordered, ...]  # over Bound columns of relation ""
    limit: int | None
    offset: int


Query = Select | SetOperation


def scans(query: Query) -> Iterator[Scan]:
    """All uses of streams, also inside of subqueries."""
    for source in sources(query):
        if isinstance(source, Scan):
            yield source
        elif isinstance(source, Subselect):
            yield from scans(source.query)
    for node in nodes(query):
        if isinstance(node, Nested):
            yield from scans(node.query)


def sources(query: Query) -> Iterator[Source]:
    """Those of its own FROM, and of both sides of a set operation."""
    if isinstance(query, SetOperation):
        yield from sources(query.left)
        yield from sources(query.right)
        return
    waiting = [query.source] if query.source else []
    while waiting:
        source = waiting.pop()
        yield source
        if isinstance(source, Joined):
            waiting += [source.left, source.right]


def nodes(query: Query) -> Iterator[Node]:
    """All scalars of a query, each with what is below it, but not those of subqueries."""
    if isinstance(query, SetOperation):
        yield from nodes(query.left)
        yield from nodes(query.right)
        return
    roots = [*query.values, query.where, *(query.group or ()), query.having, *(each.value for each in query.order)]
    roots += [source.on for source in sources(query) if isinstance(source, Joined)]
    for root in roots:
        if root is not None:
            yield from root.walk()


def all_nodes(query: Query) -> Iterator[Node]:
    """All scalars of a query and of the subqueries inside."""
    for node in nodes(query):
        yield node
        if isinstance(node, Nested):
            yield from all_nodes(node.query)
    for source in sources(query):
        if isinstance(source, Subselect):
            yield from all_nodes(source.query)
