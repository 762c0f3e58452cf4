"""Arithmetic with Spark's result types. What raises in Spark raises here: overflow, division by zero."""

from __future__ import annotations

from watersmeet.model.expression import INTERVAL, Cast, Expression, Literal, Operation, unnested
from watersmeet.sql.functions.casts import cast
from watersmeet.sql.functions.rendering import constant_of, operand, raising, sql, whole
from watersmeet.sql.functions.table import entry
from watersmeet.sql.spark_types import (
    FLOATS,
    INTEGERS,
    MONTHS,
    TIMES,
    VOID,
    Unsupported,
    decimal_of,
    is_decimal,
    is_numeric,
    shape,
    shape_of,
    shown,
    wider,
)

_FAMILY = "arithmetic"
_ROUNDED = 34  # digits that Spark keeps of the opposite of a decimal
_SHORT = 18  # digits of decimals in 64 bits
_PAIRS = ("{integer}", "{integer2}"), ("{int}", "{double2}"), ("{float}", "{int2}"), ("{double}", "{double2}")


def _examples(operator: str) -> tuple[str, ...]:
    return tuple(f"{one} {operator} {other}" for one, other in _PAIRS)


def _number(value: Expression) -> Expression:
    if value.type == VOID:
        raise Unsupported("NULL alone has no type", "CAST(NULL AS INT) has one")
    if not is_numeric(value.type):
        raise Unsupported(f"a number is needed here, not {shown(value.type)}")
    return value


def _with_opposite(value: Expression) -> Expression:
    if is_decimal(value.type) and shape(value.type)[0] > _ROUNDED:
        raise Unsupported(f"Spark rounds the opposite of a {shown(value.type)}", "CAST it to fewer digits")
    return _number(value)


def _real(value: Expression) -> Expression:
    return cast(value if value.type == VOID else _number(value), "double")


def _pair(left: Expression, right: Expression) -> tuple[Expression, Expression, str]:
    """Both operands in the type that Spark computes in; decimals stay as they are."""
    if left.type == VOID and right.type == VOID:
        raise Unsupported("NULL alone has no type", "CAST(NULL AS INT) has one")
    left, right = (cast(one, other.type) if one.type == VOID else one for one, other in ((left, right), (right, left)))
    if "string" in (left.type, right.type):
        kind = wider(left.type, right.type)
        if kind in (None, "string") or not is_numeric(str(kind)):
            raise Unsupported(f"cannot compute with {shown(left.type)} and {shown(right.type)}")
        left, right = (cast(one, str(kind)) if one.type == "string" else one for one in (left, right))
    left, right = _number(left), _number(right)
    if left.type in FLOATS or right.type in FLOATS:
        kind = left.type if left.type == right.type else "double"
        return cast(left, kind), cast(right, kind), kind
    if is_decimal(left.type) or is_decimal(right.type):
        return left, right, ""
    kind = max(left.type, right.type, key=INTEGERS.index)
    # DuckDB takes a constant for the narrower type of the other side.
    constants = [isinstance(unnested(one), Literal) for one in (left, right)]
    if any(constants):
        left, right = (one if known else cast(one, kind) for one, known in zip((left, right), constants, strict=True))
        if all(constants):
            left, right = cast(left, kind), cast(right, kind)
    return left, right, kind


def _as_decimal(value: Expression) -> Expression:
    precision, scale = shape_of(value)
    return cast(value, f"decimal({precision},{scale})")


def _computed(operator: str, left: Expression, right: Expression) -> Expression:
    left, right, kind = _pair(left, right)
    if kind:
        return Operation(operator, (left, right), kind)
    (p1, s1), (p2, s2) = shape_of(left), shape_of(right)
    if operator == "*":
        kind = decimal_of(p1 + p2 + 1, s1 + s2, "the product")
    else:
        scale = max(s1, s2)
        kind = decimal_of(max(p1 - s1, p2 - s2) + scale + 1, scale, "the sum")
    left, right = _as_decimal(left), _as_decimal(right)
    if max(p1, p2) <= _SHORT < shape(kind)[0]:
        left = Cast((left,), f"decimal({_SHORT + 1},{s1})", exact=True)  # DuckDB keeps to short ones, and overflows
    both = Operation(operator, (operand(left), operand(right)), kind)
    return Cast((both,), kind)


