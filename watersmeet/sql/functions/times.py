"""Dates and times. The time zone is UTC; times are naive UTC microseconds inside."""

from __future__ import annotations

import re
from collections.abc import Callable

from watersmeet.model.expression import Expression
from watersmeet.sql.functions.casts import YEAR, cast, cast_int, floored, usual_year
from watersmeet.sql.functions.constants import UNITS
from watersmeet.sql.functions.rendering import quoted_text, raising, sql, text_of
from watersmeet.sql.functions.table import entry
from watersmeet.sql.spark_types import TIMES, VOID, Unsupported, shown

_FAMILY = "dates and times"
_TRUNCATED = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    "quarter": "quarter",
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    "week": "week",
}
_TRUNCATED_TIMES = {
    **_TRUNCATED,
    **{unit: unit for unit in ("day", "hour", "minute", "second", "millisecond", "microsecond")},
    "dd": "day",
}


@entry("to_date", _FAMILY, 1, "to_date({timestamp})", "to_date({string})", "to_date('2024-05-06')")
def to_date(value: Expression) -> Expression:
    if value.type in ("date", "string", VOID, *TIMES):
        return cast(value, "date")
    raise Unsupported(f"a DATE is needed here, not {shown(value.type)}", "CAST it to DATE")


def _time(value: Expression) -> Expression:
    if value.type in TIMES:
        return value
    if value.type in ("date", VOID):
        return cast(value, "timestamp")
    raise Unsupported(f"a TIMESTAMP is needed here, not {shown(value.type)}", "declare the column as TIMESTAMP")


def _part(name: str, function: str, read: Callable[[Expression], Expression], *columns: str) -> None:
    @entry(name, _FAMILY, 1, *(f"{name}({{{column}}})" for column in columns))
    def build(value: Expression) -> Expression:
        return sql(f"CAST({function}({{0}}) AS INT)", "int", read(value))


for _name in ("year", "quarter", "month", "day", "dayofmonth", "dayofyear", "weekofyear"):
    _part(_name, "day" if _name == "dayofmonth" else _name, to_date, "date", "timestamp")
for _name in ("hour", "minute", "second"):
    _part(_name, _name, _time, "timestamp", "ntz")


@entry("dayofweek", _FAMILY, 1, "dayofweek({date})", "dayofweek({timestamp})")
def day_of_week(value: Expression) -> Expression:
    return sql("CAST(dayofweek({0}) + 1 AS INT)", "int", to_date(value))


@entry("weekday", _FAMILY, 1, "weekday({date})")
def weekday(value: Expression) -> Expression:
    return sql("CAST(isodow({0}) - 1 AS INT)", "int", to_date(value))


_FIELDS = {
    **dict.fromkeys(("year", "years"), "year"),
    "quarter": "quarter",
    **dict.fromkeys(("month", "months", "mon"), "month"),
    **dict.fromkeys(("day", "days", "d"), "day"),
    "doy": "dayofyear",
    **dict.fromkeys(("week", "weeks", "w"), "weekofyear"),
}


@entry(
    "extract date_part datepart",
    _FAMILY,
    2,
    *(
        f"extract({field} FROM {{timestamp}})"
        for field in ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "DOW", "WEEK", "DOY")
    ),
    "date_part('year', {date})",
    "datepart('month', {date})",
)
def extract(field: Expression, value: Expression) -> Expression:
    name = text_of(field, "the field").lower()
    if name in _FIELDS:
        return sql(f"CAST({_FIELDS[name]}({{0}}) AS INT)", "int", to_date(value))
    if name in ("hour", "minute", "hours", "minutes"):
        return sql(f"CAST({name.removesuffix('s')}({{0}}) AS INT)", "int", _time(value))
    if name in ("dow", "dayofweek"):
        return day_of_week(value)
    if name in ("dow_iso", "dayofweek_iso"):
        return sql("CAST(isodow({0}) AS INT)", "int", to_date(value))
    raise Unsupported(
        f"extract({name.upper()} FROM …) is not supported", f"use one of {', '.join(sorted(_FIELDS)).upper()}"
    )


@entry(
    "date_add dateadd", _FAMILY, 2, "date_add({date}, {smallint2})", "date_add({date}, 3)", "date_add({timestamp}, 1)"
)
def date_add(value: Expression, days: Expression) -> Expression:
    return sql("({0} + {1})", "date", to_date(value), cast_int(days, "int"), raises=True)


