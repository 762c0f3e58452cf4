"""From a parsed SELECT to a JoinForm. Names are resolved, the condition is split, types are bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from watersmeet.model import Alias, JoinForm, Output, Stream
from watersmeet.sql.bind import Binder
from watersmeet.sql.condition import Condition
from watersmeet.sql.leaves import LeafCondition, find_leaf
from watersmeet.sql.outputs import output_value
from watersmeet.sql.scope import Scope
from watersmeet.sql.site import Site
from watersmeet.sql.syntax import Select
from watersmeet.sql.windows import Windows


@dataclass(frozen=True)
class Join:
    """FROM and WHERE of a continuous query."""

    site: Site
    scope: Scope
    parsed: Select
    condition: Condition
    leaf: LeafCondition | None
    lengths: tuple[int | None, ...]

    def check_connected(self) -> None:
        """Outputs are read before: what is wrong with them is reported first."""
        self.condition.check_connected(self.leaf.preserved if self.leaf else self.scope.members)

    def form(self, outputs: tuple[Output, ...]) -> JoinForm:
        condition, leaf = self.condition, self.leaf
        aliases = [
            Alias(member.alias, member.stream.name, length, condition.filter_of(member))
            for member, length in zip(self.scope.members, self.lengths, strict=True)
        ]
        if leaf is None:
            return JoinForm(tuple(aliases), condition.equalities(), outputs, condition.predicates())
        leaf.check(self.parsed, list(self.lengths))
        own = replace(aliases.pop(leaf.table.at), filter=leaf.on.filter_of(leaf.member))
        return JoinForm((*aliases, own), leaf.equalities(), outputs, leaf.predicates(), leaf.leaf())


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
    at_leaf = find_leaf(site, parsed.tables)
    leaf = LeafCondition(site, scope, binder, at_leaf, condition) if at_leaf else None
    for table in parsed.tables:
        member = scope.add(table, streams)
        for reference in table.on.references() if table.on else ():
            scope.resolve(reference)  # ON sees the tables before it, and its own
        for column in table.using:
            where = leaf.on if leaf and table.kind else condition
            where.add_using(column, *scope.merge(column, member, preserved=table.kind == "right"))
        scope.put_first(table.using)
    if leaf:
        leaf.add(parsed)
    else:
        for scalar in (*(table.on for table in parsed.tables), parsed.where):
            if scalar:
                condition.add(scalar)
    for at, table in enumerate(parsed.tables):
        if table.cross:
            earlier = [member for member in scope.members[:at] if not leaf or member is not leaf.member]
            condition.add_cross(earlier[-1], scope.members[at])
    for scalar in (each for table in parsed.tables for each in table.selected):
        output_value(site, scope, binder, scalar)
    return Join(site, scope, parsed, condition, leaf, tuple(lengths))


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