@entry(
    "+",
    _FAMILY,
    2,
    *_examples("+"),
    "{decimal} + {decimal2}",
    "{decimal} + {int2}",
    "{decimal} + 1",
    "{integer} + 1",
    "{decimal} + {double2}",
    "{timestamp} + INTERVAL '1' HOUR",
    "{timestamp} + INTERVAL '1' MONTH",
    "{date} + INTERVAL '1' DAY",
    "{date} + INTERVAL '1' MONTH",
    "{ntz} + INTERVAL '-90' SECOND",
)
def add(left: Expression, right: Expression) -> Expression:
    if left.type in (INTERVAL, MONTHS):
        left, right = right, left
    if right.type in (INTERVAL, MONTHS):
        return _moved("+", left, right)
    if "date" in (left.type, right.type):
        raise Unsupported(f"{shown(left.type)} + {shown(right.type)} is not supported", "use date_add(date, days)")
    return _computed("+", left, right)


@entry(
    "-",
    _FAMILY,
    (1, 2),
    *_examples("-"),
    "-{number}",
    "{decimal} - {decimal2}",
    "1 - {decimal}",
    "{decimal} - {bigint}",
    "{timestamp} - INTERVAL '1.5' SECOND",
    "{date} - INTERVAL '1' YEAR",
    "{timestamp} - {timestamp2} < INTERVAL '1' DAY",
)
def subtract(left: Expression, right: Expression | None = None) -> Expression:
    if right is None:
        if isinstance(left, Literal) and left.type in (INTERVAL, MONTHS):
            raise Unsupported("a negative INTERVAL is not supported", "write INTERVAL '-1' DAY, or subtract it")
        return Operation("-", (_with_opposite(left),), left.type)
    if right.type in (INTERVAL, MONTHS):
        return _moved("-", left, right)
    if left.type in TIMES and right.type in (*TIMES, "date"):
        return Operation("-", (left, cast(right, left.type)), INTERVAL)
    if "date" in (left.type, right.type):
        raise Unsupported(f"{shown(left.type)} - {shown(right.type)} is not supported", "use datediff or date_sub")
    return _computed("-", left, right)


def _moved(operator: str, time: Expression, length: Expression) -> Expression:
    if not isinstance(unnested(length), Literal):
        raise Unsupported("a length of time that is computed is not supported", "use timestampdiff(SECOND, …, …)")
    if time.type in TIMES:
        return Operation(operator, (time, length), time.type)
    if time.type != "date":
        raise Unsupported(f"{shown(time.type)} {operator} INTERVAL is not supported", "CAST it to TIMESTAMP")
    if length.type == INTERVAL and not unnested(length).text.endswith("DAY"):
        return Operation(operator, (cast(time, "timestamp"), length), "timestamp")
    return sql(f"CAST(({{0}} {operator} {{1}}) AS DATE)", "date", time, length, raises=True)


@entry(
    "*",
    _FAMILY,
    2,
    *_examples("*"),
    "{decimal} * {decimal2}",
    "{decimal} * 2",
    "{integer} * 2",
    "{int} * 0.5",
    "{double} * 0.1",
)
def multiply(left: Expression, right: Expression) -> Expression:
    return _computed("*", left, right)


def _never(right: Expression, *values: int) -> bool:
    """Whether it is a constant other than these."""
    inner = unnested(right)
    return isinstance(inner, Literal) and inner.number not in values


