"""The sliding window of a query: of the brackets behind its streams, the clause WINDOW, or window(…) in GROUP BY."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from watersmeet.errors import ModelError, SqlError
from watersmeet.model.sliding_window import SlidingWindow
from watersmeet.sql.duration import parse_duration
from watersmeet.sql.lower.lowering import Lowering
from watersmeet.sql.resolve.resolved import Bound, ResolvedQuery, scans
from watersmeet.sql.rules import reject
from watersmeet.sql.site import Site, Span
from watersmeet.sql.tree import Call, Scalar, TableName, Text
from watersmeet.sql.windows import Bracket

_ARGUMENTS = (2, 3, 4)
_OF_RESULTS = "write GROUP BY …, window(result_time(), '1 minute')"
_LIKE = "write window(b.at, '1 hour', '1 minute'), where b.at is the event time of a stream"


def window_of_rows(lowering: Lowering, query: ResolvedQuery) -> SlidingWindow:
    """The one window of a query over the rows of windows; raises SqlError."""
    site, resolver = lowering.site, lowering.resolver
    times = {scan.label: (scan.alias, lowering.streams[scan.stream].time) for scan in scans(query)}
    called = [_called(site, call, arguments, times) for call, arguments in resolver.window_calls]
    found: list[tuple[SlidingWindow, Span]] = []
    tables = list(resolver.tables.values())
    for table, bracket in zip(tables, lowering.clauses.of_tables(site, tables), strict=True):
        if bracket is not None:
            found.append((_of_bracket(site, bracket, table, bool(called)), bracket.span))
        elif not called or len(tables) > 1:
            site.fail(
                table.alias.span,
                f"alias {table.alias.text} has no window",
                detail="GROUP BY window(…) is enough only for a query that reads one stream once." if called else "",
                hint=f"write {table.name.text} [RANGE 1 HOUR SLIDE 1 MINUTE]"
                " or WINDOW 1 HOUR SLIDE 1 MINUTE at the end of the query",
            )
    (first, _), *others = [*found, *called]
    for other, span in others:
        if other != first:
            site.fail(
                span,
                "a query has one RANGE and one SLIDE, and this window has others",
                hint="give all windows of the query the same RANGE and SLIDE, or make two queries of it",
            )
    return first


def window_of_results(lowering: Lowering) -> SlidingWindow:
    """The one window of aggregates over the results of a join: window(result_time(), …) in GROUP BY."""
    site, calls = lowering.site, [call for call, _ in lowering.resolver.window_calls]
    for bracket in lowering.clauses.brackets:
        if bracket.slide is not None:
            reject(site, "SLIDE over results", "", bracket.span)
    for call in calls:
        if not _is_result_time(call):
            _no_window_of_results(site, call.span)
    if not calls:
        _no_window_of_results(site, (0, len(site.text)))
    first, *others = (_of_call(site, call) for call in calls)
    if any(other != first for other in others):
        site.fail(calls[1].span, "a query has one range and one slide, and this window has others", hint=_OF_RESULTS)
    return first


def _no_window_of_results(site: Site, span: Span) -> NoReturn:
    site.fail(span, "this query groups by no window of result_time()", hint=_OF_RESULTS)


def _is_result_time(call: Call) -> bool:
    time = call.arguments[0] if call.arguments else None
    return isinstance(time, Call) and time.name.lower() == "result_time" and not time.arguments


def _of_bracket(site: Site, bracket: Bracket, table: TableName, called: bool) -> SlidingWindow:
    if bracket.slide is None or bracket.window is None:
        hint = "write [RANGE 1 HOUR SLIDE 1 MINUTE] or [TUMBLE 1 MINUTE] at each stream"
        if called:
            hint = "remove the bracket, or group by window(result_time(), …) for aggregates over a continuous join"
        site.fail(bracket.span, f"alias {table.alias.text} has a window without SLIDE in a windowed query", hint=hint)
    return SlidingWindow(bracket.window, bracket.slide)


def _called(
    site: Site, call: Call, arguments: Sequence[Scalar], times: Mapping[str, tuple[str, str]]
) -> tuple[SlidingWindow, Span]:
    """The window of window(time, range[, slide])."""
    if len(arguments) not in _ARGUMENTS:
        site.fail(call.span, f"window takes 2 or 3 arguments and has {len(arguments)}", hint=_LIKE)
    time = arguments[0]
    if not isinstance(time, Bound) or times.get(time.relation, ("", ""))[1] != time.column:
        known = [f"{alias}.{column}" for alias, column in times.values()]
        site.fail(
            call.arguments[0].span,
            "the first argument of window has to be the event time of a stream",
            detail=f"Event times: {', '.join(dict.fromkeys(known))}.",
            hint="windows are about event time: TIMESTAMP BY names the column",
        )
    return _of_call(site, call), call.span


def _of_call(site: Site, call: Call) -> SlidingWindow:
    """The window that the lengths in a call of window(…) say."""
    lengths = [_length(site, each) for each in call.arguments[1:]]
    if lengths[2:] and lengths[2]:
        site.fail(
            call.arguments[3].span,
            "windows begin at 1970-01-01 00:00:00 UTC and its multiples of SLIDE",
            hint="leave out the fourth argument",
        )
    try:
        return SlidingWindow(lengths[0], lengths[1] if lengths[1:] else lengths[0])
    except ModelError as error:
        site.adopt(call.span, error, hint="make the slide as long as the window or shorter")


def _length(site: Site, node: Scalar) -> int:
    if not isinstance(node, Text):
        site.fail(node.span, "a length of time in window(…) is a string", hint="write for example '1 hour'")
    try:
        return parse_duration(node.value)
    except SqlError as error:
        site.fail(node.span, error.problem, detail=error.detail, hint=error.hint or "write for example '1 hour'")
