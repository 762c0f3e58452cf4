"""What the SQL dialect does not support, why, and what to do instead."""

from __future__ import annotations

from typing import NoReturn

from watersmeet.sql.functions.aggregates import rejected_aggregate
from watersmeet.sql.site import Site
from watersmeet.sql.syntax import UnsupportedClause

_AGGREGATE_HINT = "aggregate in windows: write [RANGE 1 HOUR SLIDE 1 MINUTE] at each stream (docs/windows.md)"
# The problem and the hint for each kind; {} is what was written.
_REASONS = {
    "clause": ("{} is not supported", "remove it and write SELECT … FROM … WHERE …"),
    "join": (
        "{} is not supported",
        "use JOIN, LEFT JOIN, RIGHT JOIN, SEMI JOIN or ANTI JOIN with ON or USING, or CROSS JOIN",
    ),
    "statement": ("{} is not a SELECT", "write SELECT … FROM … WHERE …"),
    "set operation": ("{} is not supported", "create one query for each SELECT"),
    "subquery": (
        "subqueries are not supported here",
        "join the streams in one FROM; [NOT] EXISTS and [NOT] IN over one stream can stand between the ANDs of WHERE",
    ),
    "joined subquery": (
        "the subquery of {} reads more than one stream",
        "write a subquery over one stream, and join the others in the outer FROM",
    ),
    "columns of IN": ("the subquery of {} has to select one column", "name one column, or use EXISTS"),
    "source": ("FROM accepts only streams, not a {}", "name a stream; join the streams in one FROM"),
    "comma in parentheses": ("a comma between tables in parentheses is not supported", "write CROSS JOIN"),
    "nested join": ("joins in parentheses are not supported", "remove the parentheses"),
    "qualified name": ("{} is not the name of a stream", "write the name alone: streams have no schema or catalog"),
    "column aliases": ("renaming columns in FROM is not supported", "use AS in the SELECT list"),
    "star": ("{} is not supported", "list the columns"),
    "inner star": ("* is not supported inside of an expression", "list the columns; count(*) counts rows"),
    "aggregate": ("aggregate function {} needs a window with SLIDE or TUMBLE", _AGGREGATE_HINT),
    "window function": ("window functions (OVER) are not supported", _AGGREGATE_HINT),
    "table function": ("table function {} is not supported", "expand the value where the results are read"),
    "not deterministic": (
        "function {} is not deterministic",
        "use the event time or another column: a result must not depend on when it is computed",
    ),
    "tuple": ("tuples are not supported", "compare one value with one: a.x = b.x AND a.y = b.y"),
    "parameter": ("parameters are not supported", "write the value"),
    "time zone": ("time zones are not supported: every time is UTC", "add or subtract an INTERVAL"),
}
_CLAUSE_HINTS = {
    "GROUP BY": _AGGREGATE_HINT,
    "HAVING": "filter rows with WHERE, and " + _AGGREGATE_HINT,
    "QUALIFY": "filter rows with WHERE",
    "DISTINCT": "remove duplicates where the results are read: equal results come from different rows",
    "ORDER BY": "sort where the results are read: a continuous query has no last result",
    "LIMIT": "drop the query with DROP QUERY when you have enough results: a continuous query has no end",
    "WITH": "write one SELECT over the streams",
    "WINDOW": "write WINDOW 10 SECONDS, or [RANGE 10 SECONDS] after a stream",
}


def reject(site: Site, found: UnsupportedClause) -> NoReturn:
    problem, hint = _REASONS[found.what]
    if found.what == "join" and found.written.startswith("FULL"):
        hint = "write two queries: a LEFT JOIN, and an ANTI JOIN of the other stream with the first"
    if found.what == "aggregate" and (rejected := rejected_aggregate(found.written.lower())):
        problem, hint = rejected.problem, rejected.hint
    if found.what == "clause":
        hint = _CLAUSE_HINTS.get(found.written, hint)
    site.fail(found.span, problem.replace("{}", found.written), hint=hint)
