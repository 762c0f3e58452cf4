"""Limits of the size of a query. Those of its text are checked on tokens, before a parser could take long.

Sizes that a literal asks for (`repeat(x, 1000000000)`) are limited too: one row could take all memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from watersmeet.errors import SqlError
from watersmeet.model.limits import TextLimits
from watersmeet.model.sliding_window import SlidingWindow
from watersmeet.sql.site import Site
from watersmeet.sql.syntax import Token
from watersmeet.sql.tree import Scalar, TableName
from watersmeet.sql.windows import WindowClauses

_PARTS = 50_000  # of a scalar
_CONNECTIVES = ("AND", "OR", "WHEN", "BETWEEN")
_OPERATORS = ("+", "-", "*", "/", "%", "||", "DIV")
# Functions whose result is as long as an argument says.
_SIZED = {"repeat", "lpad", "rpad", "space", "array_repeat", "sequence", "range", "generate_series"}


def check_length(name: str, text: str, limits: TextLimits) -> None:
    if len(text) > limits.length:
        raise SqlError(
            f"query {name} has {len(text):,} characters; the limit is {limits.length:,}",
            hint="make it shorter, or raise the option max_query_length",
        )


def check_aliases(site: Site, name: str, tables: Collection[TableName], most: int) -> None:
    if len(tables) > most:
        site.fail(
            list(tables)[most].alias.span,
            f"query {name} joins {len(tables)} aliases; the limit is {most}",
            hint="split it into two queries, or raise the option max_aliases",
        )


def check_parts(site: Site, node: Scalar) -> None:
    """Reject a scalar of more parts than one that is written can have. A name may stand for a scalar in which names
    stand for others: a short text could ask for any number of parts."""
    if next(islice(node.walk(), _PARTS, None), None) is not None:
        site.fail(node.span, "this expression is too long", hint="split it into several conditions or outputs")


def check_windows(site: Site, name: str, window: SlidingWindow, clauses: WindowClauses, limits: TextLimits) -> None:
    count = window.windows_of_a_row
    if count > limits.windows:
        sliding = [bracket.span for bracket in clauses.brackets if bracket.slide]
        called = [token.span for token in clauses.tokens if token.is_word("WINDOW")]
        site.fail(
            [*sliding, *called, (0, len(site.text))][0],
            f"each row is in {count:,} windows of query {name}; the limit is {limits.windows:,}",
            detail="That is RANGE divided by SLIDE.",
            hint="make SLIDE longer or RANGE shorter, or raise the option max_windows_per_row",
        )


def check_tokens(site: Site, tokens: Sequence[Token], limits: TextLimits) -> None:
    depth = terms = 0
    operand = False  # whether the token before can end an operand, so that an operator stands between two
    for token in tokens:
        depth += token.means("(", "[", "CASE") - token.means(")", "]", "END")
        if depth > limits.depth:
            site.fail(
                token.span,
                f"the expression is nested more than {limits.depth} deep",
                hint="make two queries of it, or raise the option max_depth",
            )
        terms += token.means(*_CONNECTIVES) or (operand and token.means(*_OPERATORS))
        if terms >= limits.terms:
            site.fail(
                token.span,
                f"the query has more than {limits.terms} terms (AND, OR, WHEN and operators)",
                hint="use IN for many values, make several queries of it, or raise the option max_terms",
            )
        if token.kind == "string" and len(token.text) > limits.literal:
            site.fail(
                token.span,
                f"this literal has {len(token.text):,} characters; the limit is {limits.literal:,}",
                hint="make it shorter, or raise the option max_literal",
            )
        operand = token.kind in ("quoted", "string", "number") or token.means(")", "]") or token.kind == "word"
    for function, size in _sizes(tokens):
        if _number(size.text) > limits.literal:
            site.fail(
                size.span,
                f"{function.text} is asked for a size of {size.text}; the limit is {limits.literal:,}",
                hint="ask for less, or raise the option max_literal",
            )


def _sizes(tokens: Sequence[Token]) -> Iterator[tuple[Token, Token]]:
    """The numbers that stand inside a call of a function whose result is as long as an argument says."""
    open_calls: list[Token | None] = []  # by parenthesis, the innermost such function around what follows
    before: Token | None = None
    for token in tokens:
        if token.means("("):
            around = open_calls[-1] if open_calls else None
            sized = before is not None and before.kind == "word" and before.text.lower() in _SIZED
            open_calls.append(before if sized else around)
        elif token.means(")") and open_calls:
            open_calls.pop()
        elif token.kind == "number" and open_calls and (function := open_calls[-1]) is not None:
            yield function, token
        before = token


def _number(text: str) -> float:
    try:
        return float(text.rstrip("lLsSyYdDfFbB") or 0)
    except ValueError:
        return 0.0
