"""Comparisons, logic and choices. NaN equals itself and is larger than all other numbers, in DuckDB as in Spark."""

from __future__ import annotations

from watersmeet.model.expression import COMPARISONS, INTERVAL, Cast, Expression, Literal, Operation, unnested
from watersmeet.sql.functions.casts import cast
from watersmeet.sql.functions.folding import always_null, remaining
from watersmeet.sql.functions.rendering import constant_of, null, operand, sql
from watersmeet.sql.functions.table import ANY_NUMBER, entry
from watersmeet.sql.spark_types import (
    INTEGERS,
    MONTHS,
    TIMES,
    VOID,
    Unsupported,
    comparable,
    is_decimal,
    shape_of,
    shown,
    widest,
)

_COMPARED = (
    "{simple} %s {simple2}",
    "{int} %s {bigint2}",
    "{int} %s {double2}",
    "{bigint} %s {double2}",
    "{float} %s 0.1",
    "{float} %s {int2}",
    "{decimal} %s {int2}",
    "{decimal} %s 1.5",
    "{decimal} %s {double2}",
    "{string} %s {int2}",
    "{string} %s {double2}",
    "{string} %s {date2}",
    "{date} %s {timestamp2}",
    "{timestamp} %s '2024-02-29'",
    "{date} %s '2024-02-29'",
    "{tinyint} %s 1000",
    "1 %s {int}",
    "{string} %s {boolean2}",
    "{ntz} %s {timestamp2}",
    "{int} %s NULL",
)


def compared_in(left: Expression, right: Expression) -> tuple[Expression, Expression]:
    """Two sides of a comparison, brought to a common type. DuckDB itself widens integers."""
    kind = comparable(left.type, right.type)
    if kind in (VOID, MONTHS):
        raise Unsupported(f"cannot compare {shown(left.type)} with {shown(right.type)}", "write IS NULL")
    if VOID in (left.type, right.type):
        return cast(left, kind), cast(right, kind)
    if (left.type in INTEGERS and right.type in INTEGERS) or (left.type in TIMES and right.type in TIMES):
        return left, right
    if is_decimal(left.type) != is_decimal(right.type) and is_decimal(kind):
        # Of a constant only its own digits count, so that a column may stay as it is.
        (p1, s1), (p2, s2) = shape_of(left), shape_of(right)
        scale = max(s1, s2)
        kind = f"decimal({max(p1 - s1, p2 - s2) + scale},{scale})"
    return cast(left, kind), cast(right, kind)


def _comparison(operator: str) -> None:
    @entry(operator, "comparison", 2, *(each % operator for each in _COMPARED))
    def build(left: Expression, right: Expression) -> Expression:
        left, right = compared_in(left, right)
        if isinstance(unnested(left), Literal) and not isinstance(unnested(right), Literal):
            return Operation(COMPARISONS[operator], (right, left))
        return Operation(operator, (left, right))


for _operator in COMPARISONS:
    _comparison(_operator)


@entry("<=>", "comparison", 2, "{simple} <=> {simple2}", "{int} <=> {double2}", "{int} <=> NULL")
def null_safe(left: Expression, right: Expression) -> Expression:
    if VOID in (left.type, right.type):
        if "map<" in left.type + right.type:
            raise Unsupported("<=> of maps means nothing in Spark", "write IS NULL")
        return sql("({0} IS NULL)", "boolean", right if left.type == VOID else left)
    return sql("({0} IS NOT DISTINCT FROM {1})", "boolean", *compared_in(left, right))


@entry(
    "between",
    "comparison",
    3,
    "{simple} BETWEEN {simple2} AND {simple}",
    "{int} BETWEEN 1 AND 10",
    "{string} BETWEEN 1 AND 50",
    "{int} BETWEEN {double2} AND 5",
    "{timestamp} BETWEEN '2024-01-01' AND {timestamp2}",
    "{int} NOT BETWEEN 0 AND {int2}",
)
def between(value: Expression, low: Expression, high: Expression) -> Expression:
    (one, bottom), (other, top) = compared_in(value, low), compared_in(value, high)
    if always_null(bottom) and always_null(top):
        return null("boolean")
    if one.text == other.text and not bottom.fallible and not top.fallible:
        return Operation("BETWEEN", (one, bottom, top))
    ends = Operation(">=", (one, bottom), lazy=bottom.fallible), Operation("<=", (other, top), lazy=top.fallible)
    return Operation("AND", ends, lazy=ends[1].fallible)