@entry("date_sub", _FAMILY, 2, "date_sub({date}, 3)", "date_sub({date}, {smallint2})")
def date_sub(value: Expression, days: Expression) -> Expression:
    return sql("({0} - {1})", "date", to_date(value), cast_int(days, "int"), raises=True)


@entry("add_months", _FAMILY, 2, "add_months({date}, 1)", "add_months({date}, -13)", "add_months({date}, {tinyint2})")
def add_months(value: Expression, months: Expression) -> Expression:
    return sql("CAST(({0} + to_months({1})) AS DATE)", "date", to_date(value), cast_int(months, "int"), raises=True)


@entry(
    "datediff date_diff",
    _FAMILY,
    (2, 3),
    "datediff({date}, {date2})",
    "datediff({timestamp}, {date2})",
    "datediff(HOUR, {timestamp}, {timestamp2})",
)
def date_difference(*values: Expression) -> Expression:
    if len(values) == 3:
        return timestamp_difference(*values)
    end, start = (to_date(value) for value in values)
    return sql("CAST(date_diff('day', {1}, {0}) AS INT)", "int", end, start)


@entry(
    "timestampdiff",
    _FAMILY,
    3,
    *(
        f"timestampdiff({unit}, {{timestamp}}, {{timestamp2}})"
        for unit in ("MICROSECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK")
    ),
    "timestampdiff(DAY, {date}, {timestamp2})",
)
def timestamp_difference(unit: Expression, start: Expression, end: Expression) -> Expression:
    name = text_of(unit, "the unit").lower().removesuffix("s")
    if name not in UNITS:
        raise Unsupported(f"timestampdiff in {name.upper()} is not supported", f"use one of {', '.join(UNITS).upper()}")
    difference = "(epoch_us({1}) - epoch_us({0}))"
    return sql(
        difference if name == "microsecond" else f"({difference} // {UNITS[name]})",
        "bigint",
        _time(start),
        _time(end),
        raises=True,
    )


@entry(
    "date_trunc",
    _FAMILY,
    2,
    *(f"date_trunc('{unit}', {{timestamp}})" for unit in sorted(_TRUNCATED_TIMES)),
    "date_trunc('month', {date})",
)
def date_trunc(unit: Expression, value: Expression) -> Expression:
    name = text_of(unit, "the unit").lower()
    if name not in _TRUNCATED_TIMES:
        raise Unsupported(
            f"date_trunc('{name}', …) is not supported", f"use one of {', '.join(sorted(_TRUNCATED_TIMES))}"
        )
    time = cast(_time(value), "timestamp")
    return sql(f"CAST(date_trunc('{_TRUNCATED_TIMES[name]}', {{0}}) AS TIMESTAMP)", "timestamp", time)


@entry("trunc", _FAMILY, 2, *(f"trunc({{date}}, '{unit}')" for unit in sorted(_TRUNCATED)), "trunc({timestamp}, 'MM')")
def trunc(value: Expression, unit: Expression) -> Expression:
    name = text_of(unit, "the unit").lower()
    if name not in _TRUNCATED:
        raise Unsupported(f"trunc(…, '{name}') is not supported", f"use one of {', '.join(sorted(_TRUNCATED))}")
    return sql(f"CAST(date_trunc('{_TRUNCATED[name]}', {{0}}) AS DATE)", "date", to_date(value))


@entry("last_day", _FAMILY, 1, "last_day({date})")
def last_day(value: Expression) -> Expression:
    return sql("last_day({0})", "date", to_date(value))


@entry("to_timestamp", _FAMILY, 1, "to_timestamp({date})", "to_timestamp('2024-01-01 02:00:00+02:00')")
def to_timestamp(value: Expression) -> Expression:
    return cast(value, "timestamp") if value.type == "string" else cast(_time(value), "timestamp")


@entry("make_date", _FAMILY, 3, "make_date({smallint}, {tinyint}, {tinyint2})", "make_date(2024, {int}, 1)")
def make_date(year: Expression, month: Expression, day: Expression) -> Expression:
    parts = [cast_int(part, "int") for part in (year, month, day)]
    text = (
        "CASE WHEN {0} IS NULL OR {1} IS NULL OR {2} IS NULL THEN NULL"
        f" WHEN {{0}} BETWEEN -5877640 AND 5881579 THEN make_date({{0}}, {{1}}, {{2}}) ELSE {raising('date')} END"
    )
    return sql(text, "date", *parts, raises=True)


