"""Resolves the names in a SELECT. The names of streams, aliases and columns ignore case."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn

from watersmeet.errors import ModelError
from watersmeet.model import Column, Stream
from watersmeet.model.expression import ColumnRef, Expression
from watersmeet.model.stream import check_name
from watersmeet.sql.functions.nested import field
from watersmeet.sql.site import Site, Span, as_written
from watersmeet.sql.spark_types import Unsupported
from watersmeet.sql.syntax import Name, Reference, Table


@dataclass(frozen=True)
class Member:
    """One alias of the FROM list."""

    alias: str
    stream: Stream
    span: Span
    region: Span | None = None  # where its columns can be named; None: everywhere
    nested: bool = False  # there they come first

    def is_visible(self, span: Span) -> bool:
        return self.region is None or (self.region[0] <= span[0] and span[1] <= self.region[1])

    def column(self, name: str) -> Column | None:
        return next((column for column in self.stream.columns if column.name.lower() == name.lower()), None)


# Thousands of queries read the same few columns: as one value they are pickled once.
column_ref = lru_cache(maxsize=1 << 16)(ColumnRef)


@dataclass(frozen=True)
class Resolved:
    """A reference with its meaning: a column of a member, and fields inside it where it is a struct."""

    member: Member
    column: Column
    fields: tuple[str, ...]

    def expression(self, row: str = "") -> Expression:
        """The value, where the member's row has this name among those that an expression reads."""
        found: Expression = column_ref(self.column.name, self.column.type, row)
        for name in self.fields:
            found = field(found, name)
        return found