@entry(
    "/",
    _FAMILY,
    2,
    "{integer} / {integer2}",
    "{int} / 2",
    "{double} / {double2}",
    "{float} / {float2}",
    "{float} / {int2}",
    "{decimal} / {double2}",
)
def divide(left: Expression, right: Expression) -> Expression:
    left, right, kind = _pair(left, right)
    if not kind:
        raise Unsupported("a quotient of decimals is not supported", "CAST one side AS DOUBLE")
    left, right = cast(left, "double"), cast(right, "double")
    if _never(right, 0):
        return sql("({0} / {1})", "double", left, right)
    text = f"CASE WHEN {{1}} = 0 AND {{0}} IS NOT NULL THEN {raising('double')} ELSE {{0}} / {{1}} END"
    return sql(text, "double", left, right, raises=True)


@entry(
    "% mod",
    _FAMILY,
    2,
    "{integer} % {integer2}",
    "{integer} % 7",
    "{integer} % -1",
    "{double} % {double2}",
    "mod({int}, {int2})",
    "{int} % 0",
)
def remainder(left: Expression, right: Expression) -> Expression:
    left, right, kind = _pair(left, right)
    if not kind or kind == "float":
        raise Unsupported("% of decimals and floats is not supported", "CAST both sides to BIGINT or DOUBLE")
    left, right = cast(left, kind), cast(right, kind)
    if _never(right, 0, -1):
        return sql("({0} % {1})", kind, left, right)
    one = "" if kind in FLOATS else f" WHEN {{1}} = -1 THEN CAST({{0}} - {{0}} AS {kind.upper()})"
    text = f"CASE WHEN {{1}} = 0 AND {{0}} IS NOT NULL THEN {raising(kind)}{one} ELSE {{0}} % {{1}} END"
    return sql(text, kind, left, right, raises=True)


@entry("div", _FAMILY, 2, "{integer} div {integer2}", "{integer} div 2", "{bigint} div -1")
def integral_division(left: Expression, right: Expression) -> Expression:
    if left.type not in INTEGERS or right.type not in INTEGERS:
        raise Unsupported(f"div of {shown(left.type)} and {shown(right.type)} is not supported", "CAST both to BIGINT")
    left, right = cast(left, "bigint"), cast(right, "bigint")
    if _never(right, 0):
        return sql("({0} // {1})", "bigint", left, right, raises=True)
    text = f"CASE WHEN {{1}} = 0 AND {{0}} IS NOT NULL THEN {raising('bigint')} ELSE {{0}} // {{1}} END"
    return sql(text, "bigint", left, right, raises=True)


@entry("pmod", _FAMILY, 2, "pmod({int}, 7)", "pmod({bigint}, 1000)")
def positive_remainder(left: Expression, right: Expression) -> Expression:
    by = whole(right, "the second argument of pmod", 1, (1 << 31) - 1)
    if left.type not in ("int", "bigint"):
        raise Unsupported(f"pmod of {shown(left.type)} is not supported", "CAST it to BIGINT")
    return sql(
        f"((({{0}} % {by}) + {by}) % {by})"
        if by < 1 << 30
        else f"CASE WHEN {{0}} % {by} < 0 THEN {{0}} % {by} + {by} ELSE {{0}} % {by} END",
        left.type,
        left,
    )


@entry("abs", _FAMILY, 1, "abs({number})")
def absolute(value: Expression) -> Expression:
    return Operation("ABS", (_with_opposite(value),), value.type)


@entry("negative", _FAMILY, 1, "negative({number})")
def negative(value: Expression) -> Expression:
    return Operation("()", (Operation("-", (operand(_with_opposite(value)),), value.type),), value.type)


def _bitwise(name: str, template: str) -> None:
    @entry(name, _FAMILY, 2, f"{{integer}} {name} {{integer2}}")
    def build(left: Expression, right: Expression) -> Expression:
        if left.type not in INTEGERS or right.type not in INTEGERS:
            raise Unsupported(
                f"{name} of {shown(left.type)} and {shown(right.type)} is not supported", "CAST both to BIGINT"
            )
        kind = max(left.type, right.type, key=INTEGERS.index)
        return sql(template, kind, cast(left, kind), cast(right, kind))