def _since_epoch(name: str, unit: int) -> None:
    @entry(name, _FAMILY, 1, f"{name}({{timestamp}})")
    def build(value: Expression) -> Expression:
        if value.type == "date":
            raise Unsupported(f"{name} of DATE means nothing in Spark", "use unix_date(…), or CAST it to TIMESTAMP")
        return sql(
            floored("epoch_us({0})", unit) if unit > 1 else "epoch_us({0})", "bigint", cast(_time(value), "timestamp")
        )


for _name, _unit in (("unix_seconds", 1_000_000), ("unix_millis", 1_000), ("unix_micros", 1)):
    _since_epoch(_name, _unit)


@entry("unix_timestamp to_unix_timestamp", _FAMILY, 1, "unix_timestamp({timestamp})", "to_unix_timestamp({date})")
def unix_timestamp(value: Expression) -> Expression:
    # Unlike unix_seconds, Spark cuts off the fraction, also before 1970.
    return sql("(epoch_us({0}) // 1000000)", "bigint", cast(_time(value), "timestamp"))


@entry("unix_date", _FAMILY, 1, "unix_date({date})")
def unix_date(value: Expression) -> Expression:
    if value.type not in ("date", VOID):
        raise Unsupported(f"unix_date of {shown(value.type)} means nothing in Spark", "CAST it to DATE")
    return sql("CAST(date_diff('day', DATE '1970-01-01', {0}) AS INT)", "int", to_date(value))


@entry("date_from_unix_date", _FAMILY, 1, "date_from_unix_date({smallint})")
def date_from_unix_date(value: Expression) -> Expression:
    return sql("(DATE '1970-01-01' + {0})", "date", cast_int(value, "int"), raises=True)


def _of_epoch(name: str, unit: int) -> None:
    @entry(name, _FAMILY, 1, f"{name}({{int}})")
    def build(value: Expression) -> Expression:
        if value.type not in ("tinyint", "smallint", "int", "bigint", VOID):
            raise Unsupported(f"{name} of {shown(value.type)} is not supported", "CAST it to BIGINT")
        return sql(
            f"make_timestamp({{0}} * {unit})" if unit > 1 else "make_timestamp({0})",
            "timestamp",
            cast(value, "bigint"),
            raises=True,
        )


for _name, _unit in (("timestamp_seconds", 1_000_000), ("timestamp_millis", 1_000), ("timestamp_micros", 1)):
    _of_epoch(_name, _unit)


@entry("from_unixtime", _FAMILY, 1, "from_unixtime({int})")
def from_unixtime(value: Expression) -> Expression:
    if value.type not in ("tinyint", "smallint", "int"):
        raise Unsupported(f"from_unixtime of {shown(value.type)} is not supported", "use timestamp_seconds(…)")
    return sql("strftime(make_timestamp({0} * 1000000), '%Y-%m-%d %H:%M:%S')", "string", cast(value, "bigint"))


_LETTERS = {
    "yyyy": "%Y",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
    "SSS": "%g",
    "SSSSSS": "%f",
    "DDD": "%j",
}


@entry(
    "date_format",
    _FAMILY,
    2,
    "date_format({timestamp}, 'yyyy-MM-dd HH:mm:ss')",
    "date_format({timestamp}, 'yyyy/MM')",
    "date_format({date}, 'yyyyMMdd')",
    "date_format({timestamp}, 'HH:mm:ss.SSS')",
    "date_format({timestamp}, 'DDD')",
)
def date_format(value: Expression, pattern: Expression) -> Expression:
    text, written = text_of(pattern, "the format"), ""
    for run in re.finditer(r"(.)\1*", text, re.DOTALL):
        if run[0] not in _LETTERS and run[1] not in "-/:. ,_":
            raise Unsupported(
                f"the format {text!r} is not supported", f"use {', '.join(_LETTERS)} with signs in between"
            )
        written += _LETTERS.get(run[0], run[0])
    usual = f"strftime({{0}}, {quoted_text(written)})"
    if "%Y" not in written:
        return sql(usual, "string", _time(value))
    # What DuckDB calls %Y has no sign and no zeros.
    parts = [f"strftime({{0}}, {quoted_text(part)})" if part else "''" for part in written.split("%Y")]
    return sql(usual_year(usual, f" || {YEAR} || ".join(parts)), "string", _time(value))
