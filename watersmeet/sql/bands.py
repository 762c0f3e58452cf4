"""Which predicates bound a difference of two rows: comparisons of the sides, and of x - y with a constant.

The outcome is low <= right - left <= high with two expressions over one row each; offsets of times are microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeGuard

from watersmeet.model.expression import COMPARISONS, INTERVAL, Expression, Literal, Operation, bare, constant, unnested
from watersmeet.model.predicate import RIGHT


@dataclass(frozen=True)
class Difference:
    """Bounds of right - left, of which each is an expression over one row."""

    left: Expression  # over the left row alone
    right: Expression
    low: float | int | None
    high: float | int | None
    low_open: bool
    high_open: bool
    is_time: bool  # an offset is a length of time
    shifted: bool  # there is an offset, so that the text adds or subtracts
    compares: bool  # it is nothing but a comparison of the two sides
    nan_passes: bool = False  # a difference that is NaN, which no band holds, would satisfy it


@dataclass(frozen=True)
class _Sum:
    """An expression over one row plus a constant."""

    expression: Expression
    row: str
    offset: float | int = 0
    is_time: bool = False


def difference_of(condition: Expression) -> Difference | None:
    condition = unnested(condition)
    if not isinstance(condition, Operation) or condition.operator not in COMPARISONS or condition.operator == "<>":
        return None
    one, other, operator = *map(bare, condition.operands), condition.operator
    if constant(one) is not None:
        one, other, operator = other, one, COMPARISONS[operator]
    bound = constant(other)
    if bound is not None:
        return _of_constant(one, operator, bound)
    first, second = _sum(one), _sum(other)
    if first is None or second is None or first.row == second.row or operator == "=":
        return None
    # first + o1 < second + o2 is second - first > o1 - o2
    return _made(first, second, COMPARISONS[operator], first.offset - second.offset, False, compares=True)


def _of_constant(expression: Expression, operator: str, bound: Literal) -> Difference | None:
    absolute = isinstance(expression, Operation) and expression.operator == "ABS"
    expression = bare(expression.operands[0]) if absolute else expression
    if not _adds(expression, "-") or (absolute and operator not in ("<", "<=")):
        return None
    first, second = (_sum(bare(operand)) for operand in expression.operands)
    if first is None or second is None or first.row == second.row:
        return None
    # (first + o1) - (second + o2) < c is second - first > o1 - o2 - c
    shift, is_time = first.offset - second.offset, bound.type == INTERVAL
    found = _made(first, second, COMPARISONS[operator], shift - bound.number, is_time, compares=False)
    if not absolute:
        return replace(found, nan_passes=operator in (">", ">="))  # NaN is larger than all other numbers
    other = _made(first, second, operator, shift + bound.number, is_time, compares=False)
    return replace(
        found,
        low=other.low if found.low is None else found.low,
        high=other.high if found.high is None else found.high,
        low_open=found.low_open or other.low_open,
        high_open=found.high_open or other.high_open,
    )


def _made(first: _Sum, second: _Sum, operator: str, bound: float | int, is_time: bool, *, compares: bool) -> Difference:
    """second - first (operator) bound, with the left row on the left."""
    if first.row == RIGHT:
        first, second, operator, bound = second, first, COMPARISONS[operator], -bound
    low = bound if operator in (">", ">=", "=") else None
    high = bound if operator in ("<", "<=", "=") else None
    return Difference(
        left=_of_one_row(first.expression),
        right=_of_one_row(second.expression),
        low=low,
        high=high,
        low_open=operator == ">",
        high_open=operator == "<",
        is_time=is_time or first.is_time or second.is_time,
        shifted=bool(first.offset or second.offset or first.is_time or second.is_time) or not compares,
        compares=compares,
    )


def _sum(expression: Expression) -> _Sum | None:
    rows = {column.row for column in expression.columns}
    if len(rows) != 1:
        return None
    offset: float | int = 0
    is_time = False
    while _adds(expression, "+", "-"):
        added = constant(expression.operands[1])
        if added is None or (offset and (added.type == INTERVAL) != is_time):
            break
        offset += added.number if expression.operator == "+" else -added.number
        is_time = added.type == INTERVAL
        expression = bare(expression.operands[0])
    return _Sum(expression, rows.pop(), offset, is_time)


def _adds(expression: Expression, *operators: str) -> TypeGuard[Operation]:
    return isinstance(expression, Operation) and expression.operator in operators and len(expression.operands) == 2


def _of_one_row(expression: Expression) -> Expression:
    """The same over the only row that it reads."""
    return expression.renamed(lambda column: replace(column, row=""))