@dataclass
class Scope:
    site: Site
    members: list[Member] = dataclasses.field(default_factory=list)
    merged: dict[str, list[Member]] = dataclasses.field(
        default_factory=dict
    )  # columns made one by USING, by lower-case name
    starred: list[Resolved] = dataclasses.field(default_factory=list)  # the columns of `*`, in Spark's order
    hidden: list[Resolved] = dataclasses.field(default_factory=list)  # by USING; they come first in `alias.*`

    def add(self, table: Table, streams: Mapping[str, Stream]) -> Member:
        stream = streams.get(table.stream.text) or next(
            (known for name, known in streams.items() if name.lower() == table.stream.text.lower()), None
        )
        if stream is None:
            self._unknown(table.stream, "stream", streams, "Streams")
        alias = table.alias
        try:
            check_name("alias", alias.text)
        except ModelError as error:
            self.site.adopt(alias.span, error)
        if self.member(alias.text):
            self.site.fail(
                alias.span,
                f"alias {alias.text} is used twice",
                hint=f"name each use of a stream, for example {stream.name} AS {alias.text}{len(self.members) + 1}",
            )
        member = Member(alias.text, stream, alias.span, table.region, table.nested)
        self.members.append(member)
        if member.region is None:
            self.starred += [Resolved(member, column, ()) for column in stream.columns]
        return member

    def member(self, alias: str) -> Member | None:
        return next((member for member in self.members if member.alias.lower() == alias.lower()), None)

    def visible(self, span: Span) -> list[Member]:
        """The members whose columns can be named at a place."""
        return [member for member in self.members if member.is_visible(span)]

    def known_member(self, name: Name) -> Member:
        member = self.member(name.text)
        if member is None or not member.is_visible(name.span):
            self._unknown(name, "alias", [member.alias for member in self.visible(name.span)], "Aliases")
        return member

    def merge(self, name: Name, right: Member, *, preserved: bool = False) -> tuple[Resolved, Resolved]:
        """`USING (name)` for the newest member: the two columns it makes equal. The first one's value is that of both,
        unless the newest member is the one that is `preserved`."""
        earlier = [member for member in self.members if member is not right and member.column(name.text)]
        group = self.merged.setdefault(name.text.lower(), [])
        if not earlier or not right.column(name.text):
            lacking = right if earlier else self.members[0]
            self._no_column(name, [lacking])
        if len(earlier) > 1 and any(member not in group for member in earlier):
            self._ambiguous(name, earlier)
        left = earlier[0]
        if right.region is None:
            group.extend(member for member in ((right, left) if preserved else (left, right)) if member not in group)
        return Resolved(left, left.stream.column(name.text), ()), Resolved(right, right.stream.column(name.text), ())

    def put_first(self, names: Iterable[Name]) -> None:
        """The columns of USING come first in `*`, and once."""
        keys: list[Resolved] = []
        hidden: list[Resolved] = []
        for name in names:
            same = [each for each in self.starred if each.column.name.lower() == name.text.lower()]
            group = self.merged[name.text.lower()]
            keys.append(next((each for each in same if group and each.member is group[0]), same[0]))
            hidden += [each for each in same if each is not keys[-1]]
            self.starred = [each for each in self.starred if each not in same]
        self.starred, self.hidden = keys + self.starred, hidden + self.hidden

    def resolve(self, reference: Reference) -> Resolved:
        found = self._resolved(reference)
        try:
            found.expression()
        except Unsupported as error:
            self.site.fail(reference.span, error.problem, hint=error.hint)
        return found

    def _resolved(self, reference: Reference) -> Resolved:
        first = reference.parts[0]
        member = self.member(first)
        members = self.visible(reference.span)
        if member in members and len(reference.parts) > 1:
            name = Name(reference.parts[1], reference.span)
            column = member.column(name.text)
            if column is None:
                self._no_column(name, [member])
            return Resolved(member, column, reference.parts[2:])
        name = Name(first, reference.span)
        having = [member for member in members if member.column(first)]
        if len(reference.parts) > 1:  # only a struct has fields; for other columns the first part was to be an alias
            having = [member for member in having if member.stream.column(first).type.startswith("struct")]
        if not having:
            if len(reference.parts) > 1:
                self._unknown(name, "alias", [member.alias for member in members], "Aliases")
            self._no_column(name, members)
        merged = self.merged.get(first.lower(), [])
        inner = [member for member in having if member.nested]
        if not inner and len(having) > 1 and any(member not in merged for member in having):
            self._ambiguous(name, having)
        found = next((member for member in (*inner, *merged) if member in having), having[0])
        return Resolved(found, found.stream.column(first), reference.parts[1:])

    def _unknown(self, name: Name, kind: str, known: Iterable[str], label: str) -> NoReturn:
        names = sorted(known)
        detail = f"{label}: {', '.join(names)}." if names else f"There are no {label.lower()}."
        self.site.fail(name.span, f"unknown {kind} {name.text}", detail=detail, hint=did_you_mean(name.text, names))

    def _no_column(self, name: Name, members: list[Member]) -> NoReturn:
        detail = "\n".join(
            f"Columns of {member.alias}: {', '.join(column.name for column in member.stream.columns)}."
            for member in members
        )
        known = [column.name for member in members for column in member.stream.columns]
        problem = f"unknown column {name.text}"
        if len(members) == 1:
            problem = f"{members[0].alias} (stream {members[0].stream.name}) has no column {name.text}"
        self.site.fail(name.span, problem, detail=detail, hint=did_you_mean(name.text, known))

    def _ambiguous(self, name: Name, having: list[Member]) -> NoReturn:
        choices = [f"{member.alias}.{name.text}" for member in having]
        self.site.fail(
            name.span,
            f"column {name.text} is ambiguous",
            detail=f"Aliases that have it: {', '.join(member.alias for member in having)}.",
            hint=f"write {' or '.join(choices)}",
        )


def did_you_mean(written: str, known: Iterable[str]) -> str:
    folded = {name.lower(): name for name in known}
    close = difflib.get_close_matches(written.lower(), folded, n=1)
    return f"did you mean {as_written(folded[close[0]])}?" if close else ""
