"""What a continuous query may not say, found in its tree before any name is looked up."""

from __future__ import annotations

from collections.abc import Iterator

from watersmeet.sql import tree
from watersmeet.sql.lower.rows import conjuncts, without_not
from watersmeet.sql.site import Site, Span
from watersmeet.sql.syntax import Token, UnsupportedClause
from watersmeet.sql.tree import Aggregate, Exists, InSubquery, Node, Over, SubqueryValue
from watersmeet.sql.unsupported import reject

_OF_A_JOIN = ("join", "source", "nested join", "column aliases", "subquery")
_SET_WORDS = ("UNION", "INTERSECT", "MINUS", "EXCEPT")


def check_continuous(site: Site, query: tree.Query, tokens: tuple[Token, ...]) -> tree.Select:
    """The SELECT, if a continuous query may say all of it; what comes first in the text is reported."""
    if isinstance(query, tree.SetOperation):
        found = next(token for token in tokens if token.is_word(*_SET_WORDS))
        reject(site, UnsupportedClause("set operation", found.text.upper(), found.span))
    problems = sorted(_of_select(query), key=lambda each: (each.span[0], -each.span[1]))
    if problems:
        reject(site, problems[0])
    if query.source is None:
        site.fail(tokens[0].span, "this SELECT has no FROM", hint="name the streams to read after FROM")
    return query


def check_join(site: Site, query: tree.Select) -> None:
    """The same for what a query aggregates: FROM, and subqueries anywhere."""
    found = (each for each in _of_select(query) if each.what in _OF_A_JOIN)
    for problem in sorted(found, key=lambda each: (each.span[0], -each.span[1])):
        reject(site, problem)
    if query.source is None:
        site.fail(query.span, "this SELECT has no FROM", hint="name the streams to read after FROM")


def _of_select(query: tree.Select) -> Iterator[UnsupportedClause]:
    for clause in query.clauses:
        yield UnsupportedClause("clause", clause.text, clause.span)
    if query.source is not None:
        yield from _of_source(query.source)
    for item in query.items:
        yield from _of_scalar(item.value)
    for conjunct in conjuncts(query.where):
        nested = _nested(conjunct)
        if nested is None:
            yield from _of_scalar(conjunct)
        else:
            yield from _of_nested(*nested)


def _of_source(source: tree.Source) -> Iterator[UnsupportedClause]:
    if isinstance(source, tree.Derived):
        yield UnsupportedClause("source", "subquery", _span(source))
    elif isinstance(source, tree.TableName):
        if source.columns:
            span = (source.alias.span[0], source.columns[-1].span[1])
            yield UnsupportedClause("column aliases", source.alias.text, span)
    else:
        yield from _of_source(source.left)
        if isinstance(source.right, tree.Join):
            yield UnsupportedClause("nested join", "JOIN", _span(source.right))
        else:
            yield from _of_source(source.right)
        if source.kind == "full" or source.natural:
            yield UnsupportedClause("join", source.written.text, source.written.span)
        if source.on is not None:
            yield from _of_scalar(source.on)


def _span(source: tree.Source) -> Span:
    """From the first to the last of its tables."""
    if isinstance(source, tree.Join):
        return _span(source.left)[0], _span(source.right)[1]
    first = source.query.span if isinstance(source, tree.Derived) else source.name.span
    return first[0], max(first[1], source.alias.span[1])


def _of_scalar(node: Node) -> Iterator[UnsupportedClause]:
    for below in node.walk():
        if isinstance(below, Over):
            yield UnsupportedClause("window function", below.name, below.span)
        elif isinstance(below, Aggregate):
            yield UnsupportedClause("aggregate", below.name, below.span)
        elif isinstance(below, SubqueryValue | Exists | InSubquery):
            yield UnsupportedClause("subquery", "SELECT", below.query.span)


def _nested(node: Node) -> tuple[str, Exists | InSubquery] | None:
    """[NOT] EXISTS or [NOT] IN with a subquery, as a whole condition."""
    negated, inner = without_not(node)
    if not isinstance(inner, Exists | InSubquery):
        return None
    return f"{'NOT ' if negated else ''}{'EXISTS' if isinstance(inner, Exists) else 'IN'}", inner


def _of_nested(written: str, node: Exists | InSubquery) -> Iterator[UnsupportedClause]:
    query = node.query
    if isinstance(node, InSubquery):
        yield from _of_scalar(node.value)
    if not isinstance(query, tree.Select):
        yield UnsupportedClause("subquery", written, query.span)
        return
    for clause in query.clauses:
        if clause.text != "DISTINCT":  # it says nothing about whether there is a row
            yield UnsupportedClause("clause", clause.text, clause.span)
    if query.source is None:
        yield UnsupportedClause("subquery", written, query.span)
    elif isinstance(query.source, tree.Join):
        second = query.source
        while isinstance(second.left, tree.Join):
            second = second.left
        right = second.right
        yield UnsupportedClause("joined subquery", written, _span(right))
    else:
        yield from _of_source(query.source)
    values = [item.value for item in query.items]
    if isinstance(node, InSubquery) and (len(values) != 1 or isinstance(values[0], tree.Star)):
        yield UnsupportedClause("columns of IN", written, query.span)
    for value in (*values, *conjuncts(query.where)):
        yield from _of_scalar(value)
