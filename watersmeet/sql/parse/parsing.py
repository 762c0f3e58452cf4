"""From text to sqlglot's tree, and the errors on the way."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from watersmeet.sql.functions.aggregates import AGGREGATES
from watersmeet.sql.functions.rejected import CHANGING, GENERATORS, ZONES
from watersmeet.sql.parse.fields import remember_reads
from watersmeet.sql.parse.tokens import parser_tree
from watersmeet.sql.site import Site
from watersmeet.sql.syntax import WITH_UNIT, Token

# What the parser rewrites before anybody can see it, or takes from other dialects.
_NOT_SPARKS = {
    "|>": ("pipe syntax is not supported", "write it as a SELECT with subqueries"),
    **{brace: ("braces are not supported", "remove them") for brace in "{}"},
}
_KINDS = (
    (AGGREGATES, "aggregate"),
    (GENERATORS, "table function"),
    (CHANGING, "not deterministic"),
    (ZONES, "time zone"),
)


def parsed(site: Site, text: str, tokens: tuple[Token, ...]) -> Any:
    """The tree of one statement, if there is any."""
    for before, after in pairwise(tokens):
        if before.kind == "symbol" and before.text == ";":
            site.fail(after.span, "a query has one SELECT", hint="remove the text after the semicolon")
    for token in tokens:
        if token.kind == "symbol" and token.text in _NOT_SPARKS:
            problem, hint = _NOT_SPARKS[token.text]
            site.fail(token.span, problem, hint=hint)
    try:
        roots = parser_tree(text, tokens)
    except ParseError as error:
        _syntax_error(site, text, tokens, error)
    except Exception as error:  # whatever the parser raises concerns this text alone
        site.fail((0, len(text)), "this text cannot be parsed as SQL", detail=f"{error}".partition("\n")[0])
    root = roots[0] if roots else None
    if root is not None:
        _name_exists(root)
        remember_reads(root)
    return root


def _syntax_error(site: Site, text: str, tokens: tuple[Token, ...], error: ParseError) -> NoReturn:
    first = error.errors[0] if error.errors else {}
    lines = text.split("\n")
    line, column = int(first.get("line") or 1), int(first.get("col") or 1)
    end = sum(len(one) + 1 for one in lines[: line - 1]) + column
    near = next((token for token in tokens if token.start < end <= token.end), None)
    span = near.span if near else (max(0, end - 1), end)
    what = f"unexpected {text[span[0] : span[1]]}" if near else "the SELECT is not complete"
    if "Required keyword" in str(first.get("description")):
        what = f"something is missing at {text[span[0] : span[1]]}"
    site.fail(span, what, hint="write SELECT … FROM stream [RANGE 10 SECONDS] AS alias, … WHERE …")


def _name_exists(root: Any) -> None:
    """EXISTS ((SELECT …)), which the parser takes for a function."""
    for call in list(root.find_all(exp.Anonymous)):
        if call.name.lower() == "exists" and len(call.expressions) == 1 and isinstance(call.expressions[0], exp.Query):
            call.replace(exp.Exists(this=call.expressions[0]))


def name_units(node: Any) -> Any:
    """The node, where the unit of timestampdiff(SECOND, …) and the like is a word and no column."""
    for call in list(node.find_all(exp.Anonymous)):
        unit = call.expressions[0] if len(call.expressions) == 3 and call.name.lower() in WITH_UNIT else None
        if isinstance(unit, exp.Column) and len(unit.parts) == 1:
            unit.replace(exp.Literal.string(unit.name))
    return node


def is_known_function(name: str) -> bool:
    """Whether the parser has an idea of a function of this name, or does not take it for a function at all."""
    try:
        return not isinstance(sqlglot.parse_one(f"{name}(x)", read="spark"), exp.Anonymous)
    except SqlglotError:
        return True


def unsupported_kind(node: Any) -> str | None:
    """The kind of construct, where no single row could answer it or no translation keeps its meaning."""
    if isinstance(node, exp.Query):
        return "subquery"
    if isinstance(node, exp.Window):
        return "window function"
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        if name == "unix_timestamp" and not node.expressions:
            return "not deterministic"
        return next((what for names, what in _KINDS if name in names), None)
    if isinstance(node, exp.Any) and not isinstance(node.parent, exp.Like | exp.ILike | exp.Binary):
        return "aggregate"
    if isinstance(node, exp.Column) and len(node.parts) == 1 and not node.this.quoted and node.name.lower() in CHANGING:
        return "not deterministic"
    if isinstance(node, exp.Placeholder | exp.Parameter | exp.SessionParameter):
        return "parameter"
    if isinstance(node, exp.AtTimeZone):
        return "time zone"
    if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
        return "inner star"
    if isinstance(node, exp.Tuple) and not isinstance(node.parent, exp.Any | exp.All):
        return "tuple"
    return None
