"""Scalar expressions and queries as written, as plain values: what the parser found, without types.

Operators are calls by the names that they have in the table of functions (sql/functions/). Every node knows its place;
two nodes are equal if they say the same, wherever they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar

from watersmeet.sql.site import Span
from watersmeet.sql.syntax import Name

Where = Callable[[], Span]


def nowhere() -> Span:
    return 0, 1


@dataclass(frozen=True)
class Scalar:
    """A scalar expression; it knows its place."""

    where: Where = field(default=nowhere, compare=False, repr=False, kw_only=True)

    @property
    def span(self) -> Span:
        return self.where()

    def children(self) -> Iterator[Scalar]:
        """The scalars directly below; queries inside have their own."""
        for name in _field_names(type(self)):
            value = getattr(self, name)
            if isinstance(value, Scalar):
                yield value
            elif isinstance(value, tuple):
                yield from (inner for inner in value if isinstance(inner, Scalar))

    def rebuilt(self, change: Callable[[Scalar], Scalar]) -> Scalar:
        """The same with other scalars directly below."""
        changed: dict[str, object] = {}
        for name in _field_names(type(self)):
            value = getattr(self, name)
            if isinstance(value, Scalar):
                changed[name] = change(value)
            elif isinstance(value, tuple):
                changed[name] = tuple(change(inner) if isinstance(inner, Scalar) else inner for inner in value)
        return replace(self, **changed) if changed else self  # type: ignore[arg-type]

    def walk(self) -> Iterator[Scalar]:
        yield self
        for child in self.children():
            yield from child.walk()


_FIELDS: dict[type[Scalar], tuple[str, ...]] = {}


def _field_names(kind: type[Scalar]) -> tuple[str, ...]:
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(each.name for each in fields(kind) if each.name != "where")
    return _FIELDS[kind]


@dataclass(frozen=True)
class ColumnName(Scalar):
    """`x`, `a.x`, and with struct fields behind it `a.x.f`."""

    parts: tuple[str, ...]


@dataclass(frozen=True)
class Number(Scalar):
    text: str


@dataclass(frozen=True)
class Text(Scalar):
    value: str


@dataclass(frozen=True)
class Truth(Scalar):
    value: bool


@dataclass(frozen=True)
class Null(Scalar):
    pass


@dataclass(frozen=True)
class Interval(Scalar):
    count: str
    unit: str


@dataclass(frozen=True)
class Parenthesized(Scalar):
    inner: Scalar


def without_parentheses(node: Scalar) -> Scalar:
    while isinstance(node, Parenthesized):
        node = node.inner
    return node


def bare(node: Scalar) -> Scalar:
    """Without parentheses, to be compared with another."""
    if isinstance(node, Parenthesized):
        return bare(node.inner)
    return node.rebuilt(bare)


def unwrapped(node: Scalar) -> Scalar:
    """Without parentheses that were written. Those around the parts of LIKE ALL have the place of what they enclose."""
    while isinstance(node, Parenthesized) and node.inner.where is not node.where:
        node = node.inner
    return node


@dataclass(frozen=True)
class Call(Scalar):
    """A function, an operator, CASE (conditions and values in turn), IN, BETWEEN, LIKE …"""

    name: str  # lower case, unless a function's name that is not in the table
    arguments: tuple[Scalar, ...]
    function: bool = False  # written as name(…)


def conjuncts(node: Scalar | None) -> Iterator[Scalar]:
    """What stands between the ANDs, from left to right, without parentheses around it."""
    if node is None:
        return
    inner = unwrapped(node)
    if isinstance(inner, Call) and inner.name == "and" and not inner.function:
        for each in inner.arguments:
            yield from conjuncts(each)
    else:
        yield inner


def without_not(node: Scalar) -> tuple[bool, Scalar]:
    """Whether a condition is negated, and what."""
    if isinstance(node, Call) and node.name == "not" and not node.function:
        return True, without_parentheses(node.arguments[0])
    return False, node


# Operators that bind more tightly than those of a lower level, in SQL as in DuckDB's text.
_LEVELS = {
    **{"or": 1, "and": 2, "=": 3, "<>": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "+": 4, "-": 4, "*": 5, "/": 5, "%": 5},
}


def as_operand(of: Scalar | None, value: Scalar) -> Scalar:
    """A value in the place of a name: in parentheses, if an operator around it would bind more tightly."""
    if not isinstance(value, Call) or value.function or not isinstance(of, Call | Field):
        return value
    if isinstance(of, Field):
        return Parenthesized(value)
    levels = [_LEVELS.get(each.name, 0) if len(each.arguments) > 1 else 0 for each in (of, value)]
    return value if of.function or 0 < levels[0] < levels[1] else Parenthesized(value)


@dataclass(frozen=True)
class CastTo(Scalar):
    value: Scalar
    type: str
    safe: bool


@dataclass(frozen=True)
class Field(Scalar):
    value: Scalar
    name: str


@dataclass(frozen=True)
class Unknown(Scalar):
    """What has no place in any expression here."""

    what: str
    hint: str = "docs/semantics.md lists what is"


@dataclass(frozen=True)
class Star(Scalar):
    """`*` or `alias.*`; also the argument of count(*)."""

    qualifier: Name | None = None


@dataclass(frozen=True)
class Aggregate(Scalar):
    name: str  # lower case
    arguments: tuple[Scalar, ...]
    distinct: bool = False
    filter: Scalar | None = None


@dataclass(frozen=True)
class SortKey(Scalar):
    value: Scalar
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Over(Scalar):
    """An aggregate or a rank OVER (PARTITION BY … ORDER BY …): it is no aggregate of the query."""

    name: str  # lower case
    arguments: tuple[Scalar, ...]
    filter: Scalar | None
    partition: tuple[Scalar, ...]
    order: tuple[SortKey, ...]


@dataclass(frozen=True)
class SubqueryValue(Scalar):
    """(SELECT …) as a value: of its only column in its only row."""

    query: Query


@dataclass(frozen=True)
class Exists(Scalar):
    word: ClassVar[str] = "EXISTS"

    query: Query


@dataclass(frozen=True)
class InSubquery(Scalar):
    word: ClassVar[str] = "IN"

    value: Scalar
    query: Query


# Queries -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableName:
    name: Name
    alias: Name
    columns: tuple[Name, ...] = ()  # other names for its columns


@dataclass(frozen=True)
class FromQuery:
    """(SELECT …) AS alias."""

    query: Query
    alias: Name
    columns: tuple[Name, ...] = ()


@dataclass(frozen=True)
class Join:
    kind: str  # cross, inner, left, right, full, semi, anti
    left: Source
    right: Source
    on: Scalar | None = None
    using: tuple[Name, ...] = ()
    natural: bool = False
    written: Name = field(default=Name("", (0, 1)), compare=False)  # the words for it, or a comma


Source = TableName | FromQuery | Join


@dataclass(frozen=True)
class Item:
    value: Scalar
    name: Name | None

    @property
    def span(self) -> Span:
        return self.value.span


@dataclass(frozen=True)
class Ending:
    """What follows a SELECT or a set operation."""

    order: tuple[SortKey, ...] = ()
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
    where: Scalar | None = None
    group: tuple[Scalar, ...] | None = None  # None: no GROUP BY
    group_all: bool = False
    having: Scalar | None = None
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
