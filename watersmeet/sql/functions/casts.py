"""Conversions as Spark does them: those that are written, and those that it makes by itself."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal

from watersmeet.model.expression import INTERVAL, Cast, Expression, Literal, unnested
from watersmeet.sql.functions.constants import date_constant, parsed, time_constant
from watersmeet.sql.functions.folding import always_null
from watersmeet.sql.functions.rendering import constant_of, null, raising, sql
from watersmeet.sql.spark_types import (
    FLOATS,
    INTEGERS,
    MONTHS,
    TIMES,
    VOID,
    Unsupported,
    is_decimal,
    is_numeric,
    shape,
    shape_of,
    shown,
)

_SPACE = r"[\x00-\x20\x7F]*"  # what Spark cuts off around a whole number, a date or a boolean
_BLANK = r"[\x00-\x20]*"  # and around a number with a point
_WHOLE = rf"{_SPACE}[+-]?[0-9]+{_SPACE}"
_REAL = rf"{_BLANK}[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?{_BLANK}"
_CUT = r"regexp_replace({0}, '[\x00-\x20\x7F]+', '', 'g')"
_EXACT_DIGITS = 15  # decimals of so many digits are quotients of two whole numbers that a double holds
_DAY = 86_400_000_000


def cast(value: Expression, kind: str) -> Expression:
    """The value as this type; raises Unsupported where DuckDB has no equal conversion."""
    if value.type == kind:
        return value
    if value.type == VOID:
        return null(kind)
    inner = unnested(value)
    if isinstance(inner, Cast) and inner.type == "float" and kind == "double" and inner.columns:
        return cast(inner.operands[0], kind)  # Spark leaves out the rounding in between, too
    if isinstance(inner, Literal):
        found = _constant(inner, kind)
        if found is not None:
            return found
    for source, target, convert in _CONVERSIONS:
        if source(value.type) and target(kind):
            found = convert(value, kind)
            if found is not None:
                return null(kind) if always_null(value) else found
    hint = ""
    if value.type in FLOATS and (kind == "string" or is_decimal(kind)):
        hint = "the digits of a DOUBLE are not written as Spark writes them; select the number itself"
    raise Unsupported(f"a conversion of {shown(value.type)} to {shown(kind)} is not supported", hint)


def cast_int(value: Expression, kind: str) -> Expression:
    """An argument that has to be an INT, as this type."""
    if value.type in ("tinyint", "smallint", "int", VOID):
        return cast(value, kind)
    raise Unsupported(f"an INT is needed here, not {shown(value.type)}", "CAST it to INT")


def _constant(value: Literal, kind: str) -> Expression | None:
    if value.type == "string":
        return parsed(str(value.value), kind)
    if value.type in INTEGERS or is_decimal(value.type):
        number = Decimal(value.value) if not isinstance(value.value, Decimal) else value.value
        if kind in INTEGERS:
            cut = int(number.to_integral_value(ROUND_DOWN))
            bits = 8 << INTEGERS.index(kind)
            if not -(1 << bits - 1) <= cut < 1 << bits - 1:
                raise Unsupported(f"{number:f} is out of the range of {shown(kind)}", "write another number")
            return constant_of(cut, kind)
        if kind == "double":
            return constant_of(float(number), kind)
        if is_decimal(kind):
            precision, scale = shape(kind)
            rounded = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
            if len(rounded.as_tuple().digits) > max(precision, 1) and rounded:
                raise Unsupported(f"{number:f} is out of the range of {shown(kind)}", "write another number")
            return constant_of(rounded, kind)
    if value.type == "date" and kind in TIMES:
        return time_constant(int(value.number) * _DAY, kind)
    if value.type in TIMES and kind in TIMES:
        return time_constant(int(value.number), kind)
    if value.type in TIMES and kind == "date":
        return date_constant(int(value.number) // _DAY)
    return None


def _integer_to_integer(value: Expression, kind: str) -> Expression:
    return Cast((value,), kind, exact=INTEGERS.index(value.type) < INTEGERS.index(kind))


def _number_to_double(value: Expression, kind: str) -> Expression | None:
    if is_decimal(value.type):
        if kind == "float":
            return None
        if shape(value.type)[0] > _EXACT_DIGITS:  # of more digits, DuckDB's own conversion rounds twice
            return sql("CAST(CAST({0} AS TEXT) AS DOUBLE)", "double", value)
        return Cast((value,), kind, exact=True)
    if value.type == "double":
        return None
    return Cast((value,), kind, exact=kind == "double")


def _to_decimal(value: Expression, kind: str) -> Expression:
    (digits, scale), (precision, places) = shape_of(value), shape(kind)
    return Cast((value,), kind, exact=places >= scale and precision - places >= digits - scale)


def _cut_to_integer(value: Expression, kind: str) -> Expression:
    if value.type in FLOATS and kind == "bigint":
        # 2⁶³ is not below itself, but Spark compares it with 2⁶³ - 1 as a double.
        text = "CASE WHEN {0} = 9223372036854775808e0 THEN 9223372036854775807 ELSE CAST(trunc({0}) AS BIGINT) END"
        return sql(text, kind, value, raises=True)
    cut = "{0}" if is_decimal(value.type) and not shape(value.type)[1] else "trunc({0})"
    return sql(f"CAST({cut} AS {kind.upper()})", kind, value, raises=True)


def _boolean_to_number(value: Expression, kind: str) -> Expression:
    return sql(f"CAST(CAST({{0}} AS INT) AS {kind.upper()})", kind, value)


def _string_to_integer(value: Expression, kind: str) -> Expression:
    read = f"TRY_CAST({{0}} AS {kind.upper()})"
    text = (
        f"CASE WHEN CAST({read} AS TEXT) = {{0}} THEN {read}"  # as most are written; a regular expression takes longer
        f" WHEN regexp_full_match({{0}}, '{_WHOLE}') THEN CAST({_CUT} AS {kind.upper()})"
        f" WHEN {{0}} IS NOT NULL THEN {raising(kind)} END"
    )
    return sql(text, kind, value, raises=True)


def _string_to_double(value: Expression, kind: str) -> Expression:
    special = r"lower(regexp_replace({0}, '[\x00-\x20]+', '', 'g'))"
    text = (
        f"CASE WHEN regexp_full_match({{0}}, '{_REAL}') THEN CAST(regexp_replace({_CUT}, '[dDfF]$', '') AS DOUBLE)"
        f" WHEN regexp_full_match({{0}}, '(?i){_BLANK}([+-]?(inf|infinity)|nan){_BLANK}')"
        f" THEN CAST({special} AS DOUBLE)"
        f" WHEN regexp_full_match({{0}}, '{_BLANK}[+-]NaN{_BLANK}') THEN CAST('nan' AS DOUBLE)"
        f" WHEN {{0}} IS NOT NULL THEN {raising('double')} END"
    )
    return sql(text, kind, value, raises=True)


def _string_to_boolean(value: Expression, kind: str) -> Expression:
    cut = rf"lower(regexp_replace({{0}}, '^{_SPACE}|{_SPACE}$', '', 'g'))"
    text = (
        f"CASE WHEN {cut} IN ('t', 'true', 'y', 'yes', '1') THEN TRUE"
        f" WHEN {cut} IN ('f', 'false', 'n', 'no', '0') THEN FALSE WHEN {{0}} IS NOT NULL THEN {raising('boolean')} END"
    )
    return sql(text, kind, value, raises=True)


def _string_to_date(value: Expression, kind: str) -> Expression:
    digits, four = "[0-9]{1,2}", "{4,7}"
    pattern = rf"{_SPACE}([+-]?[0-9]{four})(?:-({digits})(?:-({digits})(?s:[ T].*)?)?)?{_SPACE}"
    parts = [f"CAST(coalesce(nullif(regexp_extract({{0}}, '^{pattern}$', {at}), ''), '1') AS INT)" for at in (1, 2, 3)]
    text = (
        f"CASE WHEN regexp_full_match({{0}}, '{pattern}') THEN make_date({', '.join(parts)})"
        f" WHEN {{0}} IS NOT NULL THEN {raising('date')} END"
    )
    return sql(text, kind, value, raises=True)


def _to_string(value: Expression, kind: str) -> Expression | None:
    if is_decimal(value.type) and len(set(shape(value.type))) == 1:  # of which DuckDB writes .1
        digits = shape(value.type)[0]
        return (
            sql(f"CAST(CAST({{0}} AS DECIMAL({digits + 1}, {digits})) AS TEXT)", kind, value) if digits < 38 else None
        )
    if value.type in ("date", *TIMES):
        behind = r"regexp_replace(CAST({0} AS TEXT), '^[0-9]+| \(BC\)', '', 'g')"
        return sql(usual_year("CAST({0} AS TEXT)", f"{YEAR} || {behind}"), kind, value)
    return sql("CAST({0} AS TEXT)", kind, value)


YEAR = (
    "CASE WHEN year({0}) > 9999 THEN '+' || year({0}) WHEN year({0}) < 0 THEN printf('-%04d', -year({0}))"
    " ELSE printf('%04d', year({0})) END"
)


def usual_year(text: str, otherwise: str) -> str:
    """One text where the year has four digits, and another one where it has a sign or is 0."""
    return f"CASE WHEN {{0}} >= DATE '0001-01-01' AND {{0}} < DATE '10000-01-01' THEN {text} ELSE {otherwise} END"


def floored(micros: str, unit: int) -> str:
    """Text that divides microseconds and rounds down, also before 1970."""
    return f"(({micros} - ((({micros}) % {unit} + {unit}) % {unit})) // {unit})"


def _time_to_number(value: Expression, kind: str) -> Expression | None:
    if kind == "double":
        return sql("(epoch_us({0}) / 1000000e0)", kind, value)
    if kind == "float":
        return None
    seconds = floored("epoch_us({0})", 1_000_000)
    text = seconds if kind == "bigint" else f"CAST({seconds} AS {kind.upper()})"
    return sql(text, kind, value, raises=kind != "bigint")


def _written(template: str) -> Callable[[Expression, str], Expression]:
    return lambda value, kind: sql(template, kind, value)


def _one(*kinds: str):  # type: ignore[no-untyped-def]
    return lambda kind: kind in kinds


_CONVERSIONS = (
    (_one(*INTEGERS), _one(*INTEGERS), _integer_to_integer),
    (is_numeric, _one(*FLOATS), _number_to_double),
    (lambda kind: kind in INTEGERS or is_decimal(kind), is_decimal, _to_decimal),
    (is_numeric, _one(*INTEGERS), _cut_to_integer),
    (_one("boolean"), _one(*INTEGERS, *FLOATS), _boolean_to_number),
    (is_numeric, _one("boolean"), _written("({0} <> 0)")),
    (_one("string"), _one(*INTEGERS), _string_to_integer),
    (_one("string"), _one("double"), _string_to_double),
    (_one("string"), _one("boolean"), _string_to_boolean),
    (_one("string"), _one("date"), _string_to_date),
    (lambda kind: kind in (*INTEGERS, "boolean", "date", *TIMES) or is_decimal(kind), _one("string"), _to_string),
    (_one("timestamp"), _one(*INTEGERS, *FLOATS), _time_to_number),
    (_one(*TIMES), _one("date"), _written("CAST({0} AS DATE)")),
    (_one("date", *TIMES), _one(*TIMES), _written("CAST({0} AS TIMESTAMP)")),
)


def check_target(kind: str) -> None:
    if kind in (INTERVAL, MONTHS, VOID) or kind.startswith(("array", "map", "struct")):
        raise Unsupported(f"a conversion to {shown(kind)} is not supported", "select the value itself")
