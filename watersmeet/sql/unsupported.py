"""Why each thing that the language leaves out is left out, and what to do instead."""

from __future__ import annotations

from typing import NoReturn

from watersmeet.sql.site import Site
from watersmeet.sql.syntax import Refused

_AGGREGATE_HINT = "results are emitted once and never revised; aggregate them where they are read"
# The problem and the hint for each kind of refusal; {} is what was written.
_REASONS = {
    "clause": ("{} is not supported", "remove it; a query is SELECT … FROM … WHERE …"),
    "join": ("{} is not supported", "use JOIN … ON, JOIN … USING or CROSS JOIN: only inner joins are answered"),
    "statement": ("{} is not a SELECT", "a query is SELECT … FROM … WHERE …"),
    "set operation": ("{} is not supported", "create one query for each SELECT"),
    "subquery": ("subqueries are not supported", "join the streams in one FROM instead"),
    "source": ("only streams can stand in FROM, not a {}", "name a stream; join the streams in one FROM"),
    "nested join": ("joins in parentheses are not supported", "remove the parentheses"),
    "qualified name": ("{} is not the name of a stream", "streams have no schema or catalog: write the name alone"),
    "column aliases": ("renaming columns in FROM is not supported", "use AS in the SELECT list"),
    "star": ("{} is not supported", "list the columns"),
    "aggregate": ("aggregate function {} is not supported", _AGGREGATE_HINT),
    "window function": ("window functions (OVER) are not supported", _AGGREGATE_HINT),
    "table function": ("function {} makes several rows of one, which is not supported", "expand it where it is read"),
    "not deterministic": (
        "function {} is not deterministic",
        "a result must not depend on when it is computed; use the event time or another column",
    ),
    "tuple": ("tuples are not supported", "compare one value with one: a.x = b.x AND a.y = b.y"),
    "parameter": ("parameters are not supported", "write the value"),
    "time zone": ("time zones are not supported: every time is UTC", "add or subtract an INTERVAL"),
}
_CLAUSE_HINTS = {
    "GROUP BY": _AGGREGATE_HINT,
    "HAVING": "filter rows with WHERE; " + _AGGREGATE_HINT,
    "QUALIFY": "filter rows with WHERE",
    "DISTINCT": "equal results come from different rows; remove duplicates where they are read",
    "ORDER BY": "results of a continuous query have no last row; sort where they are read",
    "LIMIT": "a continuous query has no end; drop it with DROP QUERY when you have seen enough",
    "WITH": "write one SELECT over the streams",
    "WINDOW": "write WINDOW 10 SECONDS, or [RANGE 10 SECONDS] behind a stream",
}


def refuse(site: Site, refused: Refused) -> NoReturn:
    problem, hint = _REASONS[refused.what]
    if refused.what == "clause":
        hint = _CLAUSE_HINTS.get(refused.written, hint)
    site.fail(refused.span, problem.format(refused.written), hint=hint)
