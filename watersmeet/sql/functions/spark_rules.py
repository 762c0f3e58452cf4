"""Types of what Spark computes and no rendering here does: quotients of decimals, conversions to text, and so on.

Only windowed queries use them, whose windows Spark computes as a whole.
"""

from __future__ import annotations

from collections.abc import Callable

from watersmeet.model.expression import Expression
from watersmeet.sql.functions.by_spark import spark_call_type
from watersmeet.sql.spark_types import (
    MOST_DIGITS,
    TIMES,
    comparable,
    is_decimal,
    is_exact,
    is_numeric,
    shape_of,
    widest,
)

_LEAST_SCALE = 6  # digits behind the point that Spark keeps where a decimal would have more than 38


def spark_type(name: str, arguments: list[Expression]) -> str | None:
    """The type that Spark gives to a call; None where no rule says so."""
    found = _RULES[name](arguments) if name in _RULES else None
    return found or spark_call_type(name, arguments)


def castable(source: str, target: str) -> bool:
    """Whether Spark converts one simple type to another (ANSI)."""
    if target in (source, "string"):
        return True
    if is_numeric(source):
        return is_numeric(target) or target in ("boolean", "timestamp")
    if source == "timestamp" and is_numeric(target):
        return True
    if source == "boolean":
        return is_numeric(target)
    return source == "string" or (source in ("date", *TIMES) and target in ("date", *TIMES))


def bounded(digits: int, scale: int) -> str:
    """A decimal as Spark shortens it: digits before the point come first."""
    if digits <= MOST_DIGITS:
        return f"decimal({digits},{scale})"
    kept = max(MOST_DIGITS - (digits - scale), min(scale, _LEAST_SCALE))
    return f"decimal({MOST_DIGITS},{kept})"


def _sum(p1: int, s1: int, p2: int, s2: int) -> str:
    scale = max(s1, s2)
    return bounded(max(p1 - s1, p2 - s2) + scale + 1, scale)


def _product(p1: int, s1: int, p2: int, s2: int) -> str:
    return bounded(p1 + p2 + 1, s1 + s2)


def _quotient(p1: int, s1: int, p2: int, s2: int) -> str:
    scale = max(_LEAST_SCALE, s1 + p2 + 1)
    return bounded(p1 - s1 + s2 + scale, scale)


def _remainder(p1: int, s1: int, p2: int, s2: int) -> str:
    scale = max(s1, s2)
    return bounded(min(p1 - s1, p2 - s2) + scale, scale)


def _whole(p1: int, s1: int, p2: int, s2: int) -> str:
    return "bigint"


def _arithmetic(rule: Callable[[int, int, int, int], str]) -> Callable[[list[Expression]], str | None]:
    def kind(arguments: list[Expression]) -> str | None:
        kinds = [each.type for each in arguments]
        if len(kinds) == 2 and all(map(is_exact, kinds)) and any(map(is_decimal, kinds)):
            left, right = arguments
            return rule(*shape_of(left), *shape_of(right))
        if all(map(is_numeric, kinds)):
            return "float" if set(kinds) == {"float"} else "double"
        return None

    return kind


def _compared(arguments: list[Expression]) -> str | None:
    first, *others = arguments
    for other in others:
        comparable(first.type, other.type)
    return "boolean"


def _chosen(arguments: list[Expression]) -> str | None:
    return widest([each.type for each in arguments])


def _case(arguments: list[Expression]) -> str | None:
    count = len(arguments) // 2
    if any(test.type != "boolean" for test in arguments[: 2 * count : 2]):
        return None
    return widest([each.type for each in (*arguments[1 : 2 * count : 2], *arguments[2 * count :])])


def _if(arguments: list[Expression]) -> str | None:
    return _case(arguments) if len(arguments) == 3 else None


def _same(arguments: list[Expression]) -> str | None:
    return arguments[0].type if len(arguments) == 1 and is_numeric(arguments[0].type) else None


_RULES: dict[str, Callable[[list[Expression]], str | None]] = {
    "+": _arithmetic(_sum),
    "-": lambda arguments: _same(arguments) or _arithmetic(_sum)(arguments),
    "*": _arithmetic(_product),
    "/": _arithmetic(_quotient),
    "%": _arithmetic(_remainder),
    "mod": _arithmetic(_remainder),
    "div": _arithmetic(_whole),
    **dict.fromkeys(("abs", "negative"), _same),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "<=>", "between", "in"), _compared),
    **dict.fromkeys(("coalesce", "nvl", "ifnull", "greatest", "least"), _chosen),
    "case": _case,
    "if": _if,
}
