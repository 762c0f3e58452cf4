"""The windows of a SELECT: `[RANGE 10 SECONDS]` or `[UNBOUNDED]` at a stream, `WINDOW …` at the end.

With SLIDE, or as `[TUMBLE 1 MINUTE]`, they make a windowed query. Windows are not part of any SQL
dialect: their tokens are left out of what is parsed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from watersmeet.sql.duration import duration
from watersmeet.sql.site import Site, Span
from watersmeet.sql.syntax import Token
from watersmeet.sql.tree import TableName


@dataclass(frozen=True)
class Bracket:
    """One window in brackets; `after` is the end of the token it stands behind."""

    window: int | None
    span: Span
    after: int
    slide: int | None = None  # None: of a continuous query


@dataclass(frozen=True)
class WindowClauses:
    """The windows of one SELECT, and its other tokens."""

    at_streams: tuple[Bracket, ...]
    overall: Bracket | None  # of aliases without brackets
    tokens: tuple[Token, ...]

    @property
    def brackets(self) -> tuple[Bracket, ...]:
        return (*self.at_streams, *([self.overall] if self.overall else ()))

    def of_tables(self, site: Site, tables: Iterable[TableName]) -> list[Bracket | None]:
        """The window of each table: the one behind its name or alias, or else the one at the end of the query."""
        found: list[Bracket | None] = []
        used: set[Span] = set()
        for table in tables:
            own = [each for each in self.at_streams if each.after in (table.name.span[1], table.alias.span[1])]
            if len(own) > 1:
                site.fail(own[1].span, f"alias {table.alias.text} has two windows", hint="remove one of them")
            used.update(bracket.span for bracket in own)
            found.append(own[0] if own else self.overall)
        for bracket in self.at_streams:
            if bracket.span not in used:
                _no_stream(site, bracket.span)
        return found


_KINDS = "RANGE r, RANGE r SLIDE s, TUMBLE r or UNBOUNDED"


def cut_windows(site: Site, tokens: tuple[Token, ...]) -> WindowClauses:
    """Find all windows of one SELECT."""
    kept: list[Token] = []
    brackets: list[Bracket] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token.text == "[" and at + 1 < len(tokens) and tokens[at + 1].is_word("RANGE", "TUMBLE", "UNBOUNDED"):
            close = next((i for i in range(at, len(tokens)) if tokens[i].text == "]"), None)
            if close is None:
                site.fail((token.start, tokens[at + 1].end), "this window has no closing bracket", hint="add ]")
            span = (token.start, tokens[close].end)
            if not kept:
                _no_stream(site, span)
            brackets.append(_bracket(site, tokens[at + 1 : close], span, kept[-1].end))
            at = close + 1
            continue
        _check_word(site, tokens[at : at + 3])
        kept.append(token)
        at += 1
    start = _trailing(kept)
    overall: Bracket | None = None
    if start is not None:
        span = (kept[start].start, kept[-1].end)
        clause = tuple(kept[start + 1 :])
        _check_last(site, clause)
        overall = _bracket(site, clause, span, span[0])
        kept = kept[:start]
    return WindowClauses(tuple(brackets), overall, tuple(kept))


def _no_stream(site: Site, span: Span) -> NoReturn:
    site.fail(span, "this window belongs to no stream", hint="move it after a stream's name or alias")


def _check_word(site: Site, tokens: tuple[Token, ...]) -> None:
    """Reject a bracket that is meant as a window. In an array or a subscript few words come before a number."""
    if [token.kind for token in tokens] != ["symbol", "word", "number"] or tokens[0].text != "[":
        return
    if not tokens[1].is_word("INTERVAL", "NOT", "CASE"):
        site.fail(tokens[1].span, f"there is no window {tokens[1].text}", hint=f"use {_KINDS}")


def _trailing(tokens: list[Token]) -> int | None:
    """Where a query-wide WINDOW clause starts; standard SQL's `WINDOW w AS (…)` is left to the parser."""
    for at in range(len(tokens) - 2, 0, -1):
        following = tokens[at + 1]
        if tokens[at].is_word("WINDOW") and (
            following.kind in ("number", "string") or following.is_word("UNBOUNDED", "INTERVAL", "RANGE", "TUMBLE")
        ):
            return at
    return None


def _check_last(site: Site, clause: tuple[Token, ...]) -> None:
    length = 1 if clause[0].is_word("UNBOUNDED") else 2
    at = length + sum(token.is_word("RANGE", "TUMBLE", "INTERVAL") for token in clause[:2])
    if len(clause) > at and clause[at].kind == "word" and not clause[at].is_word("SLIDE"):
        site.fail(clause[at].span, "WINDOW must be the last clause of the query", hint="move WINDOW to the end")


def _bracket(site: Site, tokens: tuple[Token, ...], span: Span, after: int) -> Bracket:
    at = next((place for place, token in enumerate(tokens) if token.is_word("SLIDE")), None)
    if tokens[0].is_word("TUMBLE"):
        if at is not None:
            site.fail(tokens[at].span, "TUMBLE has no SLIDE", hint="write RANGE … SLIDE …, or TUMBLE alone")
        length = duration(site, tokens[1:], span)
        _check_slide(site, length, length, span)
        return Bracket(length, span, after, length)
    if at is None:
        return Bracket(_window(site, tokens, span), span, after)
    range_, slide = _window(site, tokens[:at], span), duration(site, tokens[at + 1 :], tokens[at].span)
    if range_ is None:
        site.fail(
            span,
            "UNBOUNDED windows never end, so SLIDE means nothing",
            hint="write [RANGE 1 HOUR SLIDE 1 MINUTE]",
        )
    _check_slide(site, range_, slide, (tokens[at].start, tokens[-1].end))
    return Bracket(range_, span, after, slide)


def _check_slide(site: Site, length: int, slide: int, span: Span) -> None:
    if length == 0:
        site.fail(span, "a window of length 0 contains nothing", hint="make it longer")
    if slide == 0:
        site.fail(span, "SLIDE must be above 0", hint="write for example SLIDE 1 MINUTE")
    if slide > length:
        site.fail(
            span,
            "SLIDE is longer than RANGE, so that some rows would be in no window",
            hint="make SLIDE as long as RANGE or shorter",
        )


def _window(site: Site, tokens: tuple[Token, ...], span: Span) -> int | None:
    if tokens[0].is_word("UNBOUNDED"):
        if len(tokens) > 1:
            site.fail((tokens[1].start, tokens[-1].end), "nothing may follow UNBOUNDED", hint="remove it")
        return None
    return duration(site, tokens[1:] if tokens[0].is_word("RANGE") else tokens, span)
