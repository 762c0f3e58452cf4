"""From the text of a SELECT to a Query: cut windows, parse, resolve names, split the condition, bind types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from watersmeet.errors import ModelError, Place
from watersmeet.model import Alias, AnyQuery, Query, Registered, Sink, Stream
from watersmeet.model.limits import TextLimits
from watersmeet.model.query import MAX_ALIASES
from watersmeet.model.stream import check_name
from watersmeet.sql.adapter import parse_select, tokenize
from watersmeet.sql.bind import Binder
from watersmeet.sql.condition import Condition
from watersmeet.sql.limits import check_length, check_tokens
from watersmeet.sql.outputs import build_outputs
from watersmeet.sql.scope import Scope
from watersmeet.sql.site import Site
from watersmeet.sql.syntax import Select
from watersmeet.sql.unsupported import reject
from watersmeet.sql.windowed.build import build_windowed, is_windowed
from watersmeet.sql.windows import Windows, cut_windows


def build_query(
    name: str,
    select: str,
    streams: Mapping[str, Stream],
    sink: Sink | None = None,
    *,
    origin: Place | None = None,
    backfill: bool = False,
    max_aliases: int = MAX_ALIASES,
    functions: Mapping[str, Registered] | None = None,
    limits: TextLimits | None = None,
) -> AnyQuery:
    """The query that a SELECT over these streams asks for; raises SqlError with the place of what is wrong.

    `origin` is where the SELECT stands in a script: its text is the script and its start the offset there. `functions`
    are the predicates that it may call by name.
    """
    check_name("query", name)
    limits = limits or TextLimits()
    check_length(name, select, limits)
    site = Site(select, origin)
    tokens = tokenize(site, select)
    check_tokens(site, tokens, limits)
    if not tokens:
        site.fail((0, 1), f"query {name} is empty", hint="write SELECT … FROM stream [RANGE 10 SECONDS] AS alias …")
    while tokens[-1].means(";") and len(tokens) > 1:
        tokens = tokens[:-1]
    text = select[: tokens[-1].end]
    windows = cut_windows(site, tokens, text)
    try:
        with Binder(site, functions or {}) as binder:
            if is_windowed(windows):
                query: AnyQuery = build_windowed(
                    name, text, streams, sink or Sink(), site, windows, binder, max_aliases
                )
            else:
                query = _build(name, text, streams, sink or Sink(), site, windows, binder, max_aliases)
    except RecursionError:
        site.fail(tokens[0].span, "the query has too many operators in one expression", hint="make it simpler")
    return replace(query, backfill=backfill)


def _build(
    name: str,
    text: str,
    streams: Mapping[str, Stream],
    sink: Sink,
    site: Site,
    windows: Windows,
    binder: Binder,
    max_aliases: int,
) -> Query:
    parsed = parse_select(site, windows.blanked, windows.tokens)
    if parsed.unsupported:
        reject(site, parsed.unsupported[0])
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
    outputs = build_outputs(site, scope, binder, parsed.items)
    for at, table in enumerate(parsed.tables):
        if table.cross:
            condition.add_cross(scope.members[at - 1], scope.members[at])
    condition.check_connected()
    aliases = tuple(
        Alias(member.alias, member.stream.name, length, condition.filter_of(member))
        for member, length in zip(scope.members, lengths, strict=True)
    )
    try:
        return Query(name, aliases, condition.equalities(), outputs, sink, text, predicates=condition.predicates())
    except ModelError as error:
        site.adopt(scope.members[0].span, error)


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
