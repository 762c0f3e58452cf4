"""Strings. A character is a Unicode code point, as in Spark."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.letters.case import lower_case
from watersmeet.model.expression import Expression, Literal, Sql, unnested
from watersmeet.sql.functions.casts import cast, cast_int
from watersmeet.sql.functions.patterns import like_pattern, regular_expression
from watersmeet.sql.functions.rendering import constant_of, raising, sql, text_of, whole
from watersmeet.sql.functions.table import ANY_NUMBER, entry
from watersmeet.sql.spark_types import VOID, Unsupported, shown

_FAMILY = "strings"
_MOST_CHARACTERS = 10_000  # that a function may add to a string


def _string(value: Expression) -> Expression:
    if value.type == VOID:
        return cast(value, "string")
    if value.type != "string":
        raise Unsupported(f"a STRING is needed here, not {shown(value.type)}", "CAST it to STRING")
    return value


def _count(value: Expression) -> Expression:
    return cast_int(value, "bigint")  # so that sums of counts have room


# What DuckDB computes of strings alone: names, type and text.
_OF_STRINGS = (
    ("length char_length character_length len", "int", "CAST(length({0}) AS INT)"),
    ("octet_length", "int", "CAST(strlen({0}) AS INT)"),
    # DuckDB takes its time to find out that there is nothing to cut off.
    ("trim", "string", "CASE WHEN {0} LIKE ' %' OR {0} LIKE '% ' THEN trim({0}, ' ') ELSE {0} END"),
    ("ltrim", "string", "CASE WHEN {0} LIKE ' %' THEN ltrim({0}, ' ') ELSE {0} END"),
    ("rtrim", "string", "CASE WHEN {0} LIKE '% ' THEN rtrim({0}, ' ') ELSE {0} END"),
    ("contains", "boolean", "contains({0}, {1})"),
    ("startswith", "boolean", "starts_with({0}, {1})"),
    ("endswith", "boolean", "suffix({0}, {1})"),
    ("ascii", "int", "CAST(ascii({0}) AS INT)"),
    ("md5", "string", "md5({0})"),
)


def _of_strings(names: str, kind: str, text: str) -> None:
    count, arguments = (2, "{string}, {string2}") if "{1}" in text else (1, "{string}")

    @entry(names, _FAMILY, count, f"{names.split(maxsplit=1)[0]}({arguments})")
    def build(*values: Expression) -> Expression:
        return sql(text, kind, *map(_string, values))


for _each in _OF_STRINGS:
    _of_strings(*_each)


@entry("upper ucase", _FAMILY, 1, "upper({string})")
def upper(value: Expression) -> Expression:
    return sql(_in_case("upper"), "string", _written_in_any_case(value))


@entry("lower lcase", _FAMILY, 1, "lower({string})")
def lower(value: Expression) -> Expression:
    return sql(_in_case("lower"), "string", _written_in_any_case(value))


def _in_case(name: str) -> str:
    """DuckDB's own function is for ASCII alone, where a string has as many bytes as characters."""
    return f"CASE WHEN strlen({{0}}) <> length({{0}}) THEN spark_{name}({{0}}) ELSE {name}({{0}}) END"


def _written_in_any_case(value: Expression) -> Expression:
    """Without an `upper` or `lower` around it: Spark leaves out all but the last one, also where it matters (ß)."""
    value = _string(value)
    inner = unnested(value)
    return inner.operands[0] if isinstance(inner, Sql) and "{0}".join(inner.fragments) in _CASES else value


_CASES = (_in_case("upper"), _in_case("lower"))


@entry(
    "concat ||",
    _FAMILY,
    (1, ANY_NUMBER),
    "concat({string}, {string2})",
    "{string} || '-' || {int2}",
    "concat({string}, {int})",
    "concat({date}, {boolean})",
)
def concat(*values: Expression) -> Expression:
    typed = [value if value.type == "string" else cast(value, "string") for value in values]
    text = f"({' || '.join(f'{{{at}}}' for at in range(len(typed)))})"
    # Spark looks at all of them, DuckDB at none behind a NULL; of a sum it computes all parts.
    early = [f"CAST({{{at}}} IS NULL AS INT)" for at, each in enumerate(typed) if each.fallible]
    if not early or len(typed) == 1:
        return sql(text, "string", *typed)
    return sql(f"CASE WHEN {' + '.join(early)} > 0 THEN NULL ELSE {text} END", "string", *typed)


@entry(
    "concat_ws", _FAMILY, (2, ANY_NUMBER), "concat_ws(',', {string}, {string2})", "concat_ws({string}, {string2}, 'x')"
)
def concat_with_separator(separator: Expression, *values: Expression) -> Expression:
    typed = [_string(value) for value in (separator, *values)]
    return sql(f"concat_ws({', '.join(f'{{{at}}}' for at in range(len(typed)))})", "string", *typed)


