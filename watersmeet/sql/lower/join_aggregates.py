"""Aggregates over the results of a continuous join: GROUP BY …, window(result_time(), '1 minute')."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from watersmeet.model import ColumnRef, Expression, Output, Query, Sink, Stream, member_column
from watersmeet.model.forms import JoinAggregates, Partial
from watersmeet.sql import tree
from watersmeet.sql.bind import Binder
from watersmeet.sql.lower.combine import NotThisClass
from watersmeet.sql.lower.continuous import Join, lengths_of
from watersmeet.sql.lower.grids import call_grid
from watersmeet.sql.lower.slices import Rows, grouped
from watersmeet.sql.parse import parse_query
from watersmeet.sql.resolve.resolve import Resolver
from watersmeet.sql.resolve.resolved import Select, scans
from watersmeet.sql.rules import check_join
from watersmeet.sql.site import Site
from watersmeet.sql.tree import Call
from watersmeet.sql.windows import Windows

_LIKE = "write GROUP BY …, window(result_time(), '1 minute')"


def build_continuous(
    name: str,
    text: str,
    streams: Mapping[str, Stream],
    sink: Sink,
    site: Site,
    windows: Windows,
    binder: Binder,
    max_aliases: int,
) -> Query:
    """`windows` with another name for `window`, as for all windowed queries."""
    whole, check_all_read = parse_query(site, windows.blanked, windows.tokens)
    if not isinstance(whole, tree.Select):
        site.fail(whole.span, "an aggregate over a continuous join has one SELECT without subqueries", hint=_LIKE)
    check_join(site, whole)
    for bracket in (*windows.brackets, *([windows.overall] if windows.overall else ())):
        if bracket.slide is not None:
            site.fail(
                bracket.span,
                "result_time() belongs to continuous joins, whose windows have no SLIDE",
                hint="remove SLIDE, or group by window(…) of an event time",
            )
    lengths = lengths_of(site, name, whole, windows, max_aliases)
    resolver = Resolver(site, streams)
    query = resolver.whole(whole)
    assert isinstance(query, Select)
    join = Join(site, binder, query, resolver.aliases, lengths)
    if join.leaf is not None:
        site.fail(
            join.leaf.table.written.span,
            "aggregates over a continuous join have only inner joins",
            hint="use JOIN, or [RANGE … SLIDE …] at each stream",
        )
    join.check_connected()
    check_all_read()
    calls = [call for call, _ in resolver.window_calls if _is_result_time(call)]
    if not calls or len(calls) < len(resolver.window_calls):
        span = resolver.window_calls[0][0].span if resolver.window_calls else whole.span
        site.fail(span, "this query groups by no window of result_time()", hint=_LIKE)
    grids = {call_grid(site, call) for call in calls}
    if len(grids) > 1:
        site.fail(calls[1].span, "a query has one range and one slide, and this window has others", hint=_LIKE)
    rows = Rows(site, binder, {scan.label: scan.alias for scan in scans(query)})
    try:
        keys, partials, final, outputs = grouped(site, binder, query, rows)
    except NotThisClass as problem:
        site.fail(
            whole.span,
            f"an aggregate over a continuous join has to combine: {problem}",
            hint="use count, sum, avg, min, max, variance or stddev, or [RANGE … SLIDE …] at each stream",
        )
    columns = dict.fromkeys(column for each in (*keys, *_arguments(partials)) for column in each.columns)
    inner = tuple(Output(member_column(each.row, each.name), each.type, each) for each in columns)
    first = join.members[0]
    inner = inner or (_any_column(first.alias, streams[first.stream]),)
    form = JoinAggregates(join.form(inner, ()), keys, partials, final, outputs)
    reason = "It aggregates the results of a continuous join, which are found first."
    return Query(name, form, grids.pop(), sink, text, reason=reason)


def _is_result_time(call: Call) -> bool:
    time = call.arguments[0] if call.arguments else None
    return isinstance(time, Call) and time.name.lower() == "result_time" and not time.arguments


def _arguments(partials: tuple[Partial, ...]) -> Iterator[Expression]:
    for partial in partials:
        yield from (each for each in (partial.argument, partial.filter) if each is not None)


def _any_column(alias: str, stream: Stream) -> Output:
    """Results without a column cannot be counted."""
    time = stream.column(stream.time)
    return Output(member_column(alias, time.name), time.type, ColumnRef(time.name, time.type, alias))
