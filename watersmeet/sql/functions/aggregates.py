"""The closed table of aggregates, with Spark's result types. What is not in it is rejected.

An aggregate is in it if its result depends on nothing but the rows, whatever their order. Sums of DOUBLE depend on the
order in the last digit, as in Spark. min_by and max_by do where rows tie: here the least or largest value wins then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from watersmeet.model.expression import Expression, Literal, unnested
from watersmeet.sql.spark_types import (
    ATOMS,
    INTEGERS,
    MOST_DIGITS,
    TIMES,
    Unsupported,
    is_decimal,
    is_numeric,
    nested,
    shape,
    shown,
)

Arguments = Sequence[Expression]
Result = Callable[[str, Arguments], str]


@dataclass(frozen=True)
class AggregateEntry:
    names: tuple[str, ...]  # lower case; the first is shown
    fewest: int
    most: int
    result: Result
    examples: tuple[str, ...]


AGGREGATE_TABLE: dict[str, AggregateEntry] = {}
_ORDERED = (
    "its result depends on the order of rows, which a window does not have",
    "use min, max, min_by or max_by: they depend on values alone",
)
_REJECTED = {
    **dict.fromkeys(("first", "first_value", "last", "last_value", "any_value"), _ORDERED),
    **dict.fromkeys(("collect_list", "collect_set", "array_agg", "listagg", "string_agg"), _ORDERED),
    "mode": ("its result depends on chance where values are equally frequent", "count by value, and keep the largest"),
}
_UNKNOWN = ("count_min_sketch", "grouping", "histogram_numeric", "regr_avgx", "regr_count")


def rejected_aggregate(name: str) -> Unsupported | None:
    """Why an aggregate is not supported, wherever it is written."""
    if name in AGGREGATE_TABLE:
        return None
    why, hint = _REJECTED.get(name, ("it is not in the table of aggregates", "docs/windows.md lists the aggregates"))
    return Unsupported(f"aggregate function {name} is not supported: {why}", hint)


def aggregate_type(name: str, arguments: Arguments, star: bool, distinct: bool) -> str:
    """The type of an aggregate; raises Unsupported. `star` is count(*)."""
    if rejected := rejected_aggregate(name):
        raise rejected
    entry = AGGREGATE_TABLE[name]
    like = f"write it like {entry.examples[0]}"
    if star:
        if name != "count" or distinct:
            raise Unsupported(f"{name}{' DISTINCT' if distinct else ''} of * means nothing", like)
        return "bigint"
    if not entry.fewest <= len(arguments) <= entry.most:
        raise Unsupported(f"{name} does not take {len(arguments)} arguments", like)
    if distinct and name not in ("count", "sum", "avg", "mean", "min", "max", "approx_count_distinct"):
        raise Unsupported(f"DISTINCT is not supported in {name}", "remove DISTINCT, or group in a subquery first")
    return entry.result(name, arguments)


_RANKS = {"rank": "int", "dense_rank": "int", "percent_rank": "double", "cume_dist": "double"}
_BY_CHANCE = ("row_number", "ntile", "lag", "lead", "nth_value")


def type_over(name: str, arguments: Arguments, star: bool, ordered: bool) -> str:
    """The type of a function with OVER; raises Unsupported."""
    if name in _RANKS:
        if arguments or not ordered:
            raise Unsupported(f"{name} takes no argument and needs ORDER BY", f"write {name}() OVER (… ORDER BY …)")
        return _RANKS[name]
    if name in _BY_CHANCE:
        raise Unsupported(
            f"{name} is not supported: its result depends on chance where rows tie", "use rank() or dense_rank()"
        )
    return aggregate_type(name, arguments, star, distinct=False)


def _declare(names: str, counts: int | tuple[int, int], result: Result | str, *examples: str) -> None:
    fewest, most = (counts, counts) if isinstance(counts, int) else counts
    rule: Result = result if callable(result) else (lambda name, arguments, kind=result: kind)  # type: ignore[misc]
    made = AggregateEntry(tuple(names.split()), fewest, most, rule, examples)
    for name in made.names:
        assert name not in AGGREGATE_TABLE, name
        AGGREGATE_TABLE[name] = made


def _number(name: str, value: Expression) -> str:
    if not is_numeric(value.type):
        raise Unsupported(f"{name} needs a number, not {shown(value.type)}")
    return value.type


def _sum(name: str, arguments: Arguments) -> str:
    kind = _number(name, arguments[0])
    if is_decimal(kind):
        digits, scale = shape(kind)
        return f"decimal({min(digits + 10, MOST_DIGITS)},{scale})"
    return "bigint" if kind in INTEGERS else "double"


def _average(name: str, arguments: Arguments) -> str:
    kind = _number(name, arguments[0])
    if is_decimal(kind):
        digits, scale = shape(kind)
        return f"decimal({min(digits + 4, MOST_DIGITS)},{min(scale + 4, MOST_DIGITS)})"
    return "double"


def is_orderable(kind: str) -> bool:
    outer, inner = nested(kind)
    if outer in ("array", "struct"):
        return all(is_orderable(part) for part in inner.values())
    return kind in ATOMS or is_decimal(kind)


def _orderable(name: str, arguments: Arguments) -> str:
    for argument in reversed(arguments):
        if not is_orderable(argument.type):
            raise Unsupported(f"{name} of {shown(argument.type)} is not supported", "use a simple value")
    return arguments[0].type


def _real(name: str, arguments: Arguments) -> str:
    for argument in arguments:
        _number(name, argument)
    return "double"


def _truth(name: str, arguments: Arguments) -> str:
    if arguments[0].type != "boolean":
        raise Unsupported(f"{name} needs a BOOLEAN, not {shown(arguments[0].type)}", "compare it with a value")
    return "boolean"


def _count_if(name: str, arguments: Arguments) -> str:
    _truth(name, arguments)
    return "bigint"


def _bits(name: str, arguments: Arguments) -> str:
    if arguments[0].type not in INTEGERS:
        raise Unsupported(f"{name} needs an integer, not {shown(arguments[0].type)}")
    return arguments[0].type


def _simple(name: str, arguments: Arguments) -> str:
    for argument in arguments[:1]:
        if argument.type not in ATOMS and not is_decimal(argument.type):
            raise Unsupported(f"{name} of {shown(argument.type)} is not supported", "use a simple value")
    if len(arguments) > 1:
        deviation = unnested(arguments[1])
        if not isinstance(deviation, Literal) or not is_numeric(deviation.type) or not 0.01 <= deviation.number <= 0.39:
            raise Unsupported(
                f"the second argument of {name} is a constant from 0.01 to 0.39", "write for example 0.05"
            )
    return "bigint"


def _share(name: str, share: Expression, kind: str) -> str:
    """The type of one percentile, or of several."""
    if share.type == "array<double>":
        return f"array<{kind}>"
    value = unnested(share)
    if not isinstance(value, Literal) or not is_numeric(value.type) or not 0 <= value.number <= 1:
        raise Unsupported(f"the second argument of {name} is a constant from 0 to 1, or array(…) of such", "write 0.5")
    return kind


def _percentile(name: str, arguments: Arguments) -> str:
    _number(name, arguments[0])
    if len(arguments) > 2 and arguments[2].type not in INTEGERS:
        raise Unsupported(f"the third argument of {name} is an integer, not {shown(arguments[2].type)}")
    return _share(name, arguments[1], "double")


def _percentile_approx(name: str, arguments: Arguments) -> str:
    kind = arguments[0].type
    if not is_numeric(kind) and kind not in ("date", *TIMES):
        raise Unsupported(f"{name} of {shown(kind)} is not supported", "use a number, a DATE or a TIMESTAMP")
    if len(arguments) > 2:
        accuracy = unnested(arguments[2])
        if not isinstance(accuracy, Literal) or accuracy.type != "int" or not accuracy.number > 0:
            raise Unsupported(f"the third argument of {name} is a constant above 0", "write for example 10000")
    return _share(name, arguments[1], kind)


_declare("count", (1, 100), "bigint", "count(*)", "count(x)", "count(DISTINCT x)", "count(DISTINCT x, y)")
_declare("count_if", 1, _count_if, "count_if(x > 0)")
_declare("sum try_sum", 1, _sum, "sum(x)", "sum(DISTINCT x)")
_declare("avg mean try_avg", 1, _average, "avg(x)", "avg(DISTINCT x)")
_declare("min", 1, _orderable, "min(x)")
_declare("max", 1, _orderable, "max(x)")
_declare("min_by", 2, _orderable, "min_by(x, y)")
_declare("max_by", 2, _orderable, "max_by(x, y)")
_declare("stddev std stddev_samp", 1, _real, "stddev(x)")
_declare("stddev_pop", 1, _real, "stddev_pop(x)")
_declare("variance var_samp", 1, _real, "variance(x)")
_declare("var_pop", 1, _real, "var_pop(x)")
_declare("skewness", 1, _real, "skewness(x)")
_declare("kurtosis", 1, _real, "kurtosis(x)")
_declare("corr", 2, _real, "corr(x, y)")
_declare("covar_pop", 2, _real, "covar_pop(x, y)")
_declare("covar_samp", 2, _real, "covar_samp(x, y)")
_declare("median", 1, _real, "median(x)")
_declare("percentile", (2, 3), _percentile, "percentile(x, 0.5)", "percentile(x, array(0.25, 0.75))")
_declare(
    "percentile_approx approx_percentile",
    (2, 3),
    _percentile_approx,
    "percentile_approx(x, 0.5)",
    "percentile_approx(x, array(0.25, 0.75), 100)",
)
_declare("approx_count_distinct", (1, 2), _simple, "approx_count_distinct(x)", "approx_count_distinct(x, 0.01)")
_declare("bool_and every", 1, _truth, "bool_and(x > 0)")
_declare("bool_or any some", 1, _truth, "bool_or(x > 0)")
_declare("bit_and", 1, _bits, "bit_and(x)")
_declare("bit_or", 1, _bits, "bit_or(x)")
_declare("bit_xor", 1, _bits, "bit_xor(x)")

# The names of all aggregates of Spark, also of those that are not supported.
AGGREGATES = frozenset((*AGGREGATE_TABLE, *_REJECTED, *_UNKNOWN))
