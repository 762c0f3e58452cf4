"""From the text of a SELECT to a Query: parse, check the rules, resolve names, lower it to the fastest form it fits."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from watersmeet.errors import ModelError, SourcePlace
from watersmeet.model import Query, Registered, Sink, Stream
from watersmeet.model.forms import Form
from watersmeet.model.limits import TextLimits
from watersmeet.model.query import MAX_ALIASES
from watersmeet.model.sliding_window import SlidingWindow
from watersmeet.model.stream import check_name
from watersmeet.sql.bind import ExpressionCheck
from watersmeet.sql.limits import check_aliases, check_length, check_tokens, check_windows
from watersmeet.sql.lower.continuous import continuous_join, join_aggregates, pair_aggregates
from watersmeet.sql.lower.duckdb_text import task_sql
from watersmeet.sql.lower.factors import factorized_aggregates
from watersmeet.sql.lower.flatten import flattened
from watersmeet.sql.lower.lowering import DoesNotFit, Lowering
from watersmeet.sql.lower.pair_rows import pair_rows
from watersmeet.sql.lower.slices import slice_aggregates
from watersmeet.sql.lower.sliding_window import window_of_results, window_of_rows
from watersmeet.sql.lower.spark_text import window_sql
from watersmeet.sql.parse import parse_query, tokenize
from watersmeet.sql.resolve.resolve import Resolver
from watersmeet.sql.resolve.resolved import ResolvedQuery, ResolvedSelect, Scan
from watersmeet.sql.rules import Kind, check_rules
from watersmeet.sql.site import Site
from watersmeet.sql.windows import WindowClauses, cut_windows

Forms = tuple[Form, ...]


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
    clauses = cut_windows(site, tokens)
    kind = _kind_of(clauses)
    check = ExpressionCheck(site, functions or {})
    try:
        written, check_all_read = parse_query(site, text, clauses.tokens)
        check_rules(site, written, kind, clauses.tokens, check.is_registered)
        resolver = Resolver(site, streams, kind)
        resolved = resolver.whole(written)
        check_aliases(site, name, resolver.tables.values(), max_aliases)
        forms, window, reason = _lowered(Lowering(site, check, resolver, clauses, streams), kind, resolved)
        check_all_read()
        query = Query(name, forms[0], window, sink or Sink(), text, backfill=backfill, reason=reason, forms=forms)
    except RecursionError:
        site.fail(tokens[0].span, "the query has too many operators in one expression", hint="make it simpler")
    except ModelError as error:
        site.adopt(tokens[0].span, error)
    if query.window is not None:
        check_windows(site, name, query.window, clauses, limits)
    return query


def _kind_of(clauses: WindowClauses) -> Kind:
    """Windowed, if a window slides or Spark's window(…) is called; over results, if result_time() is called as well."""
    called = {
        token.text.upper() for token, after in pairwise(clauses.tokens) if token.kind == "word" and after.means("(")
    }
    if all(bracket.slide is None for bracket in clauses.brackets) and "WINDOW" not in called:
        return Kind.CONTINUOUS
    return Kind.JOIN_AGGREGATES if "RESULT_TIME" in called else Kind.WINDOWED


def _lowered(lowering: Lowering, kind: Kind, query: ResolvedQuery) -> tuple[Forms, SlidingWindow | None, str]:
    """The forms, the windows of a windowed query, and a sentence that says why it has no faster form."""
    if kind is Kind.WINDOWED:
        window = window_of_rows(lowering, query)
        forms, reason = _of_windows(lowering, query)
        return forms, window, reason
    join = flattened(lowering.site, query)
    if kind is Kind.CONTINUOUS:
        return (continuous_join(lowering, join),), None, ""
    window = window_of_results(lowering)
    reason = "It aggregates the results of a continuous join, which are found first."
    return (join_aggregates(lowering, join),), window, reason


def _of_windows(lowering: Lowering, query: ResolvedQuery) -> tuple[Forms, str]:
    try:
        if not isinstance(query, ResolvedSelect):
            raise DoesNotFit(f"it has {query.operator}")
        if isinstance(query.source, Scan):
            return (slice_aggregates(lowering, query),), ""
        factorized = factorized_aggregates(lowering, query)
        reason = f"It joins {len(factorized.members)} aliases."
        return (factorized, *_pairs(lowering, query)), reason
    except DoesNotFit as problem:
        forms, reason = _over_rows(lowering, query, str(problem))
        pairs = _pair_rows(lowering, query)
        return (*pairs, *forms), "" if pairs else reason


def _pair_rows(lowering: Lowering, query: ResolvedQuery) -> Forms:
    try:
        return (pair_rows(lowering, query),)
    except DoesNotFit:
        return ()


def _over_rows(lowering: Lowering, query: ResolvedQuery, reason: str) -> tuple[Forms, str]:
    by_spark = window_sql(lowering, query)
    try:
        return (task_sql(lowering, query), by_spark), f"Each window is computed from its rows, because {reason}."
    except DoesNotFit as problem:
        also = f", and a task does not compute them, because {problem}" if str(problem) != reason else ""
        return (by_spark,), f"Spark computes each window from its rows, because {reason}{also}."


def _pairs(lowering: Lowering, query: ResolvedSelect) -> Forms:
    try:
        return (pair_aggregates(lowering, query),)
    except DoesNotFit:
        return ()
