"""Spark's types, and which one two values are brought to (Spark 4 in ANSI mode).

A type is its canonical name (model/types.py). Two more exist inside of expressions only: VOID is that of NULL, and
lengths of time are INTERVAL (days to microseconds) or MONTHS.
"""

from __future__ import annotations

import re
from itertools import accumulate

from watersmeet.model.expression import INTERVAL, Expression, Literal, unnested
from watersmeet.model.types import split_top

VOID = "void"
MONTHS = "interval year to month"
INTEGERS = ("tinyint", "smallint", "int", "bigint")
FLOATS = ("float", "double")
TIMES = ("timestamp", "timestamp_ntz")
ATOMS = (*INTEGERS, *FLOATS, *TIMES, "date", "string", "boolean", "binary")
MOST_DIGITS = 38
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}


class Unsupported(Exception):
    """Why an expression is rejected: no table here computes it, or Spark has no such expression."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint or "CAST(… AS …) converts a value to another type"


def is_decimal(kind: str) -> bool:
    return kind.startswith("decimal(")


def is_numeric(kind: str) -> bool:
    return kind in INTEGERS or kind in FLOATS or is_decimal(kind)


def is_exact(kind: str) -> bool:
    return kind in INTEGERS or is_decimal(kind)


def shape(kind: str) -> tuple[int, int]:
    """Precision and scale of a decimal, or of the decimal that an integer type becomes."""
    if kind in _DIGITS:
        return _DIGITS[kind], 0
    match = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    assert match, kind
    return int(match[1]), int(match[2])


def shape_of(expression: Expression) -> tuple[int, int]:
    """The same for a value beside a decimal: of an integer constant only its own digits count."""
    inner = unnested(expression)
    if isinstance(inner, Literal) and inner.type in INTEGERS:
        return len(str(abs(int(inner.number)))), 0
    return shape(expression.type)


def decimal_of(precision: int, scale: int, what: str) -> str:
    if precision > MOST_DIGITS:
        raise Unsupported(f"{what} needs {precision} digits", "CAST the decimals to fewer digits, or to DOUBLE")
    return f"decimal({precision},{scale})"


def wider(left: str, right: str) -> str | None:
    """The type in which Spark compares two values, or that it gives to two branches; None where there is none."""
    if left == right:
        return left
    if VOID in (left, right):
        return right if left == VOID else left
    if left in INTEGERS and right in INTEGERS:
        return max(left, right, key=INTEGERS.index)
    if is_numeric(left) and is_numeric(right):
        if left in FLOATS or right in FLOATS:
            return "double"
        shapes = shape(left), shape(right)
        scale = max(each[1] for each in shapes)
        return decimal_of(max(each[0] - each[1] for each in shapes) + scale, scale, "the common type")
    if {left, right} <= {"date", *TIMES}:
        return "timestamp" if "timestamp" in (left, right) else "timestamp_ntz"
    if "string" in (left, right):
        other = right if left == "string" else left
        if is_numeric(other):
            return "bigint" if other in INTEGERS else "double"
        return other if other in ("date", "boolean", *TIMES) else None
    return None


def widest(kinds: list[str]) -> str:
    # Strings decide last, as in Spark: the order of the others does not matter then.
    ordered = sorted(kinds, key=lambda kind: kind == "string")
    *_, found = accumulate(ordered, _common)
    return found


def _common(one: str, other: str) -> str:
    found = wider(one, other)
    if found is None:
        raise Unsupported(f"{shown(one)} and {shown(other)} have no common type")
    return found


def comparable(left: str, right: str) -> str:
    found = wider(left, right)
    if found is None or not (found in ATOMS or is_decimal(found) or found in (INTERVAL, MONTHS)):
        hint = "CAST one side to the type of the other" if left != right else "join on simple values inside of it"
        raise Unsupported(f"cannot compare {shown(left)} with {shown(right)}", hint)
    return found


def shown(kind: str) -> str:
    return "NULL" if kind == VOID else kind.upper()


def nested(kind: str) -> tuple[str, dict[str, str]]:
    """The kind of a nested type and the types inside: of `item`, of `key` and `value`, or of the fields."""
    match = re.fullmatch(r"(array|map|struct)<(.*)>", kind)
    if not match:
        return "", {}
    parts = split_top(match[2])
    if match[1] == "struct":
        return "struct", dict(part.split(":", 1) for part in parts)
    return match[1], dict(zip(("item",) if match[1] == "array" else ("key", "value"), parts, strict=True))
