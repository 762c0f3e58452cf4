"""Durations: `10 SECONDS`, `INTERVAL '0.5' HOUR`, `INTERVAL '2 days'`, in microseconds."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal, InvalidOperation

from watersmeet.sql.functions.constants import UNITS
from watersmeet.sql.parse import tokenize
from watersmeet.sql.site import Site, Span
from watersmeet.sql.syntax import Token

# Event times are 64-bit microseconds and a window is added to them, so a length keeps far from that edge.
LONGEST = 1_000 * 366 * UNITS["day"]


def duration(site: Site, tokens: tuple[Token, ...], span: Span) -> int:
    """The length that these tokens spell; `span` is where to point when they spell none."""
    rest = list(tokens)
    if rest and rest[0].is_word("INTERVAL"):
        rest.pop(0)
    words = [part for token in rest for part in (token.text.split() if token.kind == "string" else [token.text])]
    if rest:
        span = (rest[0].start, rest[-1].end)
    if len(words) != 2:
        site.fail(span, "this is not a duration", hint="write for example 10 SECONDS or INTERVAL '1' MINUTE")
    amount, unit = words[0], words[1].lower().removesuffix("s")
    if unit in ("month", "year", "quarter"):
        site.fail(span, f"a {unit} has no fixed length", hint="use DAYS or WEEKS")
    if unit not in UNITS:
        known = ", ".join(f"{name.upper()}S" for name in UNITS)
        site.fail(span, f"unknown unit of time {words[1]}", detail=f"Units: {known}.")
    try:
        length = Decimal(amount) * UNITS[unit]
    except InvalidOperation:
        site.fail(span, f"{amount} is not a number", hint="write for example 10 SECONDS")
    if not length.is_finite() or length < 0 or length > LONGEST:
        site.fail(span, "a duration is from 0 to 1000 years", hint="use UNBOUNDED to retain rows for ever")
    if length != length.to_integral_value():
        site.fail(span, "this duration is not a whole number of microseconds", hint="round it")
    return int(length)


def parse_duration(text: str) -> int:
    """The length that a text like `5 seconds` spells; raises SqlError where it spells none."""
    site = Site(text)
    return duration(site, tokenize(site, text), (0, len(text)))


def micros(length: str | timedelta | int) -> int:
    """A length as Python programs give it: a text, a timedelta, or microseconds."""
    if isinstance(length, timedelta):
        return length // timedelta(microseconds=1)
    return parse_duration(length) if isinstance(length, str) else length


def micros_or_none(length: str | timedelta | int | None) -> int | None:
    return None if length is None else micros(length)
