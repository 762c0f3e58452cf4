"""The grid of a query: from the brackets behind its streams, the clause WINDOW, or Spark's window(…) in GROUP BY."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from watersmeet.errors import ModelError, SqlError
from watersmeet.model import Stream
from watersmeet.model.grid import Grid
from watersmeet.sql.duration import parse_duration
from watersmeet.sql.resolve.resolved import Bound, Scan
from watersmeet.sql.site import Site, Span
from watersmeet.sql.tree import Call, Node, TableName, Text
from watersmeet.sql.windows import Bracket, Windows

_ARGUMENTS = (2, 3, 4)
_LIKE = "write window(b.at, '1 hour', '1 minute'), where b.at is the event time of a stream"


def grid_of(
    site: Site,
    windows: Windows,
    tables: Sequence[TableName],
    calls: Iterable[tuple[Call, Sequence[Node]]],
    times: Mapping[str, tuple[str, str]],
) -> Grid:
    """The one grid; raises SqlError. `times` are the event times of the streams that are read, by label of the scan."""
    called = [_called(site, call, arguments, times) for call, arguments in calls]
    found: list[tuple[Grid, Span]] = []
    used: set[int] = set()
    for table in tables:
        mine = [each for each in windows.brackets if each.after in (table.name.span[1], table.alias.span[1])]
        if len(mine) > 1:
            site.fail(mine[1].span, f"alias {table.alias.text} has two windows", hint="remove one of them")
        used.update(id(bracket) for bracket in mine)
        bracket = mine[0] if mine else windows.overall
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
    for bracket in windows.brackets:
        if id(bracket) not in used:
            site.fail(bracket.span, "this window belongs to no stream", hint="move it after a stream's name or alias")
    (first, _), *others = [*found, *called]
    for other, span in others:
        if other != first:
            site.fail(
                span,
                "a query has one RANGE and one SLIDE, and this window has others",
                hint="give all windows of the query the same RANGE and SLIDE, or make two queries of it",
            )
    return first


def _of_bracket(site: Site, bracket: Bracket, table: TableName, called: bool) -> Grid:
    if bracket.slide is None or bracket.window is None:
        hint = "write [RANGE 1 HOUR SLIDE 1 MINUTE] or [TUMBLE 1 MINUTE] at each stream"
        if called:
            hint = "remove the bracket, or group by window(result_time(), …) for aggregates over a continuous join"
        site.fail(bracket.span, f"alias {table.alias.text} has a window without SLIDE in a windowed query", hint=hint)
    return Grid(bracket.window, bracket.slide)


def _called(
    site: Site, call: Call, arguments: Sequence[Node], times: Mapping[str, tuple[str, str]]
) -> tuple[Grid, Span]:
    """The grid of window(time, range[, slide])."""
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
    return call_grid(site, call), call.span


def call_grid(site: Site, call: Call) -> Grid:
    """The grid that the lengths in a call of window(…) say."""
    lengths = [_length(site, each) for each in call.arguments[1:]]
    if lengths[2:] and lengths[2]:
        site.fail(
            call.arguments[3].span,
            "windows begin at 1970-01-01 00:00:00 UTC and its multiples of SLIDE",
            hint="leave out the fourth argument",
        )
    try:
        return Grid(lengths[0], lengths[1] if lengths[1:] else lengths[0])
    except ModelError as error:
        site.adopt(call.span, error, hint="make the slide as long as the window or shorter")


def _length(site: Site, node: Node) -> int:
    if not isinstance(node, Text):
        site.fail(node.span, "a length of time in window(…) is a string", hint="write for example '1 hour'")
    try:
        return parse_duration(node.value)
    except SqlError as error:
        site.fail(node.span, error.problem, detail=error.detail, hint=error.hint or "write for example '1 hour'")


def event_times(scans: Iterable[Scan], streams: Mapping[str, Stream]) -> dict[str, tuple[str, str]]:
    """For each label of a scan its alias and the column of the event time."""
    return {scan.label: (scan.alias, streams[scan.stream].time) for scan in scans}
