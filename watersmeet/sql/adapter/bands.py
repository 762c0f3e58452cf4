"""Which predicates bound a difference of two rows: comparisons of the sides, and of x - y with a constant.

Works on the DuckDB text of a predicate over "l.x" and "r.y". The outcome is low <= right - left <= high with two
expressions over the bare columns of one row each; offsets of times are microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import sqlglot
from sqlglot import exp

from watersmeet.model.predicate import LEFT, RIGHT

_FLIPPED: dict[Any, Any] = {exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE, exp.EQ: exp.EQ}
_MICROS = {
    **{"MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": 1_000_000, "MINUTE": 60_000_000},
    **{"HOUR": 3_600_000_000, "DAY": 86_400_000_000, "WEEK": 604_800_000_000},
}


@dataclass(frozen=True)
class Difference:
    left: str  # expression over the left row's bare columns
    right: str
    low: float | int | None
    high: float | int | None
    low_open: bool
    high_open: bool
    is_time: bool  # an offset is a length of time
    shifted: bool  # there is an offset, so that the text adds or subtracts
    compares: bool  # it is nothing but a comparison of the two sides


@dataclass(frozen=True)
class _Sum:
    """An expression over one row plus a constant."""

    node: Any
    side: str
    offset: float | int = 0
    is_time: bool = False


def difference_of(text: str) -> Difference | None:
    node = sqlglot.parse_one(text, read="duckdb").unnest()
    if type(node) not in _FLIPPED:
        return None
    one, other, kind = node.this.unnest(), node.expression.unnest(), type(node)
    if constant_of(one) is not None:
        one, other, kind = other, one, _FLIPPED[kind]
    bound = constant_of(other)
    if bound is not None:
        return _of_constant(one, kind, *bound)
    first, second = _sum(one), _sum(other)
    if first is None or second is None or first.side == second.side or kind is exp.EQ:
        return None
    # first + o1 < second + o2 is second - first > o1 - o2
    return _made(first, second, _FLIPPED[kind], first.offset - second.offset, False, compares=True)


def _of_constant(node: Any, kind: Any, bound: float | int, is_time: bool) -> Difference | None:
    absolute = isinstance(node, exp.Abs)
    node = node.this.unnest() if absolute else node
    if not isinstance(node, exp.Sub) or (absolute and kind not in (exp.LT, exp.LTE)):
        return None
    first, second = _sum(node.this.unnest()), _sum(node.expression.unnest())
    if first is None or second is None or first.side == second.side:
        return None
    # (first + o1) - (second + o2) < c is second - first > o1 - o2 - c
    shift = first.offset - second.offset
    found = _made(first, second, _FLIPPED[kind], shift - bound, is_time, compares=False)
    if not absolute:
        return found
    other = _made(first, second, kind, shift + bound, is_time, compares=False)
    return replace(
        found,
        low=other.low if found.low is None else found.low,
        high=other.high if found.high is None else found.high,
        low_open=found.low_open or other.low_open,
        high_open=found.high_open or other.high_open,
    )


def _made(first: _Sum, second: _Sum, kind: Any, bound: float | int, is_time: bool, *, compares: bool) -> Difference:
    """second - first (kind) bound, with the left row on the left."""
    if first.side == RIGHT:
        first, second, kind, bound = second, first, _FLIPPED[kind], -bound
    low = bound if kind in (exp.GT, exp.GTE, exp.EQ) else None
    high = bound if kind in (exp.LT, exp.LTE, exp.EQ) else None
    return Difference(
        _bare(first.node),
        _bare(second.node),
        low,
        high,
        kind is exp.GT,
        kind is exp.LT,
        is_time or first.is_time or second.is_time,
        bool(first.offset or second.offset or first.is_time or second.is_time) or not compares,
        compares,
    )


def _sum(node: Any) -> _Sum | None:
    sides = {column.parts[0].name[:2] for column in node.find_all(exp.Column)}
    if len(sides) != 1:
        return None
    (side,) = sides
    offset: float | int = 0
    is_time = False
    while isinstance(node, exp.Add | exp.Sub):
        constant = constant_of(node.expression.unnest())
        if constant is None or (offset and constant[1] != is_time):
            break
        offset += constant[0] if isinstance(node, exp.Add) else -constant[0]
        is_time = constant[1]
        node = node.this.unnest()
    return _Sum(node, side, offset, is_time)


def constant_of(node: Any) -> tuple[float | int, bool] | None:
    """A number, or the microseconds of an INTERVAL of fixed length, and which of the two it is."""
    if isinstance(node, exp.Neg):
        inner = constant_of(node.this.unnest())
        return (-inner[0], inner[1]) if inner else None
    if isinstance(node, exp.Literal) and not node.is_string:
        return (float(node.this) if any(c in node.this for c in ".eE") else int(node.this)), False
    if isinstance(node, exp.Interval) and isinstance(node.this, exp.Literal) and node.unit is not None:
        micros = _MICROS.get(node.unit.name.upper().removesuffix("S"))
        try:
            count = float(node.this.name)
        except ValueError:
            return None
        if micros is None or not (count * micros).is_integer():
            return None
        return int(count * micros), True
    return None


def _bare(node: Any) -> str:
    """The text over the row's own column names."""
    copied = exp.Paren(this=node.copy())
    for column in list(copied.find_all(exp.Column)):
        first = column.parts[0]  # behind it are fields, where the column is a struct
        assert first.name[:2] in (LEFT, RIGHT)
        first.set("this", first.name[2:])
    return str(copied.this.sql(dialect="duckdb"))
