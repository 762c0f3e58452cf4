"""sqlglot's tree, already in Spark's meaning, as an `Expression`.

Arithmetic, comparisons, logic and constants become nodes of their own. Anything else is left to DuckDB: sqlglot writes
its text, in which each column is a mark, and the text is cut at the marks.
"""

from __future__ import annotations

import uuid
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlglot import ErrorLevel, exp

from watersmeet.model.expression import INTERVAL, Expression, Literal, Operation, Sql

_BINARY = {
    **{exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.EQ: "=", exp.NEQ: "<>"},
    **{exp.Add: "+", exp.Sub: "-", exp.Mul: "*"},
}
_UNARY = {exp.Neg: "-", exp.Not: "NOT", exp.Abs: "ABS", exp.Paren: "()"}
_CHAINED = {exp.And: "AND", exp.Or: "OR"}
_MICROS = {
    **{"MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": 1_000_000, "MINUTE": 60_000_000},
    **{"HOUR": 3_600_000_000, "DAY": 86_400_000_000, "WEEK": 604_800_000_000},
}
_DEEPEST = 40  # nodes below each other; pickle and Python itself bear some hundreds
_MARK = uuid.uuid4().hex  # no column has it in its name


class Columns:
    """What stands in place of the columns of a tree."""

    def __init__(self) -> None:
        self._found: list[Expression] = []

    def mark(self, column: Expression) -> Any:
        self._found.append(column)
        return exp.Column(this=exp.to_identifier(f"{_MARK}{len(self._found) - 1}{_MARK}", quoted=True))

    def marked(self, node: Any) -> Expression:
        return self._found[int(node.name.split(_MARK)[1])]

    def cut(self, text: str) -> Expression:
        first, *marked = text.split(f'"{_MARK}')
        pairs = [part.split(f'{_MARK}"') for part in marked]
        operands = tuple(self._found[int(number)] for number, _ in pairs)
        return Sql((first, *(after for _, after in pairs)), operands)


def expression_of(node: Any, columns: Columns, depth: int = 0) -> Expression:
    """Raises SqlglotError where DuckDB has nothing of this meaning."""
    if isinstance(node, exp.Column):
        return columns.marked(node)
    if depth >= _DEEPEST:
        return columns.cut(_text(node))
    found = _operation(node)
    if found is not None:
        operator, operands = found
        return Operation(operator, tuple(expression_of(operand, columns, depth + 1) for operand in operands))
    return _literal(node) or columns.cut(_text(node))


def _operation(node: Any) -> tuple[str, list[Any]] | None:
    kind = type(node)
    if kind in _BINARY:
        return _BINARY[kind], [node.this, node.expression]
    if kind in _UNARY:
        return _UNARY[kind], [node.this]
    if kind in _CHAINED:
        return _CHAINED[kind], _chain(node)
    if kind is exp.Between and node.args.get("symmetric") is None:
        return "BETWEEN", [node.this, node.args["low"], node.args["high"]]
    return None


def _text(node: Any) -> str:
    # Not of a copy: what some nodes become depends on what they stand in.
    return str(node.sql(dialect="duckdb", unsupported_level=ErrorLevel.RAISE, comments=False, copy=False))


def _chain(node: Any) -> list[Any]:
    """The operands of a AND b AND c …, of which there may be thousands."""
    kind, found = type(node), []
    while type(node) is kind:
        found.append(node.expression)
        node = node.this
    return [node, *reversed(found)]


def _literal(node: Any) -> Literal | None:
    if isinstance(node, exp.Boolean):
        return Literal(bool(node.this), "boolean", _text(node))
    if isinstance(node, exp.Literal):
        return Literal(node.name, "string", _text(node)) if node.is_string else _number(node.name)
    if isinstance(node, exp.Interval) and isinstance(node.this, exp.Literal) and node.unit is not None:
        unit = node.unit.name.upper().removesuffix("S")
        try:
            count = float(node.this.name)
        except ValueError:
            return None
        # DuckDB cuts off fractions of all units but seconds.
        if unit in _MICROS and (count.is_integer() or (unit == "SECOND" and (count * 1e6).is_integer())):
            return Literal(int(count * _MICROS[unit]), INTERVAL, _text(node))
    return None


def _number(text: str) -> Literal | None:
    """A number as DuckDB reads it: with a point it is a decimal while that has room, with an exponent a double."""
    try:
        if "e" in text.lower():
            return Literal(float(text), "double", text)
        value = Decimal(text)
    except (ValueError, InvalidOperation):
        return None
    if "." not in text:
        whole = int(text)
        fits = [kind for kind, bits in (("int", 31), ("bigint", 63)) if whole < 1 << bits]
        return Literal(whole, fits[0] if fits else f"decimal({len(str(whole))},0)", text)
    digits, scale = len(value.as_tuple().digits), -int(value.as_tuple().exponent)
    precision = max(digits, scale)
    return Literal(value, f"decimal({precision},{scale})" if precision <= 38 else "double", text)
