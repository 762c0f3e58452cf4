"""Functions that Spark computes itself, because no rendering here is equal to the last digit or letter.

The list is closed like the table, and its functions are total: for no value of the arguments does one raise, use memory
without bound, or depend on anything but the arguments. So Spark can compute them for all rows of a stream, whatever the
queries then do with them. The arguments must not raise either, and belong to one alias.

An entry has names, what each argument may be (`PARAMETERS`; with ? it may be left out, with * it may be repeated), the
type of the result, and examples, which the semantics suite runs through an engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from watersmeet.model.expression import Cast, Expression, Operation, unnested
from watersmeet.model.spark_call import FunctionCall, SparkCall, without_row
from watersmeet.sql.functions.spark_signatures import (
    PARAMETERS,
    Arguments,
    always,
    as_operator,
    first,
    inner,
    item,
    same_arrays,
    with_part,
    within_range,
)
from watersmeet.sql.spark_types import FLOATS, Unsupported, is_numeric, shown


@dataclass(frozen=True)
class SparkEntry:
    names: tuple[str, ...]  # lower case; the first is shown
    family: str
    parameters: tuple[str, ...]
    result: Callable[[Arguments], str]
    examples: tuple[str, ...]


BY_SPARK: dict[str, list[SparkEntry]] = {}  # of several entries of one name the first that fits is used


def spark_call(name: str, arguments: list[Expression]) -> Expression:
    """The call as a column of the only row that it reads; raises Unsupported."""
    given, kind = _fitting(name, arguments)
    return _column(FunctionCall(name, tuple(_argument(name, each) for each in given), kind), arguments)


def spark_call_type(name: str, arguments: list[Expression]) -> str | None:
    """The type of a call that Spark computes with the rest of a query, so that its arguments may be anything."""
    try:
        return _fitting(name, arguments)[1] if name in BY_SPARK else None
    except Unsupported:
        return None


def _fitting(name: str, arguments: list[Expression]) -> tuple[Arguments, str]:
    """The arguments and the type by the first entry that they fit; raises what is wrong for the first of all."""
    problems: list[Unsupported] = []
    for entry in BY_SPARK[name]:
        try:
            given = _checked(name, entry, arguments)
            return given, entry.result(given)
        except Unsupported as error:
            problems.append(error)
    raise problems[0]


def _checked(name: str, entry: SparkEntry, arguments: list[Expression]) -> Arguments:
    """The arguments, if each is what it may be."""
    listed = list(entry.parameters)
    if listed[-1].endswith("*"):
        last = listed.pop().rstrip("*")
        listed += [last] * max(1, len(arguments) - len(listed))
    like = "write it like " + re.sub(r"\{(\w+?)2?\}", r"a_\1", entry.examples[0])
    if not sum(not each.endswith("?") for each in listed) <= len(arguments) <= len(listed):
        raise Unsupported(f"{name} does not take {len(arguments)} arguments", like)
    given = []
    for parameter, argument in zip(listed, arguments, strict=False):
        wanted, check = PARAMETERS[parameter.rstrip("?")]
        if not check(argument):
            raise Unsupported(f"an argument of {name} is {shown(argument.type)}; it has to be {wanted}", like)
        given.append(within_range(argument) if parameter == "instant" else argument)
    return tuple(given)


def _argument(name: str, argument: Expression) -> FunctionCall | Expression:
    """An argument as Spark gets it."""
    inner = unnested(argument)
    if argument.fallible:
        raise Unsupported(
            f"an argument of {name} can fail, and Spark computes {name} for all rows",
            "use try_add, try_subtract, try_multiply, try_divide, try_mod or try_cast: they are NULL where they fail",
        )
    if isinstance(inner, SparkCall):
        return inner.call
    if not any(isinstance(column, SparkCall) for column in inner.columns):
        return inner
    operands = tuple(_argument(name, operand) for operand in inner.operands)
    if isinstance(inner, Cast) and inner.exact and is_numeric(inner.type):
        return FunctionCall("cast", operands, inner.type)
    if isinstance(inner, Operation) and inner.operator in ("+", "-", "*") and inner.type in FLOATS:
        return FunctionCall(inner.operator if len(operands) > 1 else "negative", operands, inner.type)
    if isinstance(inner, Operation) and inner.operator == "ABS" and inner.type in FLOATS:
        return FunctionCall("abs", operands, inner.type)
    raise Unsupported(
        f"an argument of {name} has a function that Spark computes inside of one that it does not",
        "between two such functions use +, -, * and abs of DOUBLE only, or compute it where results are read",
    )


def _column(call: FunctionCall, arguments: list[Expression]) -> SparkCall:
    rows = {column.row for argument in arguments for column in argument.columns}
    if not rows:
        raise Unsupported(f"{call.function} of constants is not computed", "write its value in its place")
    if len(rows) > 1:
        raise Unsupported(
            f"{call.function} is computed by Spark when rows arrive, and reads two aliases here",
            "select the columns and compute it where results are read",
        )
    bare = without_row(call)
    assert isinstance(bare, FunctionCall)
    return SparkCall.of(bare, rows.pop())


# The list ----------------------------------------------------------------------------------------

_SECTIONS: dict[str, list[tuple[str, str, str | Callable[[Arguments], str], str]]] = {
    "numbers": [
        *(
            (name, "number", "double", f"{name}({{double}})")
            for name in (
                *("exp", "expm1", "ln", "log2", "log10", "log1p", "cbrt", "rint", "degrees", "radians"),
                *("sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan"),
                *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
            )
        ),
        ("log", "number, number?", "double", "log({double}); log({double}, {double2}); log(2, {int})"),
        ("pow power", "number, number", "double", "pow({double}, {double2}); pow({int}, 2); power({decimal}, 0.5)"),
        ("atan2", "number, number", "double", "atan2({double}, {double2})"),
        ("hypot", "number, number", "double", "hypot({double}, {double2})"),
        ("round", "double, places?", first, "round({double}); round({double}, 2); round({float}, -1)"),
        ("bround", "double, places?", first, "bround({double}); bround({double}, 1); bround({float}, 1)"),
        ("factorial", "int", "bigint", "factorial({int})"),
        ("bin", "whole", "string", "bin({bigint})"),
        ("bit_count", "whole", "int", "bit_count({integer})"),
        ("shiftleft", "bits, int", first, "shiftleft({int}, {int2}); shiftleft({bigint}, 3)"),
        ("shiftright", "bits, int", first, "shiftright({int}, 1); shiftright({bigint}, {int2})"),
        (
            "shiftrightunsigned",
            "bits, int",
            first,
            "shiftrightunsigned({int}, 1); shiftrightunsigned({bigint}, {int2})",
        ),
        (
            "try_add",
            "number, number",
            as_operator("+"),
            "try_add({integer}, {integer2}); try_add({int}, {double2}); try_add({decimal}, {decimal2});"
            " try_add({decimal}, 1)",
        ),
        (
            "try_subtract",
            "number, number",
            as_operator("-"),
            "try_subtract({integer}, {integer2}); try_subtract({decimal}, {int2})",
        ),
        (
            "try_multiply",
            "number, number",
            as_operator("*"),
            "try_multiply({integer}, {integer2}); try_multiply({double}, {double2});"
            " try_multiply({decimal}, {decimal2})",
        ),
        (
            "try_divide",
            "number, number",
            as_operator("/"),
            "try_divide({integer}, {integer2}); try_divide({double}, {double2})",
        ),
        ("try_mod", "number, number", as_operator("%"), "try_mod({integer}, {integer2}); try_mod({double}, {double2})"),
        ("format_number", "number, digits", "string", "format_number({double}, 2); format_number({integer}, 0)"),
    ],
    "strings": [
        *(
            (name, "string", "string", f"{name}({{string}})")
            for name in ("reverse", "initcap", "soundex", "mask", "url_encode", "hex", "base64", "sha1")
        ),
        ("sha", "string", "string", "sha({string})"),
        ("hex", "whole", "string", "hex({integer})"),
        ("chr char", "whole", "string", "chr({bigint})"),
        ("bit_length", "string", "int", "bit_length({string})"),
        ("crc32", "string", "bigint", "crc32({string})"),
        ("luhn_check", "string", "boolean", "luhn_check({string})"),
        ("levenshtein", "string, string", "int", "levenshtein({string}, {string2})"),
        ("find_in_set", "string, string", "int", "find_in_set({string}, {string2})"),
        ("btrim", "string, string?", "string", "btrim({string}); btrim({string}, {string2})"),
        (
            "translate",
            "string, string, string",
            "string",
            "translate({string}, 'ab', 'x'); translate({string}, {string2}, 'xyz')",
        ),
        (
            "substring_index",
            "string, string, int",
            "string",
            "substring_index({string}, ',', 1); substring_index({string}, {string2}, {int})",
        ),
        (
            "overlay",
            "string, string, position, length?",
            "string",
            "overlay({string}, 'x', 2); overlay({string}, {string2}, 1, 2)",
        ),
        ("hash", "hashed*", "int", "hash({simple}); hash({int}, {string2}); hash({array})"),
        ("xxhash64", "hashed*", "bigint", "xxhash64({simple}); xxhash64({int}, {string2})"),
        (
            "split",
            "string, pattern, number of parts?",
            "array<string>",
            "split({string}, ','); split({string}, '[ab]'); split({string}, ',', 2)",
        ),
        ("regexp_count", "string, pattern", "int", "regexp_count({string}, '[a-c]')"),
        ("regexp_instr", "string, pattern", "int", "regexp_instr({string}, 'b')"),
        ("regexp_substr", "string, pattern", "string", "regexp_substr({string}, 'b.')"),
        (
            "regexp_extract_all",
            "string, pattern, group",
            "array<string>",
            "regexp_extract_all({string}, '[a-z][0-9]', 0)",
        ),
        (
            "get_json_object",
            "string, text",
            "string",
            "get_json_object({string}, '$.a'); get_json_object({string}, '$[0].b')",
        ),
        ("json_array_length", "string", "int", "json_array_length({string})"),
        ("json_object_keys", "string", "array<string>", "json_object_keys({string})"),
        ("to_json", "nested", "string", "to_json({array}); to_json({map})"),
    ],
    "dates and times": [
        (
            "months_between",
            "instant, instant, flag?",
            "double",
            "months_between({timestamp}, {timestamp2}); months_between({timestamp}, {timestamp2}, FALSE)",
        ),
        ("next_day", "date, day", "date", "next_day({date}, 'MO'); next_day({timestamp}, 'sunday')"),
        ("dayname", "date", "string", "dayname({date}); dayname({timestamp})"),
        ("monthname", "date", "string", "monthname({date}); monthname({timestamp})"),
        (
            "date_format",
            "timestamp, format",
            "string",
            "date_format({timestamp}, 'EEEE, d MMM yy'); date_format({timestamp}, 'QQQ G h:mm a');"
            " date_format({timestamp}, 'yyyy-MM-dd''T''HH')",
        ),
        (
            "from_utc_timestamp",
            "instant, zone",
            "timestamp",
            "from_utc_timestamp({timestamp}, 'Europe/Berlin'); from_utc_timestamp({timestamp}, '+05:30')",
        ),
        ("to_utc_timestamp", "instant, zone", "timestamp", "to_utc_timestamp({timestamp}, 'America/New_York')"),
        (
            "try_to_timestamp",
            "string, read format?",
            "timestamp",
            "try_to_timestamp({string}, 'yyyy-MM-dd'); try_to_timestamp({string})",
        ),
    ],
    "arrays and maps": [
        *((name, "array", first, f"{name}({{array}})") for name in ("reverse", "array_distinct", "array_compact")),
        ("sort_array", "array, flag?", first, "sort_array({array}); sort_array({array}, FALSE)"),
        ("array_max", "array", item, "array_max({array})"),
        ("array_min", "array", item, "array_min({array})"),
        ("array_size", "array", "int", "array_size({array})"),
        (
            "array_join",
            "strings, string, string?",
            "string",
            "array_join(split({string}, ','), '-'); array_join(split({string}, 'a'), {string2}, 'x')",
        ),
        *(
            (name, "array, array", same_arrays(first), f"{name}({{array}}, {{array2}})")
            for name in ("array_union", "array_intersect", "array_except")
        ),
        ("arrays_overlap", "array, array", same_arrays(always("boolean")), "arrays_overlap({array}, {array2})"),
        ("array_position", "array, simple", with_part("item", always("bigint")), "array_position({array}, {int})"),
        *(
            (name, "array, simple", with_part("item", first), f"{name}({{array}}, {{int}})")
            for name in ("array_remove", "array_append", "array_prepend")
        ),
        ("slice", "array, position, length", first, "slice({array}, 1, 2)"),
        ("get", "array, int", item, "get({array}, {int})"),
        ("try_element_at", "array, position", item, "try_element_at({array}, 1)"),
        (
            "try_element_at",
            "map, simple",
            with_part("key", inner("value")),
            "try_element_at({map}, 'a'); try_element_at({map}, {string})",
        ),
        ("map_keys", "map", lambda arguments: f"array<{inner('key')(arguments)}>", "map_keys({map})"),
        ("map_values", "map", lambda arguments: f"array<{inner('value')(arguments)}>", "map_values({map})"),
        (
            "map_contains_key",
            "map, simple",
            with_part("key", always("boolean")),
            "map_contains_key({map}, 'a'); map_contains_key({map}, {string})",
        ),
        ("size cardinality", "map", "int", "size({map})"),
    ],
}


def _declare() -> None:
    for family, listed in _SECTIONS.items():
        for names, parameters, result, examples in listed:
            made = SparkEntry(
                tuple(names.split()),
                family,
                tuple(parameters.split(", ")),
                always(result) if isinstance(result, str) else result,
                tuple(examples.split("; ")),
            )
            assert all(each.rstrip("?*") in PARAMETERS for each in made.parameters), made
            for name in made.names:
                BY_SPARK.setdefault(name, []).append(made)


_declare()
