"""Continuous queries: from a parsed SELECT to a Query. Names are resolved, the condition is split, types are bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from watersmeet.errors import ModelError
from watersmeet.model import Alias, Output, Query, Sink, Stream
from watersmeet.sql.bind import Binder
from watersmeet.sql.condition import Condition
from watersmeet.sql.scope import Scope
from watersmeet.sql.site import Site
from watersmeet.sql.syntax import Select
from watersmeet.sql.windows import Windows


@dataclass(frozen=True)
class Join:
    """FROM and WHERE of a continuous query."""

    site: Site
    scope: Scope
    condition: Condition
    aliases: tuple[Alias, ...]

    def query(self, name: str, outputs: tuple[Output, ...], sink: Sink, text: str) -> Query:
        equalities, predicates = self.condition.equalities(), self.condition.predicates()
        try:
            return Query(name, self.aliases, equalities, outputs, sink, text, predicates=predicates)
        except ModelError as error:
            self.site.adopt(self.scope.members[0].span, error)


def read_join(
    name: str,
    streams: Mapping[str, Stream],
    site: Site,
    parsed: Select,
    windows: Windows,
    binder: Binder,
    max_aliases: int,
) -> Join:
    if not parsed.tables:
        site.fail(windows.tokens[0].span, "this SELECT has no FROM", hint="name the streams to read after FROM")
    if len(parsed.tables) > max_aliases:
        site.fail(
            parsed.tables[max_aliases].alias.span,
            f"query {name} joins {len(parsed.tables)} aliases; the limit is {max_aliases}",
            hint="split it into two queries, or raise the option max_aliases",
        )
    scope = Scope(site)
    condition = Condition(site, scope, binder)
    lengths = _lengths(site, parsed, windows)
    # All members come first, since ON may name what stands behind it in a comma join.
    for table in parsed.tables:
        member = scope.add(table, streams)
        for column in table.using:
            condition.add_using(column, *scope.merge(column, member))
    for scalar in (*(table.on for table in parsed.tables), parsed.where):
        if scalar:
            condition.add(scalar)
    for at, table in enumerate(parsed.tables):
        if table.cross:
            condition.add_cross(scope.members[at - 1], scope.members[at])
    aliases = tuple(
        Alias(member.alias, member.stream.name, length, condition.filter_of(member))
        for member, length in zip(scope.members, lengths, strict=True)
    )
    return Join(site, scope, condition, aliases)


def _lengths(site: Site, parsed: Select, windows: Windows) -> list[int | None]:
    """The window of each table, from the brackets behind its name or alias or from the query-wide clause."""
    free = list(windows.brackets)
    lengths: list[int | None] = []
    for table in parsed.tables:
        mine = [bracket for bracket in free if bracket.after in (table.stream.span[1], table.alias.span[1])]
        if len(mine) > 1:
            site.fail(mine[1].span, f"alias {table.alias.text} has two windows", hint="remove one of them")
        if not mine and windows.overall is None:
            site.fail(
                table.alias.span,
                f"alias {table.alias.text} has no window",
                hint=f"write {table.stream.text} [RANGE 10 SECONDS] or [UNBOUNDED],"
                " or WINDOW 10 SECONDS at the end of the query",
            )
        own = mine[0] if mine else windows.overall
        lengths.append(own.window if own else None)
        free = [bracket for bracket in free if bracket not in mine]
    if free:
        site.fail(free[0].span, "this window belongs to no stream", hint="move it after a stream's name or alias")
    return lengths