for _name, _template in (("&", "({0} & {1})"), ("|", "({0} | {1})"), ("^", "xor({0}, {1})")):
    _bitwise(_name, _template)


@entry("~", _FAMILY, 1, "~{integer}")
def bitwise_not(value: Expression) -> Expression:
    if value.type not in INTEGERS:
        raise Unsupported(f"~ of {shown(value.type)} is not supported", "CAST it to BIGINT")
    return sql("(~{0})", value.type, value)


@entry("floor", _FAMILY, 1, "floor({integer})", "floor({double})", "floor({float})", "floor({decimal})")
def floor(value: Expression) -> Expression:
    return _rounded("floor", value)


@entry("ceil ceiling", _FAMILY, 1, "ceil({integer})", "ceil({double})", "ceil({decimal})")
def ceiling(value: Expression) -> Expression:
    return _rounded("ceil", value)


def _rounded(name: str, value: Expression) -> Expression:
    value = _number(value)
    if value.type in INTEGERS:
        return cast(value, "bigint")
    if is_decimal(value.type):
        precision, scale = shape(value.type)
        if not scale:
            return value
        kind = decimal_of(precision - scale + 1, 0, name)
        return sql(f"CAST({name}({{0}}) AS DECIMAL({precision - scale + 1}, 0))", kind, value)
    text = f"CASE WHEN isnan({{0}}) THEN 0 ELSE CAST({name}({{0}}) AS BIGINT) END"
    return sql(text, "bigint", cast(value, "double"), raises=True)


@entry("round", _FAMILY, (1, 2), "round({decimal})", "round({decimal}, 1)", "round({integer})")
def round_half_up(value: Expression, places: Expression | None = None) -> Expression:
    value = _number(value)
    to = whole(places, "the second argument of round", 0, 38) if places is not None else 0
    if value.type in INTEGERS:
        return value
    if value.type in FLOATS:
        raise Unsupported(f"round of {shown(value.type)} is not supported", "round a DECIMAL")
    precision, scale = shape(value.type)
    to = min(to, scale)
    kind = decimal_of(precision - scale + 1 + to, to, "round")
    return cast(value, kind)


@entry("sqrt", _FAMILY, 1, "sqrt({double})", "sqrt({int})")
def square_root(value: Expression) -> Expression:
    return sql("sqrt({0})", "double", _real(value))


@entry("sign signum", _FAMILY, 1, "sign({double})", "sign({int})")
def sign(value: Expression) -> Expression:
    value = _real(value)
    return sql(
        "CASE WHEN isnan({0}) OR {0} = 0 THEN {0} WHEN {0} > 0 THEN 1e0 WHEN {0} < 0 THEN -1e0 END", "double", value
    )


@entry("isnan", _FAMILY, 1, "isnan({double})", "isnan({float})")
def is_nan(value: Expression) -> Expression:
    if value.type not in FLOATS:
        value = _real(value)
    return sql("coalesce(isnan({0}), FALSE)", "boolean", value)


@entry("nanvl", _FAMILY, 2, "nanvl({double}, {double2})")
def nan_value(value: Expression, other: Expression) -> Expression:
    value, other = cast(_number(value), "double"), cast(_number(other), "double")
    return sql("CASE WHEN isnan({0}) THEN {1} ELSE {0} END", "double", value, other)


def negated(value: Literal) -> Expression:
    """-5, which is one constant."""
    if value.type in INTEGERS:
        number = -int(value.number)
        narrow = value.type == "bigint" and number == -(1 << 31) and not value.sql.startswith("CAST")
        return constant_of(number, "int" if narrow else value.type)
    if is_decimal(value.type):
        if value.value == 9223372036854775808:
            return Literal(-(1 << 63), "bigint", str(-(1 << 63)))
        return constant_of(-value.value, value.type)  # type: ignore[operator]
    return constant_of(-value.number, value.type)