@entry(
    "in",
    "comparison",
    (2, ANY_NUMBER),
    "{int} IN (1, 7, NULL)",
    "{string} IN ('a', '')",
    "{string} IN (1, 7)",
    "{simple} IN ({simple2})",
    "{int} NOT IN (0, {int2})",
    "{int} IN (1, {int2} + 1)",
    "{bigint} IN (1, 2.5)",
    "{double} IN (0, {double2})",
    "{date} IN ('2024-02-29')",
)
def one_of(value: Expression, *others: Expression) -> Expression:
    kind = widest([value.type, *(other.type for other in others)])
    comparable(kind, kind)
    if all(each.type in (*INTEGERS, VOID) for each in (value, *others)):
        kind = value.type if value.type != VOID else kind
        listed = [null(kind) if other.type == VOID else other for other in others]
        value = null(kind) if value.type == VOID else value
    else:
        value, listed = cast(value, kind), [cast(other, kind) for other in others]
    if any(other.fallible for other in listed):
        tests = tuple(Operation("=", (operand(value), operand(other))) for other in listed)
        any_of = tests[0] if len(tests) == 1 else Operation("OR", tests, lazy=True)
        return sql("CASE WHEN {0} IS NOT NULL THEN {1} END", "boolean", value, any_of)  # as Spark looks at the list
    places = ", ".join(f"{{{at}}}" for at in range(1, len(listed) + 1))
    return sql(f"({{0}} IN ({places}))", "boolean", value, *listed)


def condition(value: Expression, where: str) -> Expression:
    if value.type == VOID and where != "WHEN":
        return cast(value, "boolean")
    if value.type != "boolean":
        raise Unsupported(f"{where} needs a BOOLEAN, not {shown(value.type)}", "compare it with a value")
    return value


@entry(
    "and",
    "logic",
    (2, ANY_NUMBER),
    "{boolean} AND {boolean2}",
    "{int} > 0 AND {int} + {int2} > 0",
    "{int} + 1 > 0 AND {int} * 2 > 0",
    "NOT ({int} > 0 AND {int} * {int2} > 0)",
)
def all_true(*values: Expression) -> Expression:
    return _joined("AND", values)


@entry(
    "or",
    "logic",
    (2, ANY_NUMBER),
    "{boolean} OR {boolean2}",
    "{int} > 0 OR {int} * {int2} > 0",
    "{int} + {int2} > 0 OR {int} < 0",
    "{int} + 1 > 0 OR {int} IS NULL",
    "NOT ({int} < 5 OR {int} * {int2} > 0)",
    "{boolean} OR CAST({string} AS INT) > 0 OR {boolean2}",
)
def any_true(*values: Expression) -> Expression:
    return _joined("OR", values)


def _joined(operator: str, values: tuple[Expression, ...]) -> Expression:
    values = tuple(condition(value, operator) for value in values)
    return Operation(operator, values, lazy=any(value.fallible for value in values[1:]))


@entry("not !", "logic", 1, "NOT {boolean}", "!{boolean}", "NOT ({int} + {int2} > 0)")
def negation(value: Expression) -> Expression:
    return Operation("NOT", (condition(value, "NOT"),))


@entry("isnull", "logic", 1, "isnull({simple})")
@entry(("is null",), "logic", 1, "{simple} IS NULL", "({int} + {int2}) IS NULL", "isnull({int})")
def is_null(value: Expression) -> Expression:
    return sql("({0} IS NULL)", "boolean", value)


@entry("isnotnull", "logic", 1, "isnotnull({simple})")
@entry(("is not null",), "logic", 1, "{simple} IS NOT NULL", "isnotnull({int})")
def is_not_null(value: Expression) -> Expression:
    return sql("({0} IS NOT NULL)", "boolean", value)


@entry(("is true",), "logic", 1, "{boolean} IS TRUE", "{boolean} IS NOT TRUE")
def is_true(value: Expression) -> Expression:
    return sql("coalesce({0}, FALSE)", "boolean", condition(value, "IS TRUE"))


@entry(("is false",), "logic", 1, "{boolean} IS FALSE", "{boolean} IS NOT FALSE")
def is_false(value: Expression) -> Expression:
    return sql("(NOT coalesce({0}, TRUE))", "boolean", condition(value, "IS FALSE"))


def branches(values: list[Expression]) -> tuple[list[Expression], str]:
    kind = widest([value.type for value in values])
    if kind in (VOID, INTERVAL, MONTHS):
        raise Unsupported(f"a value of type {shown(kind)} is not supported here", "CAST(NULL AS …) has a type")
    return [_typed(value, kind) for value in values], kind


def _typed(value: Expression, kind: str) -> Expression:
    return cast(value, kind) if value.type != kind or isinstance(unnested(value), Literal) else value


