"""What arguments the functions that Spark computes take, and which types they give (see by_spark.py).

Totality depends on it: a date that is converted to a TIMESTAMP, or a string to a number, may raise, and is not taken.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable

from watersmeet.model.expression import Expression, Literal, unnested
from watersmeet.model.spark_call import SparkCall
from watersmeet.sql.functions.patterns import regular_expression
from watersmeet.sql.functions.rendering import sql, text_of, whole
from watersmeet.sql.functions.table import build_call
from watersmeet.sql.spark_types import ATOMS, FLOATS, INTEGERS, Unsupported, is_decimal, is_numeric, nested, shown

Arguments = tuple[Expression, ...]

# Parameters --------------------------------------------------------------------------------------


def _constant(check: Callable[[Expression], object]) -> Callable[[Expression], bool]:
    """A check that raises Unsupported, with its own reason."""

    def passes(argument: Expression) -> bool:
        check(argument)
        return True

    return passes


_DAYS = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
# How often each letter may be repeated, in a format that is written and in one that is read.
_LETTERS = {
    **{"y": (1, 2, 4), "M": (1, 2, 3, 4), "L": (1, 2, 3, 4), "d": (1, 2), "D": (1, 2, 3), "E": (1, 2, 3, 4), "a": (1,)},
    **{"Q": (1, 2, 3, 4), "q": (1, 2, 3, 4), "G": (1, 2, 3, 4), "S": tuple(range(1, 10))},
    **dict.fromkeys("hKkHms", (1, 2)),
}
_READ = {"y": (4,), "M": (1, 2), "d": (1, 2), "H": (1, 2), "m": (1, 2), "s": (1, 2), "S": tuple(range(1, 7))}


def _day(argument: Expression) -> None:
    day = text_of(argument, "the day").upper()
    if day not in {name[:length] for name in _DAYS for length in (2, 3, len(name))}:
        raise Unsupported(f"{day!r} is not a day of the week", "write a day in English: 'MO', 'MON' or 'MONDAY'")


def _pattern(argument: Expression) -> None:
    """A regular expression for which Java takes a time that is bounded by the square of the length of the string."""
    pattern = text_of(argument, "the pattern")
    regular_expression(pattern, whole_match=True)
    if len(re.findall(r"[*+]|,\}", re.sub(r"\\.|\[[^\]]*\]", "", pattern))) > 1:
        raise Unsupported(
            f"{pattern!r} has more than one * or +, which may take Spark for ever", "use one of them at most"
        )


def _zone(argument: Expression) -> None:
    zone = text_of(argument, "the time zone")
    fixed = re.fullmatch(r"[+-](0\d|1[0-7]):[0-5]\d", zone)
    if zone != "UTC" and not fixed and not ("/" in zone and zone in zoneinfo.available_timezones()):
        raise Unsupported(f"the time zone {zone!r} is not known", "write it like 'Europe/Berlin' or '+02:00'")


def _format(letters: dict[str, tuple[int, ...]]) -> Callable[[Expression], None]:
    def check(argument: Expression) -> None:
        text = text_of(argument, "the format")
        for run in re.finditer(r"([A-Za-z])\1*", re.sub(r"'[^']*'", "", text)):
            if len(run[0]) not in letters.get(run[1], ()):
                known = ", ".join(letter * max(lengths) for letter, lengths in letters.items())
                raise Unsupported(f"the format {text!r} is not supported: {run[0]}", f"use {known}")
        if re.search(r"[^-/:., _'A-Za-z]", re.sub(r"'[^']*'", "", text)) or text.count("'") % 2 or not text:
            raise Unsupported(f"the format {text!r} is not supported", "use letters with -, /, :, ., commas and blanks")

    return check


def _is_array(argument: Expression) -> bool:
    kind, inner = nested(argument.type)
    return kind == "array" and _is_simple(inner["item"])


def _is_simple(kind: str) -> bool:
    return kind in ATOMS or is_decimal(kind)


PARAMETERS: dict[str, tuple[str, Callable[[Expression], bool]]] = {
    "number": ("a number", lambda value: is_numeric(value.type)),
    "double": ("a DOUBLE or FLOAT", lambda value: value.type in FLOATS),
    "decimal": ("a DECIMAL", lambda value: is_decimal(value.type)),
    "whole": ("an integer", lambda value: value.type in INTEGERS),
    "int": ("an INT", lambda value: value.type in ("tinyint", "smallint", "int")),
    "bits": ("an INT or BIGINT", lambda value: value.type in ("int", "bigint")),
    "string": ("a STRING", lambda value: value.type == "string"),
    "boolean": ("a BOOLEAN", lambda value: value.type == "boolean"),
    "date": ("a DATE or TIMESTAMP", lambda value: value.type in ("date", "timestamp")),
    "timestamp": ("a TIMESTAMP", lambda value: value.type == "timestamp"),
    "instant": ("a TIMESTAMP", lambda value: value.type == "timestamp"),  # see within_range
    "array": ("an ARRAY of simple values", _is_array),
    "strings": ("an ARRAY<STRING>", lambda value: value.type == "array<string>"),
    "map": ("a MAP", lambda value: nested(value.type)[0] == "map"),
    "nested": ("an ARRAY, MAP or STRUCT", lambda value: bool(nested(value.type)[0])),
    "simple": ("a simple value", lambda value: _is_simple(value.type)),
    "hashed": ("a value without MAPs", lambda value: _is_simple(value.type) or _is_array(value)),
    # Constants:
    "text": ("a constant", _constant(lambda value: text_of(value, "this argument"))),
    "flag": ("TRUE or FALSE", lambda value: isinstance(unnested(value), Literal) and value.type == "boolean"),
    "places": ("a constant", _constant(lambda value: whole(value, "the number of digits", -300, 300))),
    "digits": ("a constant", _constant(lambda value: whole(value, "the number of digits", 0, 30))),
    "number of parts": ("a constant", _constant(lambda value: whole(value, "this argument", -1, 1 << 30))),
    "position": ("a constant", _constant(lambda value: whole(value, "the position", 1, 1 << 30))),
    "length": ("a constant", _constant(lambda value: whole(value, "the length", 0, 1 << 30))),
    "group": ("a constant", _constant(lambda value: whole(value, "the group", 0, 0))),
    "pattern": ("a constant", _constant(_pattern)),
    "day": ("a constant", _constant(_day)),
    "zone": ("a constant", _constant(_zone)),
    "format": ("a constant", _constant(_format(_LETTERS))),
    "read format": ("a constant", _constant(_format(_READ))),
}

_FARTHEST = 9_223_369_000_000_000_000  # microseconds: a month before the end of time


def within_range(instant: Expression) -> Expression:
    """NULL instead of an instant so far away that Spark raises when it moves it to another zone."""
    if any(isinstance(column, SparkCall) for column in instant.columns):
        return instant  # moved by hours
    ends = f"make_timestamp({-_FARTHEST}) AND make_timestamp({_FARTHEST})"
    return sql(f"CASE WHEN {{0}} BETWEEN {ends} THEN {{0}} END", "timestamp", instant)


# Results -----------------------------------------------------------------------------------------


def first(arguments: Arguments) -> str:
    return arguments[0].type


def inner(part: str) -> Callable[[Arguments], str]:
    """The type of what is inside of the first argument: `item`, `key` or `value`."""
    return lambda arguments: nested(arguments[0].type)[1][part]


item = inner("item")


def same_arrays(result: Callable[[Arguments], str]) -> Callable[[Arguments], str]:
    def check(arguments: Arguments) -> str:
        if arguments[0].type != arguments[1].type:
            raise Unsupported("the two arrays have other types of elements", "use arrays of one type")
        return result(arguments)

    return check


def with_part(part: str, result: Callable[[Arguments], str]) -> Callable[[Arguments], str]:
    """The second argument is an element or a key of the first."""

    def check(arguments: Arguments) -> str:
        if arguments[1].type != inner(part)(arguments):
            raise Unsupported(
                f"{shown(arguments[0].type)} has no {part} of type {shown(arguments[1].type)}",
                "give it the type inside",
            )
        return result(arguments)

    return check


def as_operator(operator: str) -> Callable[[Arguments], str]:
    """The type that a proven operator gives to the same arguments."""
    return lambda arguments: build_call(operator, list(arguments)).type


def always(kind: str) -> Callable[[Arguments], str]:
    return lambda arguments: kind
