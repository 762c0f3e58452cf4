"""Numeric predicates as programs for the block loop of store/blocks.py: arithmetic, comparisons, AND, OR, NOT.

Works on the DuckDB text of a predicate. Everything else (strings, decimals, CASE, functions) is left to DuckDB, and so
are types in which DuckDB computes other than in float64, such as FLOAT.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlglot
from sqlglot import exp

from watersmeet.model.predicate import Program
from watersmeet.sql.adapter.bands import constant_of

# The largest number of each type. Below 2⁵³ instead of 2⁶³ for the long ones: there float64 has every whole number.
_LARGEST = {"tinyint": 2.0**7 - 1, "smallint": 2.0**15 - 1, "int": 2.0**31 - 1, "bigint": 2.0**53 - 1}
_DOUBLE = 1.7e308
_DECIMAL = "decimal"  # what a literal with a point is for DuckDB; with an exponent it is a DOUBLE
_TIMES = {"timestamp": "time", "timestamp_ntz": "time", "date": "date"}
_COMPARED = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.EQ: "=", exp.NEQ: "<>"}
_COMPUTED = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_LOGIC = {exp.And: "and", exp.Or: "or"}


class _NotNumeric(Exception):
    pass


def program_of(text: str, kinds: Mapping[str, str], operands: Mapping[str, int]) -> tuple[Program, bool]:
    """The program of a predicate (empty where there is none), and whether a NULL anywhere makes it not true.

    `kinds` are the types of its columns, `operands` their numbers."""
    reader = _Reader(kinds, operands)
    node = sqlglot.parse_one(text, read="duckdb")
    try:
        reader.condition(node)
    except _NotNumeric:
        return (), False
    return tuple(reader.program), reader.strict


class _Reader:
    def __init__(self, kinds: Mapping[str, str], operands: Mapping[str, int]) -> None:
        self.kinds = kinds
        self.operands = operands
        self.program: list[tuple[str, float]] = []
        self.strict = True

    def condition(self, node: Any) -> None:
        node = node.unnest()
        if type(node) in _LOGIC:
            self.condition(node.this)
            self.condition(node.expression)
            self.program.append((_LOGIC[type(node)], 0.0))
            # x AND NULL may be false, which NOT turns into true; TRUE OR NULL is true.
            self.strict &= isinstance(node, exp.And) and node.find_ancestor(exp.Not) is None
        elif isinstance(node, exp.Not):
            self.condition(node.this)
            self.program.append(("not", 0.0))
        elif type(node) in _COMPARED:
            self._compare(_COMPARED[type(node)], node.this, node.expression)
        elif isinstance(node, exp.Between) and not node.args.get("symmetric"):
            self._compare(">=", node.this, node.args["low"])
            self._compare("<=", node.this, node.args["high"])
            self.program.append(("and", 0.0))
            self.strict &= node.find_ancestor(exp.Not) is None
        else:
            raise _NotNumeric

    def _compare(self, operation: str, one: Any, other: Any) -> None:
        first, second = self.number(one), self.number(other)
        if first != second or first == _DECIMAL:  # a date, say, is not counted in the units of a time
            _larger(first, second)
        self.program.append((operation, 0.0))

    def number(self, node: Any) -> float | str:
        """Adds what computes a number; says how large its type lets it be, or that it is a time, a date, a decimal."""
        node = node.unnest()
        if isinstance(node, exp.Column):
            return self._column(node)
        constant = constant_of(node)
        if constant is not None:
            value, is_time = constant
            if is_time or abs(value) > _LARGEST["bigint"]:
                raise _NotNumeric
            self.program.append(("number", float(value)))
            if isinstance(value, float):
                return _DOUBLE if "e" in str(node.sql(dialect="duckdb")).lower() else _DECIMAL
            return next(top for top in _LARGEST.values() if abs(value) <= top)
        if isinstance(node, exp.Neg | exp.Abs):
            limit = self.number(node.this)
            if isinstance(limit, str):
                raise _NotNumeric
            self.program.append(("neg" if isinstance(node, exp.Neg) else "abs", 0.0))
            return limit
        if type(node) in _COMPUTED:
            return self._computed(node)
        raise _NotNumeric

    def _column(self, node: Any) -> float | str:
        if len(node.parts) != 1:
            raise _NotNumeric  # a field of a struct
        kind = self.kinds[node.name]
        if kind not in _LARGEST and kind not in _TIMES and kind != "double":
            raise _NotNumeric
        self.program.append(("row", float(self.operands[node.name])))
        return _TIMES.get(kind) or _LARGEST.get(kind, _DOUBLE)

    def _computed(self, node: Any) -> float | str:
        first = self.number(node.this)
        constant = constant_of(node.expression.unnest())
        if first == "time" and constant is not None and constant[1] and not isinstance(node, exp.Mul):
            self.program.append(("number", float(constant[0])))
            self.program.append((_COMPUTED[type(node)], _LARGEST["bigint"]))
            return "time"
        second = self.number(node.expression)
        limit = _larger(first, second)
        self.program.append((_COMPUTED[type(node)], limit))
        return limit


def _larger(first: float | str, second: float | str) -> float:
    """The type of two numbers together. A decimal becomes a double only beside one; otherwise DuckDB keeps it exact."""
    if _DECIMAL in (first, second) and _DOUBLE in (first, second):
        return _DOUBLE
    if isinstance(first, str) or isinstance(second, str):
        raise _NotNumeric
    return max(first, second)
