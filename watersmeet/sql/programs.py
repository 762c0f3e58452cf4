"""Numeric predicates as programs for the block loop of store/blocks.py: arithmetic, comparisons, AND, OR, NOT.

Everything else (strings, decimals, CASE, functions) is left to DuckDB, and so are types in which DuckDB computes other
than in float64, such as FLOAT.
"""

from __future__ import annotations

from collections.abc import Callable

from watersmeet.model.expression import (
    COMPARISONS,
    INTERVAL,
    Cast,
    ColumnRef,
    Expression,
    Literal,
    Operation,
    constant,
    unnested,
)
from watersmeet.model.predicate import Program

_WHOLE = 2.0**53 - 1  # up to here float64 has every whole number
# The largest number of each type, or that it is a time or a date. Not 2⁶³ for the long ones.
_LIMITS: dict[str, float | str] = {
    **{"tinyint": 2.0**7 - 1, "smallint": 2.0**15 - 1, "int": 2.0**31 - 1, "bigint": _WHOLE, "double": 1.7e308},
    **{"timestamp": "time", "timestamp_ntz": "time", "date": "date"},
}


class _NotNumeric(Exception):
    pass


def program_of(condition: Expression, number: Callable[[ColumnRef], int]) -> tuple[Program, bool]:
    """The program of a predicate (empty where there is none), and whether a NULL anywhere makes it not true.

    `number` tells which operand of the program a column is."""
    reader = _ProgramReader(number)
    try:
        reader.condition(condition)
    except _NotNumeric:
        return (), False
    return tuple(reader.program), reader.strict


class _ProgramReader:
    def __init__(self, number: Callable[[ColumnRef], int]) -> None:
        self.operand = number
        self.program: list[tuple[str, float]] = []
        self.strict = True

    def condition(self, node: Expression, negated: bool = False) -> None:
        node = unnested(node)
        if isinstance(node, Literal) and node.type == "boolean":
            self.program += [("number", float(node.number)), ("number", 1.0), ("=", 0.0)]
            return
        if not isinstance(node, Operation):
            raise _NotNumeric
        if node.operator in ("AND", "OR"):
            self.condition(node.operands[0], negated)
            for operand in node.operands[1:]:
                self.condition(operand, negated)
                self.program.append((node.operator.lower(), 0.0))
            # x AND NULL may be false, which NOT turns into true; TRUE OR NULL is true.
            self.strict &= node.operator == "AND" and not negated
        elif node.operator == "NOT":
            self.condition(node.operands[0], True)
            self.program.append(("not", 0.0))
        elif node.operator in COMPARISONS:
            self._compare(node.operator, *node.operands)
        elif node.operator == "BETWEEN":
            value, low, high = node.operands
            self._compare(">=", value, low)
            self._compare("<=", value, high)
            self.program.append(("and", 0.0))
            self.strict &= not negated
        else:
            raise _NotNumeric

    def _compare(self, operator: str, one: Expression, other: Expression) -> None:
        first, second = self.number(one), self.number(other)
        if first != second:  # a date, say, is not counted in the units of a time
            _larger(first, second)
        self.program.append((operator, 0.0))

    def number(self, node: Expression) -> float | str:
        """Adds what computes a number; says how large its type lets it be, or that it is a time or a date."""
        node = unnested(node)
        if isinstance(node, ColumnRef):
            return self._column(node)
        literal = constant(node)
        if literal is not None:
            known = _LIMITS.get(literal.type)
            if known is None or not abs(literal.number) <= _WHOLE:  # also NaN
                raise _NotNumeric
            self.program.append(("number", float(literal.number)))
            return known
        if isinstance(node, Cast):
            return self._converted(node)
        if not isinstance(node, Operation):
            raise _NotNumeric
        if len(node.operands) == 1 and node.operator in ("-", "ABS"):
            limit = self.number(node.operands[0])
            if isinstance(limit, str):
                raise _NotNumeric
            self.program.append(("neg" if node.operator == "-" else "abs", limit))
            return limit
        if node.operator in ("+", "-", "*"):
            return self._computed(node.operator, *node.operands)
        raise _NotNumeric

    def _converted(self, node: Cast) -> float | str:
        """A conversion that changes no number: to a wider integer or to a double."""
        limits = self.number(node.operands[0]), _LIMITS.get(node.type, "")
        if not node.exact or any(isinstance(limit, str) for limit in limits):
            raise _NotNumeric
        return limits[1]

    def _column(self, column: ColumnRef) -> float | str:
        limit = _LIMITS.get(column.type)
        if limit is None:
            raise _NotNumeric
        self.program.append(("row", float(self.operand(column))))
        return limit

    def _computed(self, operator: str, one: Expression, other: Expression) -> float | str:
        first, literal = self.number(one), constant(other)
        if first == "time" and literal is not None and literal.type == INTERVAL and operator != "*":
            self.program.append(("number", float(literal.number)))
            self.program.append((operator, _WHOLE))
            return "time"
        second = self.number(other)
        limit = _larger(first, second)
        self.program.append((operator, limit))
        return limit


def _larger(first: float | str, second: float | str) -> float:
    """The type of two numbers together."""
    if isinstance(first, str) or isinstance(second, str):
        raise _NotNumeric
    return max(first, second)
