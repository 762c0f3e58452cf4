"""What a query may not say: one table of rejected constructs by kind of query, and one pass that finds them.

The pass reads the tree as written, before any name is looked up. What comes first in the text is reported. The parser's
readers (sql/parse/) reject with rows of the same table what no query may say and the tree has no node for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

from watersmeet.sql import tree
from watersmeet.sql.functions.aggregates import rejected_aggregate
from watersmeet.sql.site import Site, Span
from watersmeet.sql.syntax import WINDOW, WINDOW_FIELDS, Token
from watersmeet.sql.tree import Aggregate, Call, Exists, Field, InSubquery, Over, Scalar, SubqueryValue


class Kind(Enum):
    """What a query asks for: results of a join one by one, aggregates of such results, or of the rows of windows."""

    CONTINUOUS = "continuous"
    JOIN_AGGREGATES = "aggregates of a continuous join"
    WINDOWED = "windowed"


@dataclass(frozen=True)
class Rule:
    """Why a construct is rejected in queries of these kinds; {} is what was written."""

    construct: str
    problem: str
    hint: str
    kinds: tuple[Kind, ...] = tuple(Kind)


_JOINS = (Kind.CONTINUOUS, Kind.JOIN_AGGREGATES)
_CONTINUOUS = (Kind.CONTINUOUS,)
_OVER_RESULTS = (Kind.JOIN_AGGREGATES,)
_WINDOWED = (Kind.WINDOWED,)
_IN_WINDOWS = (Kind.JOIN_AGGREGATES, Kind.WINDOWED)
_NOT = "{} is not supported"
_IN_WINDOW_HINT = "aggregate in windows: write [RANGE 1 HOUR SLIDE 1 MINUTE] at each stream (docs/windows.md)"
RULES = (
    # clauses
    Rule("clause", _NOT, "remove it and write SELECT … FROM … WHERE …", _CONTINUOUS),
    Rule("GROUP BY", _NOT, _IN_WINDOW_HINT, _CONTINUOUS),
    Rule("HAVING", _NOT, "filter rows with WHERE, and " + _IN_WINDOW_HINT, _CONTINUOUS),
    Rule("QUALIFY", _NOT, "filter rows with WHERE", _CONTINUOUS),
    Rule(
        "DISTINCT",
        _NOT,
        "remove duplicates where the results are read: equal results come from different rows",
        _CONTINUOUS,
    ),
    Rule("ORDER BY", _NOT, "sort where the results are read: a continuous query has no last result", _CONTINUOUS),
    Rule(
        "LIMIT",
        _NOT,
        "drop the query with DROP QUERY when you have enough results: a continuous query has no end",
        _CONTINUOUS,
    ),
    Rule("WINDOW", _NOT, "write WINDOW 10 SECONDS, or [RANGE 10 SECONDS] after a stream", _CONTINUOUS),
    Rule("statement", "{} is not a SELECT", "write SELECT … FROM … WHERE …"),
    Rule("set operation", _NOT, "create one query for each SELECT", _CONTINUOUS),
    Rule(
        "set operation",
        "an aggregate over a continuous join has one SELECT, and no {}",
        "write GROUP BY …, window(result_time(), '1 minute')",
        _OVER_RESULTS,
    ),
    # FROM
    Rule("no FROM", "this SELECT has no FROM", "name the streams to read after FROM"),
    Rule(
        "join",
        _NOT,
        "use JOIN, LEFT JOIN, RIGHT JOIN, SEMI JOIN or ANTI JOIN with ON or USING, or CROSS JOIN",
    ),
    Rule(
        "FULL JOIN",
        _NOT,
        "write two queries: a LEFT JOIN, and an ANTI JOIN of the other stream with the first",
        _JOINS,
    ),
    Rule("comma in parentheses", "a comma between tables in parentheses is not supported", "write CROSS JOIN"),
    Rule("qualified name", "{} is not the name of a stream", "write the name alone: streams have no schema or catalog"),
    Rule(
        "SLIDE over results",
        "result_time() belongs to continuous joins, whose windows have no SLIDE",
        "remove SLIDE, or group by window(…) of an event time",
        _OVER_RESULTS,
    ),
    # subqueries
    Rule(
        "subquery",
        "subqueries are not supported here",
        "join the streams in one FROM; [NOT] EXISTS and [NOT] IN over one stream can stand between the ANDs of WHERE",
        _JOINS,
    ),
    Rule(
        "joined subquery",
        "the subquery of {} reads more than one stream",
        "write a subquery over one stream, and join the others in the outer FROM",
        _JOINS,
    ),
    Rule(
        "columns of IN",
        "the subquery of {} has to select one column",
        "name one column, or use EXISTS",
        _JOINS,
    ),
    # scalars
    Rule("star", _NOT, "list the columns"),
    Rule("inner star", "* is not supported inside of an expression", "list the columns; count(*) counts rows"),
    Rule("aggregate", "aggregate function {} needs a window with SLIDE or TUMBLE", _IN_WINDOW_HINT, _CONTINUOUS),
    Rule("OVER", "window functions (OVER) are not supported", _IN_WINDOW_HINT, _CONTINUOUS),
    Rule("aggregate in aggregate", "an aggregate inside of an aggregate", "aggregate a subquery", _IN_WINDOWS),
    Rule(
        "OVER in function",
        "OVER inside of another function",
        "select it in a subquery, and read its column",
        _IN_WINDOWS,
    ),
    Rule("window", "the window is no value of its own", "use window_start and window_end", _IN_WINDOWS),
    Rule(
        "result_time", "result_time() belongs into window(…)", "group by window(result_time(), '1 minute')", _IN_WINDOWS
    ),
    Rule(
        "registered predicate",
        "the registered predicate {} cannot be called in a windowed query",
        "join with it in a continuous query",
        _WINDOWED,
    ),
    Rule("table function", "table function {} is not supported", "expand the value where the results are read"),
    Rule(
        "not deterministic",
        "function {} is not deterministic",
        "use the event time or another column: a result must not depend on when it is computed",
    ),
    Rule("tuple", "tuples are not supported", "compare one value with one: a.x = b.x AND a.y = b.y"),
    Rule("parameter", "parameters are not supported", "write the value"),
    Rule("time zone", "time zones are not supported: every time is UTC", "add or subtract an INTERVAL"),
)
_BY_CONSTRUCT = {rule.construct: rule for rule in reversed(RULES)}
_BY_KIND = {(rule.construct, kind): rule for rule in RULES for kind in rule.kinds}


def reject(site: Site, construct: str, written: str, span: Span, kind: Kind | None = None) -> NoReturn:
    """Raise the error of a construct; a clause without a row of its own is any `clause`."""
    known = construct if construct in _BY_CONSTRUCT else "clause"
    rule = _BY_KIND[known, kind] if kind else _BY_CONSTRUCT[known]
    problem, hint = rule.problem.replace("{}", written), rule.hint
    if construct == "aggregate" and (rejected := rejected_aggregate(written.lower())):
        problem, hint = rejected.problem, rejected.hint
    site.fail(span, problem, hint=hint)


def check_rules(
    site: Site, query: tree.Query, kind: Kind, tokens: tuple[Token, ...], is_registered: Callable[[str], bool]
) -> None:
    """Reject what a query of this kind may not say."""
    found = list(_Pass(tokens, is_registered).query(query, kind))
    if found:
        first = min(found, key=lambda each: (each.span[0], -each.span[1]))
        reject(site, first.construct, first.written, first.span, first.kind)
    left = query
    while isinstance(left, tree.SetOperation):
        left = left.left
    if left.source is None:
        word = next((token.span for token in tokens if token.start >= left.span[0]), left.span)
        reject(site, "no FROM", "", word, kind)


@dataclass(frozen=True)
class _Found:
    construct: str
    written: str
    span: Span
    kind: Kind


class _Pass:
    """Finds the rejected constructs of one query."""

    def __init__(self, tokens: tuple[Token, ...], is_registered: Callable[[str], bool]) -> None:
        self._tokens = tokens
        self._is_registered = is_registered

    def query(self, query: tree.Query, kind: Kind) -> Iterator[_Found]:
        for common in query.common:
            yield from self._inner(common.query, kind)
        if isinstance(query, tree.Select):
            yield from self._select(query, kind)
        elif kind is Kind.WINDOWED:
            yield from self.query(query.left, kind)
            yield from self.query(query.right, kind)
            for each in query.ending.order:
                yield from self._scalar(each.value, kind)
        else:
            word = _set_word(self._tokens, query)
            yield from self._is("set operation", word.text.upper(), word.span, kind)

    def _inner(self, query: tree.Query, kind: Kind) -> Iterator[_Found]:
        """A query in FROM or WITH."""
        if kind is not Kind.WINDOWED and isinstance(query, tree.Select) and query.source is None:
            yield from self._is("no FROM", "", query.span, kind)
        # Of results of a join, aggregates are made outside of it alone.
        yield from self.query(query, Kind.CONTINUOUS if kind is Kind.JOIN_AGGREGATES else kind)

    def _is(self, construct: str, written: str, span: Span, kind: Kind) -> Iterator[_Found]:
        known = construct if construct in _BY_CONSTRUCT else "clause"
        if (known, kind) in _BY_KIND:
            yield _Found(construct, written, span, kind)

    def _select(self, query: tree.Select, kind: Kind) -> Iterator[_Found]:
        for clause in query.clauses:
            if clause.text != "WITH":
                yield from self._is(clause.text, clause.text, clause.span, kind)
        if query.source is not None:
            yield from self._source(query.source, kind)
        for key in query.group or ():
            if not _is_window(tree.without_parentheses(key)):
                yield from self._scalar(key, kind)
        having = [query.having] if query.having is not None else []
        for each in (*(item.value for item in query.items), *having, *(each.value for each in query.ending.order)):
            yield from self._scalar(each, kind)
        for conjunct in tree.conjuncts(query.where):
            negated, inner = tree.without_not(conjunct)
            if kind is not Kind.WINDOWED and isinstance(inner, Exists | InSubquery):
                yield from self._test(f"{'NOT ' if negated else ''}{inner.word}", inner)
            else:
                yield from self._scalar(conjunct, kind)

    def _source(self, source: tree.Source, kind: Kind) -> Iterator[_Found]:
        if isinstance(source, tree.FromQuery):
            yield from self._inner(source.query, kind)
        elif isinstance(source, tree.Join):
            yield from self._source(source.left, kind)
            yield from self._source(source.right, kind)
            if source.kind == "full":
                yield from self._is("FULL JOIN", source.written.text, source.written.span, kind)
            if source.on is not None:
                yield from self._scalar(source.on, kind)

    def _scalar(self, root: Scalar, kind: Kind) -> Iterator[_Found]:
        for node in _outside_of_windows(root):
            if isinstance(node, SubqueryValue | Exists | InSubquery):
                if kind is Kind.WINDOWED:
                    yield from self.query(node.query, kind)
                yield from self._is("subquery", "SELECT", node.query.span, kind)
            elif isinstance(node, Over | Aggregate):
                yield from self._is("OVER" if isinstance(node, Over) else "aggregate", node.name, node.span, kind)
                yield from self._below(node, kind)
            elif _is_window(node) or _is_no_end(node):
                yield from self._is("window", "", node.span, kind)
            elif isinstance(node, Call) and node.function:
                if node.name.lower() == "result_time":
                    yield from self._is("result_time", "", node.span, kind)
                if self._is_registered(node.name):
                    yield from self._is("registered predicate", node.name, node.span, kind)

    def _below(self, node: Aggregate | Over, kind: Kind) -> Iterator[_Found]:
        for inner in (each for child in node.children() for each in child.walk()):
            if isinstance(inner, Over):
                yield from self._is("OVER in function", "", inner.span, kind)
            if isinstance(inner, Aggregate) and isinstance(node, Aggregate):
                yield from self._is("aggregate in aggregate", "", node.span, kind)

    def _test(self, written: str, node: Exists | InSubquery) -> Iterator[_Found]:
        """[NOT] EXISTS or [NOT] IN with a subquery, as a whole condition of a join."""
        query, kind = node.query, Kind.CONTINUOUS
        if isinstance(node, InSubquery):
            yield from self._scalar(node.value, kind)
        if not isinstance(query, tree.Select) or query.source is None:
            yield from self._is("subquery", written, query.span, kind)
            return
        for common in query.common:
            yield from self._inner(common.query, kind)
        for clause in query.clauses:
            if clause.text not in ("DISTINCT", "WITH"):  # duplicates say nothing about whether there is a row
                yield from self._is(clause.text, clause.text, clause.span, kind)
        if isinstance(query.source, tree.Join):
            second = query.source
            while isinstance(second.left, tree.Join):
                second = second.left
            yield from self._is("joined subquery", written, _span(second.right), kind)
        else:
            yield from self._source(query.source, kind)
        values = [item.value for item in query.items]
        if isinstance(node, InSubquery) and (len(values) != 1 or isinstance(values[0], tree.Star)):
            yield from self._is("columns of IN", written, query.span, kind)
        for value in (*values, *tree.conjuncts(query.where)):
            yield from self._scalar(value, kind)


def _is_window(node: Scalar) -> bool:
    return isinstance(node, Call) and node.name == WINDOW


def _is_no_end(node: Scalar) -> bool:
    return isinstance(node, Field) and _is_window(node.value) and node.name.lower() not in WINDOW_FIELDS


def _outside_of_windows(node: Scalar) -> Iterator[Scalar]:
    """A scalar and all below it, but not the arguments of window(…)."""
    yield node
    if not _is_window(node) and not (isinstance(node, Field) and _is_window(node.value)):
        for child in node.children():
            yield from _outside_of_windows(child)


def _set_word(tokens: tuple[Token, ...], query: tree.SetOperation) -> Token:
    words = [token for token in tokens if token.is_word("UNION", "INTERSECT", "MINUS", "EXCEPT")]
    return next((token for token in words if token.start >= query.left.span[1]), words[0])


def _span(source: tree.Source) -> Span:
    """From the first to the last of its tables."""
    if isinstance(source, tree.Join):
        return _span(source.left)[0], _span(source.right)[1]
    first = source.query.span if isinstance(source, tree.FromQuery) else source.name.span
    return first[0], max(first[1], source.alias.span[1])
