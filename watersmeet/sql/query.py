"""From the text of a SELECT to a Query: cut windows, parse, resolve names, lower it to a form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from watersmeet.errors import ModelError, SourcePlace
from watersmeet.model import Query, Registered, Sink, Stream
from watersmeet.model.limits import TextLimits
from watersmeet.model.query import MAX_ALIASES
from watersmeet.model.stream import check_name
from watersmeet.sql.bind import Binder
from watersmeet.sql.limits import check_length, check_tokens, check_windows
from watersmeet.sql.lower.continuous import build_continuous
from watersmeet.sql.lower.windowed import build_windowed, is_windowed
from watersmeet.sql.parse import tokenize
from watersmeet.sql.site import Site
from watersmeet.sql.windows import cut_windows


def build_query(
    name: str,
    select: str,
    streams: Mapping[str, Stream],
    sink: Sink | None = None,
    *,
    origin: SourcePlace | None = None,
    backfill: bool = False,
    max_aliases: int = MAX_ALIASES,
    functions: Mapping[str, Registered] | None = None,
    limits: TextLimits | None = None,
) -> Query:
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
    text = " " * tokens[0].start + select[tokens[0].start : tokens[-1].end]  # without a byte order mark
    windows = cut_windows(site, tokens, text)
    try:
        binder = Binder(site, functions or {})
        build = build_windowed if is_windowed(windows) else build_continuous
        query = build(name, text, streams, sink or Sink(), site, windows, binder, max_aliases)
    except RecursionError:
        site.fail(tokens[0].span, "the query has too many operators in one expression", hint="make it simpler")
    except ModelError as error:
        site.adopt(tokens[0].span, error)
    if query.window is not None:
        check_windows(site, name, query.window, windows, limits)
    return replace(query, backfill=backfill)