@entry(
    "substring substr",
    _FAMILY,
    (2, 3),
    "substring({string}, {int}, {int2})",
    "substring({string}, 2)",
    "substr({string}, -2, 1)",
    "substring({string}, 0, 2)",
    "substring({string}, {int2})",
)
def substring(value: Expression, position: Expression, count: Expression | None = None) -> Expression:
    value, at = _string(value), _count(position)
    known = [unnested(each) for each in (position, count) if each is not None]
    if all(isinstance(each, Literal) and int(each.number) > 0 for each in known):
        numbers = ", ".join(str(each.value) for each in known if isinstance(each, Literal))
        return sql(f"substring({{0}}, {numbers})", "string", value)
    start = sql("CASE WHEN {1} > 0 THEN {1} - 1 WHEN {1} < 0 THEN length({0}) + {1} ELSE 0 END", "bigint", value, at)
    wanted = constant_of(2147483647, "bigint") if count is None else _count(count)
    text = (
        "CASE WHEN {0} IS NULL OR {1} IS NULL OR {2} IS NULL THEN NULL"
        " ELSE substring({0}, greatest({3}, 0) + 1, greatest(greatest({3} + {2}, 0) - greatest({3}, 0), 0)) END"
    )
    return sql(text, "string", value, at, wanted, start)


@entry("left", _FAMILY, 2, "left({string}, {int})", "left({string}, -1)")
def left(value: Expression, count: Expression) -> Expression:
    value, wanted = _string(value), _count(count)
    return sql("CASE WHEN {1} IS NOT NULL THEN substring({0}, 1, greatest({1}, 0)) END", "string", value, wanted)


@entry("right", _FAMILY, 2, "right({string}, {int})", "right({string}, 2)")
def right(value: Expression, count: Expression) -> Expression:
    value, wanted = _string(value), _count(count)
    text = (
        "CASE WHEN {1} <= 0 AND {0} IS NOT NULL THEN '' WHEN {1} >= length({0}) THEN {0}"
        " WHEN {1} IS NOT NULL THEN substring({0}, length({0}) - {1} + 1) END"
    )
    return sql(text, "string", value, wanted)


@entry(
    "replace",
    _FAMILY,
    (2, 3),
    "replace({string}, {string2}, 'x')",
    "replace({string}, 'a')",
    "replace({string}, 'a', {string2})",
)
def replace(value: Expression, old: Expression, new: Expression | None = None) -> Expression:
    new = constant_of("", "string") if new is None else new
    return sql("replace({0}, {1}, {2})", "string", _string(value), _string(old), _string(new))


@entry("instr", _FAMILY, 2, "instr({string}, {string2})")
def instr(value: Expression, part: Expression) -> Expression:
    return sql(
        "CAST(CASE WHEN {1} = '' AND {0} IS NOT NULL THEN 1 ELSE instr({0}, {1}) END AS INT)",
        "int",
        _string(value),
        _string(part),
    )


@entry("locate position", _FAMILY, 2, "locate({string}, {string2})", "position({string} IN {string2})")
def locate(part: Expression, value: Expression) -> Expression:
    return instr(value, part)


def _pad(name: str) -> None:
    @entry(
        name, _FAMILY, (2, 3), f"{name}({{string}}, 5, 'xy')", f"{name}({{string}}, 2)", f"{name}({{string}}, 0, '-')"
    )
    def build(value: Expression, count: Expression, pad: Expression | None = None) -> Expression:
        width = whole(count, f"the second argument of {name}", 0, _MOST_CHARACTERS)
        filled = text_of(pad, f"the third argument of {name}") if pad is not None else " "
        if not filled:
            raise Unsupported(f"{name} with an empty string is not supported", "use left(…, …)")
        return sql(f"{name}({{0}}, {width}, {{1}})", "string", _string(value), constant_of(filled, "string"))


_pad("lpad")
_pad("rpad")


@entry("repeat", _FAMILY, 2, "repeat({string}, 3)", "repeat({string}, 0)", "repeat({string}, -1)")
def repeat(value: Expression, count: Expression) -> Expression:
    times = whole(count, "the second argument of repeat", -_MOST_CHARACTERS, 100)
    return sql(f"repeat({{0}}, {max(times, 0)})", "string", _string(value))


@entry("sha2", _FAMILY, 2, "sha2({string}, 256)")
def sha2(value: Expression, bits: Expression) -> Expression:
    whole(bits, "the second argument of sha2", 256, 256)
    return sql("sha256({0})", "string", _string(value))


