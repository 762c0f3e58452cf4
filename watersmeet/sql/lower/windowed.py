"""From the text of a windowed query to a Query, of the fastest class that it fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from watersmeet.model import ColumnRef, Output, Query, Sink, Stream
from watersmeet.model.forms import Form, View, WindowSql
from watersmeet.sql.bind import Binder
from watersmeet.sql.lower.combine import NotThisClass
from watersmeet.sql.lower.factors import as_factors
from watersmeet.sql.lower.grids import event_times, grid_of
from watersmeet.sql.lower.join_aggregates import build_continuous
from watersmeet.sql.lower.slices import as_slices
from watersmeet.sql.lower.spark_text import spark_text
from watersmeet.sql.parse import parse_query, tokenize
from watersmeet.sql.resolve import resolved
from watersmeet.sql.resolve.resolve import Resolver
from watersmeet.sql.resolve.resolved import Bound, Scan, Select, all_nodes, scans
from watersmeet.sql.resolve.scope import WINDOW
from watersmeet.sql.resolve.typing import SparkTyping
from watersmeet.sql.site import Site
from watersmeet.sql.windows import Windows, cut_windows


def is_windowed(windows: Windows) -> bool:
    """Whether a window slides, or Spark's window(…) is called."""
    brackets = (*windows.brackets, *([windows.overall] if windows.overall else ()))
    return any(bracket.slide is not None for bracket in brackets) or _calls(windows, "WINDOW")


def _calls(windows: Windows, function: str) -> bool:
    tokens = windows.tokens
    return any(token.is_word(function) and after.means("(") for token, after in pairwise(tokens))


def build_windowed(
    name: str,
    text: str,
    streams: Mapping[str, Stream],
    sink: Sink,
    site: Site,
    windows: Windows,
    binder: Binder,
    max_aliases: int,
) -> Query:
    windows = _renamed(windows)
    if _calls(windows, "RESULT_TIME"):
        return build_continuous(name, text, streams, sink, site, windows, binder, max_aliases)
    parsed, check_all_read = parse_query(site, windows.blanked, windows.tokens)
    resolver = Resolver(site, streams, binder)
    query = resolver.whole(parsed)
    if len(resolver.tables) > max_aliases:
        site.fail(
            resolver.tables[max_aliases].alias.span,
            f"query {name} reads {len(resolver.tables)} aliases; the limit is {max_aliases}",
            hint="split it into two queries, or raise the option max_aliases",
        )
    read = list(scans(query))
    grid = grid_of(site, windows, resolver.tables, resolver.window_calls, event_times(read, streams))
    check_all_read()
    form, reason = _classified(site, binder, query)
    return Query(name, form, grid, sink, text, reason=reason)


def as_batch(query: Query, streams: Mapping[str, Stream]) -> WindowSql:
    """A query with windows of event time as if only Spark could compute it, whatever its class."""
    site = Site(query.sql)
    windows = _renamed(cut_windows(site, tokenize(site, query.sql), query.sql))
    return _batch(site, Resolver(site, streams).whole(parse_query(site, windows.blanked, windows.tokens)[0]))


def _renamed(windows: Windows) -> Windows:
    """`window` in expressions under a name that the parser does not take for a keyword."""
    tokens, text = list(windows.tokens), windows.blanked
    for at, (token, after) in enumerate(pairwise(windows.tokens)):
        if token.is_word("WINDOW") and after.means("(", "."):
            tokens[at] = replace(token, text=WINDOW)
            text = text[: token.start] + WINDOW + text[token.end :]
    return replace(windows, tokens=tuple(tokens), blanked=text)


def _classified(site: Site, binder: Binder, query: resolved.Query) -> tuple[Form, str]:
    """The form, and why it is no faster one."""
    try:
        if not isinstance(query, Select):
            raise NotThisClass(f"it has {query.operator}")
        if isinstance(query.source, Scan):
            return as_slices(site, binder, query), ""
        factorized = as_factors(site, binder, query)
        count = len(factorized.members)
        return factorized, f"It joins {count} aliases, so partial aggregates are kept by join key as well."
    except NotThisClass as problem:
        return _batch(site, query), f"Spark computes each window from its rows, because {problem}."


def _batch(site: Site, query: resolved.Query) -> WindowSql:
    read = {scan.label: scan for scan in scans(query)}
    columns: dict[str, dict[str, None]] = {scan.stream: {} for scan in read.values()}
    for node in all_nodes(query):
        if isinstance(node, Bound) and node.relation in read:
            columns[read[node.relation].stream][node.column] = None
    views = tuple(View(f"rows_of_{stream}", stream, tuple(read)) for stream, read in columns.items())
    text = spark_text(query, {view.stream: view.name for view in views}, SparkTyping(site))
    if "${" in text:  # literals have none
        site.fail((0, len(site.text)), "a name with ${ is not supported where Spark computes windows", hint="rename it")
    outputs = tuple(Output(each.name, each.type, ColumnRef(each.name, each.type)) for each in query.outputs)
    return WindowSql(text, views, outputs)
