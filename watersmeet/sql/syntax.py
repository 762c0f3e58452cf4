"""Tokens and the parts of one SELECT as plain values, so that only the adapter knows the parser's nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from watersmeet.model.expression import Expression
from watersmeet.sql.site import Site, Span


@dataclass(frozen=True)
class Token:
    kind: str  # word, quoted, string, number or symbol
    text: str
    start: int
    end: int

    @property
    def span(self) -> Span:
        return self.start, self.end

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.upper() in words

    def means(self, *words: str) -> bool:
        """Is it one of these words or symbols, and not a string or a quoted name that looks like one?"""
        return self.kind in ("word", "symbol") and self.text.upper() in words


@dataclass(frozen=True)
class Name:
    text: str
    span: Span


@dataclass(frozen=True)
class Reference:
    """A column as written: `x`, `a.x`, and with struct fields behind it `a.x.f`."""

    parts: tuple[str, ...]
    span: Span


@dataclass(frozen=True)
class UnsupportedClause:
    """Something that is not supported: its kind, what was written, and where."""

    what: str
    written: str
    span: Span


class Located(Protocol):
    @property
    def span(self) -> Span: ...


class Scalar(Located, Protocol):
    """A scalar expression in Spark's dialect."""

    @property
    def is_true(self) -> bool: ...

    def references(self) -> tuple[Reference, ...]: ...

    def functions(self) -> tuple[Name, ...]:
        """Calls of functions that the parser does not know and has not translated."""

    def call(self) -> tuple[Name, tuple[Scalar, ...]] | None:
        """The function and its arguments, where this is a call of one that the parser does not know."""

    def conjuncts(self) -> tuple[Scalar, ...]: ...

    def comparisons(self) -> tuple[Scalar, ...]:
        """`x BETWEEN y AND z` as two comparisons, anything else as it is."""

    def sides(self) -> tuple[Scalar, Scalar] | None:
        """Both sides, where this is an equality."""

    def expression(self, site: Site, resolve: Callable[[Reference], Expression]) -> Expression:
        """Its meaning, over the columns that its references stand for."""


@dataclass(frozen=True)
class Item:
    """One entry of the SELECT list; without a scalar it is `*` or `alias.*`."""

    scalar: Scalar | None
    name: Name | None
    qualifier: Name | None
    span: Span


@dataclass(frozen=True)
class Table:
    stream: Name
    alias: Name
    on: Scalar | None
    using: tuple[Name, ...]
    cross: bool = False  # behind CROSS JOIN
    kind: str = ""  # left, right, semi or anti where it is not an inner join,
    written: Name | None = None  # and the words for it
    region: Span | None = None  # where its columns can be named; None: everywhere
    nested: bool = False  # of a subquery: its columns come first there
    selected: tuple[Scalar, ...] = ()  # what a subquery of EXISTS selects: it has to be right, whatever it is


@dataclass(frozen=True)
class Select:
    items: tuple[Item, ...]
    tables: tuple[Table, ...]
    where: Scalar | None
    unsupported: tuple[UnsupportedClause, ...]  # in the order of the text
    check_all_read: Callable[[], None] = lambda: None  # call it when all scalars have been read
