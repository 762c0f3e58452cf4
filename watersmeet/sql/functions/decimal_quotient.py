"""Quotients of decimals as Spark computes them, in whole numbers of 128 bits: written division, some digits at a time.

With A and B in units of their last digits, and k the digits that the result has more than A / B: the whole part is
A // B, each further group of m digits is (rest · 10^m) // B, and the last group is rounded half up.
"""

from __future__ import annotations

from watersmeet.model.expression import Expression
from watersmeet.sql.functions.rendering import raising, sql
from watersmeet.sql.functions.spark_rules import spark_type
from watersmeet.sql.spark_types import INTEGERS, MOST_DIGITS, Unsupported, is_decimal, is_exact, shape, shape_of

_MOST_GROUPS = 4  # the text doubles with each


def quotient(left: Expression, right: Expression) -> Expression | None:
    """left / right, if both are exact numbers and one is a decimal."""
    if not is_exact(left.type) or not is_exact(right.type) or not (is_decimal(left.type) or is_decimal(right.type)):
        return None
    kind = spark_type("/", [left, right])
    assert kind is not None
    (_, scale), (divisor, divisor_scale) = shape_of(left), shape_of(right)
    places = shape(kind)[1]
    more = places + divisor_scale - scale
    group = MOST_DIGITS - 1 - divisor  # so that a rest with so many digits more, doubled, fits in 128 bits
    if more < 0 or group < 1 or -(-more // group) > _MOST_GROUPS:
        raise Unsupported(f"a quotient of {left.type.upper()} and {right.type.upper()} is not supported")
    a, b = f"abs({_units('{0}', left)})", f"abs({_units('{1}', right)})"
    digits, rest = f"({a} // {b})", f"({a} % {b})"
    while more > group:
        digits, rest = _next(digits, rest, b, group)
        more -= group
    total = f"({digits} * {10**more} + ({rest} * {2 * 10**more} + {b}) // (2 * {b}))"
    sign = "CASE WHEN ({0} < 0) <> ({1} < 0) THEN '-' ELSE '' END"
    text = (
        f"CASE WHEN {{0}} IS NULL OR {{1}} IS NULL THEN NULL WHEN {{1}} = 0 THEN {raising(kind)} ELSE"
        f" CAST({sign} || CAST({total} // {10**places} AS TEXT) || '.'"
        f" || lpad(CAST({total} % {10**places} AS TEXT), {places}, '0') AS {kind.upper().replace(',', ', ')}) END"
    )
    return sql(text, kind, left, right, raises=True)


def _next(digits: str, rest: str, divisor: str, group: int) -> tuple[str, str]:
    moved = f"({rest} * {10**group})"
    return f"({digits} * {10**group} + {moved} // {divisor})", f"({moved} % {divisor})"


def _units(place: str, value: Expression) -> str:
    """A number in units of its last digit."""
    if value.type in INTEGERS:
        return f"CAST({place} AS HUGEINT)"
    return f"CAST(replace(CAST({place} AS TEXT), '.', '') AS HUGEINT)"