@entry("split_part", _FAMILY, 3, "split_part({string}, ',', 1)", "split_part({string}, 'b', 2)")
def split_part(value: Expression, separator: Expression, number: Expression) -> Expression:
    by, at = text_of(separator, "the separator"), whole(number, "the number of the part", 1, 1000)
    if not by:
        raise Unsupported("split_part by an empty string is not supported", "name the separator")
    return sql(f"split_part({{0}}, {{1}}, {at})", "string", _string(value), constant_of(by, "string"))


@entry(
    "like",
    _FAMILY,
    (2, 3),
    "{string} LIKE 'a%'",
    "{string} LIKE '%b%'",
    "{string} LIKE '_'",
    "{string} LIKE '%'",
    r"{string} LIKE 'a\\_c'",
    r"{string} LIKE '%\\\\%'",
    "{string} LIKE 'a/_c' ESCAPE '/'",
    "{string} NOT LIKE 'a%'",
    "{string} LIKE concat('%', {string2}, '%')",
    "{string} LIKE {string2}",
    "{string} LIKE ANY ('x%', 'a%')",
    "{string} LIKE ALL ('%a%', '%c')",
)
def like(value: Expression, pattern: Expression, escape: Expression | None = None) -> Expression:
    value, given = _string(value), unnested(_string(pattern))
    if isinstance(given, Literal):
        by = text_of(escape, "the character behind ESCAPE") if escape is not None else "\\"
        text, escaped = like_pattern(str(given.value), by)
        return sql(
            "({0} LIKE {1}" + (" ESCAPE '\\')" if escaped else ")"), "boolean", value, constant_of(text, "string")
        )
    if escape is not None:
        raise Unsupported("ESCAPE with a computed pattern is not supported", "escape with a backslash")
    bad_pattern = r"{0} IS NOT NULL AND contains({1}, '\') AND NOT regexp_full_match({1}, '(?s:[^\\]|\\[_%\\])*')"
    text = rf"CASE WHEN {bad_pattern} THEN {raising('boolean')} ELSE {{0}} LIKE {{1}} ESCAPE '\' END"
    return sql(text, "boolean", value, given, raises=True)


@entry("ilike", _FAMILY, (2, 3), "{string} ILIKE 'A%'", "{string} NOT ILIKE '%B_'", "{string} ILIKE 'É%'")
def ilike(value: Expression, pattern: Expression, escape: Expression | None = None) -> Expression:
    text = text_of(pattern, "the pattern of ILIKE")
    return like(lower(value), constant_of(lower_case(pa.array([text]))[0].as_py(), "string"), escape)


@entry(
    "rlike regexp regexp_like",
    _FAMILY,
    2,
    "{string} RLIKE '^a.c$'",
    "{string} RLIKE '[a-c]+'",
    "{string} RLIKE '(a|b)*c'",
    r"{string} RLIKE '^\\s*[+-]?\\d+$'",
    "regexp_like({string}, '^(a|é)')",
    r"{string} RLIKE '\\.'",
    "{string} RLIKE '[^a-z]'",
    "{string} RLIKE ''",
)
def rlike(value: Expression, pattern: Expression) -> Expression:
    text = regular_expression(text_of(pattern, "a regular expression"), whole_match=False)
    return sql("regexp_matches({0}, {1})", "boolean", _string(value), constant_of(text, "string"))


@entry(
    "regexp_replace",
    _FAMILY,
    3,
    "regexp_replace({string}, '[ab]', 'x')",
    "regexp_replace({string}, 'b+', '')",
    r"regexp_replace({string}, '\\d+', '#')",
)
def regexp_replace(value: Expression, pattern: Expression, new: Expression) -> Expression:
    text = regular_expression(text_of(pattern, "a regular expression"), whole_match=True)
    by = text_of(new, "what regexp_replace writes")
    if "\\" in by or "$" in by:
        raise Unsupported("groups in what regexp_replace writes are not supported", "write plain text")
    return sql(
        "regexp_replace({0}, {1}, {2}, 'g')",
        "string",
        _string(value),
        constant_of(text, "string"),
        constant_of(by, "string"),
    )


@entry(
    "regexp_extract",
    _FAMILY,
    (2, 3),
    "regexp_extract({string}, '([a-z])([0-9])', 2)",
    "regexp_extract({string}, '(b.)')",
    "regexp_extract({string}, 'b', 0)",
)
def regexp_extract(value: Expression, pattern: Expression, group: Expression | None = None) -> Expression:
    written = text_of(pattern, "a regular expression")
    text = regular_expression(written, whole_match=True)
    number = whole(group, "the number of a group", 0, 9) if group is not None else 1
    if number > text.count("(") - text.count("(?") - text.count("\\("):
        raise Unsupported(f"{written} has no group {number}", "put it in parentheses, or write 0 for all of it")
    return sql(f"regexp_extract({{0}}, {{1}}, {number})", "string", _string(value), constant_of(text, "string"))
