"""Aggregates as partials that combine, and what is made of them in the end.

| aggregate | partials | in the end |
|---|---|---|
| count, count_if | count | itself |
| sum | sum; of integers as DECIMAL(38, 0) | converted to Spark's type: out of its range it is an error |
| avg | sum, count | their quotient; of decimals rounded half up, as in Spark |
| min, max, bool_and, bool_or | min, max | itself |
| variance, stddev | moments | quotients, and their roots |
"""

from __future__ import annotations

from collections.abc import Callable

from watersmeet.model.expression import Cast, ColumnRef, Expression
from watersmeet.model.forms import PartialAggregate
from watersmeet.sql.functions.casts import cast
from watersmeet.sql.functions.rendering import sql
from watersmeet.sql.lower.lowering import DoesNotFit
from watersmeet.sql.spark_types import INTEGERS, is_decimal, shape

_WHOLE_SUM = "decimal(38,0)"
_MOST_SUMMED = 28  # digits of decimals whose sums have 38 at most, as long as there are fewer than 10¹⁰ of them
_MOST_AVERAGED = 23  # digits of decimals whose sums, with four digits more, fit in 128 bits
_MOST_SHOWN = 30  # digits and digits behind the point together, so that the average is a product of two decimals
MOMENTS = {
    "var_pop": "CASE WHEN {0} > 0 THEN {1} / {0} END",
    "var_samp": "CASE WHEN {0} > 1 THEN {1} / ({0} - 1) END",
    "stddev_pop": "CASE WHEN {0} > 0 THEN sqrt({1} / {0}) END",
    "stddev_samp": "CASE WHEN {0} > 1 THEN sqrt({1} / ({0} - 1)) END",
}
_SAME = {"variance": "var_samp", "stddev": "stddev_samp", "std": "stddev_samp", "mean": "avg", "try_avg": "avg"}
_SAME |= {"try_sum": "sum", "bool_and": "min", "every": "min", "bool_or": "max", "any": "max", "some": "max"}
FACTORS = ("count", "sum", "avg", "min", "max")  # what can be pushed below a join

Add = Callable[[str, Expression | None, str], Expression]  # a function, its argument and the type that is stored


def plain_name(name: str) -> str:
    """The name under which an aggregate combines."""
    return _SAME.get(name, name)


def combined(name: str, argument: Expression | None, kind: str, add: Add) -> Expression:
    """The aggregate over the columns of its partials, which `add` declares. `kind` is the type that Spark gives."""
    plain = plain_name(name)
    if plain == "count":
        return add("count", argument, "bigint")
    if plain not in FACTORS:
        raise DoesNotFit(f"{name} has no partial aggregates that combine")
    assert argument is not None
    if plain in ("min", "max"):
        return add(plain, argument, argument.type)
    addend = cast(argument, "double") if argument.type == "float" else argument
    total = add("sum", addend, stored_sum(argument.type))
    if plain == "sum":
        return as_type(total, kind)
    return average(argument.type, kind, total, add("count", argument, "bigint"))


def stored_sum(kind: str) -> str:
    """The type in which sums of values of a type are stored."""
    if kind in INTEGERS:
        return _WHOLE_SUM
    if is_decimal(kind):
        digits, scale = shape(kind)
        if digits > _MOST_SUMMED:
            raise DoesNotFit(f"a sum of {kind.upper()} may need more than 38 digits")
        return f"decimal(38,{scale})"
    return "double"


def as_type(total: Expression, kind: str) -> Expression:
    return total if total.type == kind else Cast((total,), kind)


def average(kind: str, result: str, total: Expression, count: Expression) -> Expression:
    if not is_decimal(kind):
        return sql("CASE WHEN {1} > 0 THEN {0} / {1} END", "double", cast(total, "double"), cast(count, "double"))
    digits, scale = shape(kind)
    if digits > _MOST_AVERAGED or digits + scale > _MOST_SHOWN:
        raise DoesNotFit(f"an average of {kind.upper()} needs too many digits")
    # As whole numbers: the sum in units of its last digit, with four digits more, divided and rounded half up.
    units = "CAST(replace(CAST({0} AS TEXT), '.', '') AS HUGEINT)"
    rounded = f"((abs({units}) * 20000 + {{1}}) // ({{1}} * 2))"
    places = scale + 4
    text = (
        f"CASE WHEN {{1}} > 0 THEN CAST(CAST(CAST(sign({{0}}) AS HUGEINT) * {rounded} AS DECIMAL({38 - places}, 0))"
        f" * CAST(0.{'0' * (places - 1)}1 AS DECIMAL({places}, {places})) AS DECIMAL({digits + 4}, {places})) END"
    )
    assert result == f"decimal({digits + 4},{places})", result
    return sql(text, result, total, cast(count, "bigint"))


class PartialList:
    """The partials of a query, each once."""

    def __init__(self) -> None:
        self.listed: list[PartialAggregate] = []

    def add(self, partial: PartialAggregate) -> tuple[ColumnRef, ...]:
        if partial not in self.listed:
            self.listed.append(partial)
        at = self.listed.index(partial)
        return tuple(ColumnRef(name, kind) for name, kind in partial.columns(at))