@entry("if", "conditional", 3, "if({boolean}, {simple}, {simple2})", "if({int} = 0, 0, 10 div {int})")
@entry(
    "case",
    "conditional",
    (2, ANY_NUMBER),
    "CASE WHEN {boolean} THEN {simple} ELSE {simple2} END",
    "CASE WHEN {int} > 0 THEN 1 END",
    "CASE WHEN {int} <> 0 THEN 10 div {int} ELSE 0 END",
    "CASE {int} WHEN 1 THEN 'a' WHEN {int2} THEN 'b' ELSE 'c' END",
    "CASE WHEN {boolean} THEN {int} ELSE {double2} END",
    "CASE WHEN {boolean} THEN {decimal} ELSE 0 END",
    "CASE WHEN {boolean} THEN NULL ELSE {tinyint} END",
    "CASE WHEN {boolean} THEN {date} ELSE {timestamp} END",
)
def case(*parts: Expression) -> Expression:
    """Conditions and values in turn, and the value for all others where the number is odd."""
    count = len(parts) // 2
    conditions = [condition(part, "WHEN") for part in parts[: 2 * count : 2]]
    values, kind = branches([*parts[1 : 2 * count : 2], *parts[2 * count :]])
    conditions, values = remaining(conditions, values)
    count = len(conditions)
    if not count:
        return values[0] if values else null(kind)
    text = "".join(f" WHEN {{{2 * at}}} THEN {{{2 * at + 1}}}" for at in range(count))
    otherwise = f" ELSE {{{2 * count}}}" if len(values) > count else ""
    turns = [each for pair in zip(conditions, values[:count], strict=True) for each in pair]
    return sql(f"CASE{text}{otherwise} END", kind, *turns, *values[count:])


@entry("nvl ifnull", "conditional", 2, "nvl({simple}, {simple2})", "ifnull({int}, {double2})")
@entry(
    "coalesce",
    "conditional",
    (1, ANY_NUMBER),
    "coalesce({simple}, {simple2})",
    "coalesce({int}, {bigint2}, 0)",
    "coalesce({string}, {int2})",
    "coalesce({int}, {int2} + 1)",
)
def coalesce(*values: Expression) -> Expression:
    typed, kind = branches(list(values))
    return sql(f"coalesce({', '.join(f'{{{at}}}' for at in range(len(typed)))})", kind, *typed)


@entry("nvl2", "conditional", 3, "nvl2({int}, {string}, {string2})")
def choose_by_null(test: Expression, value: Expression, other: Expression) -> Expression:
    return case(constant_of(True, "boolean") if test.never_null else is_not_null(test), value, other)


@entry("nullif", "conditional", 2, "nullif({simple}, {simple2})", "nullif({int}, 0)")
def null_if(value: Expression, other: Expression) -> Expression:
    if value.type == VOID:
        raise Unsupported("NULL alone has no type", "CAST(NULL AS INT) has one")
    left, right = compared_in(value, other)
    same = Operation("=", (operand(left), operand(right)), lazy=right.fallible)
    return sql("CASE WHEN {0} THEN NULL ELSE {1} END", value.type, same, _typed(value, value.type))


def _extreme(name: str) -> None:
    @entry(
        name,
        "conditional",
        (2, ANY_NUMBER),
        f"{name}({{simple}}, {{simple2}})",
        f"{name}({{int}}, {{bigint2}}, 3)",
        f"{name}({{int}}, {{double2}})",
    )
    def build(*values: Expression) -> Expression:
        kinds = {value.type for value in values} - {VOID}
        if "string" in kinds and len(kinds) > 1:
            raise Unsupported(f"{name} of {' and '.join(sorted(map(shown, kinds)))} means nothing in Spark")
        typed, kind = branches(list(values))
        comparable(kind, kind)
        text = f"{name}({', '.join(f'{{{at}}}' for at in range(len(typed)))})"
        if kind == "float":  # of which DuckDB loses the sign of -0.0
            return sql(f"CAST({text} AS FLOAT)", kind, *(cast(value, "double") for value in typed))
        return sql(text, kind, *typed)


_extreme("greatest")
_extreme("least")


def _conversion(kind: str, source: str) -> None:
    @entry(kind, "conversion", 1, f"{kind}({{{source}}})")
    def build(value: Expression) -> Expression:
        return cast(value, kind)


for _kind, _source in {
    **{"int": "number", "bigint": "number", "double": "integer", "string": "plain", "date": "timestamp"},
    **{"boolean": "string", "timestamp": "date", "tinyint": "int", "smallint": "int"},
}.items():
    _conversion(_kind, _source)


def try_cast(value: Expression, kind: str) -> Expression:
    """NULL where the conversion itself fails; what is inside of it still raises."""
    converted = cast(value, kind)
    if not converted.fallible:
        return converted
    if value.fallible:
        raise Unsupported("try_cast of a value that may not be computable is not supported", "use CAST")
    return (
        sql("TRY({0})", kind, converted)
        if not isinstance(converted, Cast)
        else sql(f"TRY_CAST({{0}} AS {converted.text.rpartition(' AS ')[2]}", kind, value)
    )
