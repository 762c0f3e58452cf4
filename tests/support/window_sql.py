"""A windowed query as SQL for Spark, whatever form it has: to compare its types and values with Spark's."""

from __future__ import annotations

from collections.abc import Mapping

from watersmeet.model import Query, Stream
from watersmeet.model.forms import WindowSql
from watersmeet.sql.bind import ExpressionCheck
from watersmeet.sql.lower.lowering import Lowering
from watersmeet.sql.lower.spark_text import window_sql
from watersmeet.sql.parse import parse_query, tokenize
from watersmeet.sql.resolve.resolve import Resolver
from watersmeet.sql.rules import Kind
from watersmeet.sql.site import Site
from watersmeet.sql.windows import cut_windows


def as_window_sql(query: Query, streams: Mapping[str, Stream]) -> WindowSql:
    """The form that a query over rows of windows would have if only Spark could compute it."""
    site = Site(query.sql)
    clauses = cut_windows(site, tokenize(site, query.sql))
    resolver = Resolver(site, streams, Kind.WINDOWED)
    resolved = resolver.whole(parse_query(site, query.sql, clauses.tokens)[0])
    return window_sql(Lowering(site, ExpressionCheck(site, {}), resolver, clauses, streams), resolved)
