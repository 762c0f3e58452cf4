"""Scalar expressions and queries as written, as plain values: what the parser found, without types.

Operators are calls by the names that they have in the table of functions (sql/functions/). Every node knows its place;
two nodes are equal if they say the same, wherever they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace

from watersmeet.sql.site import Span
from watersmeet.sql.syntax import Name

Where = Callable[[], Span]


def nowhere() -> Span:
    return 0, 1


@dataclass(frozen=True)
class Node:
    where: Where = field(default=nowhere, compare=False, repr=False, kw_only=True)

    @property
    def span(self) -> Span:
        return self.where()

    def children(self) -> Iterator[Node]:
        """The scalars directly below; queries inside have their own."""
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, Node):
                yield value
            elif isinstance(value, tuple):
                yield from (inner for inner in value if isinstance(inner, Node))

    def rebuilt(self, change: Callable[[Node], Node]) -> Node:
        """The same with other scalars directly below."""
        changed: dict[str, object] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, Node):
                changed[each.name] = change(value)
            elif isinstance(value, tuple):
                changed[each.name] = tuple(change(inner) if isinstance(inner, Node) else inner for inner in value)
        return replace(self, **changed) if changed else self  # type: ignore[arg-type]

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children():
            yield from child.walk()


@dataclass(frozen=True)
class Column(Node):
    """`x`, `a.x`, and with struct fields behind it `a.x.f`."""

    parts: tuple[str, ...]


@dataclass(frozen=True)
class Number(Node):
    text: str


@dataclass(frozen=True)
class Text(Node):
    value: str


@dataclass(frozen=True)
class Truth(Node):
    value: bool


@dataclass(frozen=True)
class Null(Node):
    pass


@dataclass(frozen=True)
class Interval(Node):
    count: str
    unit: str


@dataclass(frozen=True)
class Parenthesized(Node):
    inner: Node


def without_parentheses(node: Node) -> Node:
    while isinstance(node, Parenthesized):
        node = node.inner
    return node


def unwrapped(node: Node) -> Node:
    """Without parentheses that were written. Those around the parts of LIKE ALL have the place of what they enclose."""
    while isinstance(node, Parenthesized) and node.inner.where is not node.where:
        node = node.inner
    return node


@dataclass(frozen=True)
class Call(Node):
    """A function, an operator, CASE (conditions and values in turn), IN, BETWEEN, LIKE …"""

    name: str  # lower case, unless a function's name that is not in the table
    arguments: tuple[Node, ...]
    function: bool = False  # written as name(…)


@dataclass(frozen=True)
class CastTo(Node):
    value: Node
    type: str
    safe: bool


@dataclass(frozen=True)
class Field(Node):
    value: Node
    name: str


@dataclass(frozen=True)
class Unknown(Node):
    """What has no place in any expression here."""

    what: str
    hint: str = "docs/semantics.md lists what is"


@dataclass(frozen=True)
class Star(Node):
    """`*` or `alias.*`; also the argument of count(*)."""

    qualifier: Name | None = None


@dataclass(frozen=True)
class Aggregate(Node):
    name: str  # lower case
    arguments: tuple[Node, ...]
    distinct: bool = False
    filter: Node | None = None


@dataclass(frozen=True)
class SortKey(Node):
    value: Node
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Over(Node):
    """An aggregate or a rank OVER (PARTITION BY … ORDER BY …): it is no aggregate of the query."""

    name: str  # lower case
    arguments: tuple[Node, ...]
    filter: Node | None
    partition: tuple[Node, ...]
    order: tuple[SortKey, ...]


@dataclass(frozen=True)
class SubqueryValue(Node):
    """(SELECT …) as a value: of its only column in its only row."""

    query: Query


@dataclass(frozen=True)
class Exists(Node):
    query: Query


@dataclass(frozen=True)
class InSubquery(Node):
    value: Node
    query: Query


# Queries -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableName:
    name: Name
    alias: Name
    columns: tuple[Name, ...] = ()  # other names for its columns


@dataclass(frozen=True)
class Derived:
    """(SELECT …) AS alias."""

    query: Query
    alias: Name
    columns: tuple[Name, ...] = ()


@dataclass(frozen=True)
class Join:
    kind: str  # cross, inner, left, right, full, semi, anti
    left: Source
    right: Source
    on: Node | None = None
    using: tuple[Name, ...] = ()
    natural: bool = False
    written: Name = field(default=Name("", (0, 1)), compare=False)  # the words for it, or a comma


Source = TableName | Derived | Join


@dataclass(frozen=True)
class Item:
    value: Node
    name: Name | None

    @property
    def span(self) -> Span:
        return self.value.span


@dataclass(frozen=True)
class Ordered:
    value: Node
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Ending:
    """What follows a SELECT or a set operation."""

    order: tuple[Ordered, ...] = ()
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True)
class Common:
    """A name for a query, of WITH."""

    name: Name
    query: Query
    columns: tuple[Name, ...] = ()


@dataclass(frozen=True)
class Select:
    items: tuple[Item, ...]
    source: Source | None
    span: Span
    where: Node | None = None
    group: tuple[Node, ...] | None = None  # None: no GROUP BY
    group_all: bool = False
    having: Node | None = None
    distinct: bool = False
    ending: Ending = field(default_factory=Ending)
    common: tuple[Common, ...] = ()
    clauses: tuple[Name, ...] = field(default=(), compare=False)  # the words that begin clauses besides FROM and WHERE


@dataclass(frozen=True)
class SetOperation:
    operator: str  # UNION, UNION ALL, INTERSECT, INTERSECT ALL, EXCEPT, EXCEPT ALL
    left: Query
    right: Query
    span: Span
    ending: Ending = field(default_factory=Ending)
    common: tuple[Common, ...] = ()


Query = Select | SetOperation
