"""Constants that are strings in SQL: dates, times, numbers and lengths of time, read as Spark reads them.

Only the usual ways to write them are accepted; Spark has more.
"""

from __future__ import annotations

import datetime
import re
from decimal import Decimal

from watersmeet.model.expression import INTERVAL, Literal
from watersmeet.sql.functions.rendering import constant_of
from watersmeet.sql.spark_types import INTEGERS, MONTHS, TIMES, Unsupported, is_decimal, shape, shown

_EPOCH = datetime.datetime(1970, 1, 1)
_BLANKS = " \t\n\r"
_DATE = r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
_TIME = r"([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{1,6}))?)?"
_ZONE = r"(Z|UTC|[+-][0-9]{1,2}(?::[0-9]{2})?)"
_REAL = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?"
_STAMP = re.compile(rf"{_DATE}(?:[ T]{_TIME}\s*{_ZONE}?)?")
UNITS = {  # in microseconds
    **{"microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000},
    **{"hour": 3_600_000_000, "day": 86_400_000_000, "week": 604_800_000_000},
}
_LONG_UNITS = {"month": 1, "year": 12}
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")


def time_constant(micros: int, kind: str) -> Literal:
    moment = _EPOCH + datetime.timedelta(microseconds=micros)
    return Literal(micros, kind, f"TIMESTAMP '{moment.isoformat(' ')}'")


def date_constant(days: int) -> Literal:
    return Literal(days, "date", f"DATE '{(_EPOCH + datetime.timedelta(days=days)).date().isoformat()}'")


def parsed(text: str, kind: str) -> Literal | None:
    """A string as another type; None where that is not a matter of parsing."""
    stripped = text.strip(_BLANKS)
    if kind in TIMES:
        return time_constant(_micros(stripped, kind), kind)
    if kind == "date":
        match = re.fullmatch(_DATE, stripped)
        if match:
            return date_constant(_date(match, stripped, kind).toordinal() - _EPOCH.toordinal())
    elif kind in INTEGERS:
        if re.fullmatch(r"[+-]?[0-9]{1,30}", stripped):
            bits = 8 << INTEGERS.index(kind)
            if -(1 << bits - 1) <= int(stripped) < 1 << bits - 1:
                return constant_of(int(stripped), kind)
    elif kind == "double":
        if re.fullmatch(_REAL, stripped) and abs(float(stripped)) < 1e308:
            return constant_of(float(stripped), kind)
        if stripped.lower() in ("nan", "inf", "-inf", "infinity", "-infinity"):
            name = {"n": "NaN", "i": "Infinity", "-": "-Infinity"}[stripped[0].lower()]
            return Literal(float(name), kind, f"CAST('{name}' AS DOUBLE)")
    elif is_decimal(kind):
        precision, scale = shape(kind)
        match = re.fullmatch(r"[+-]?([0-9]+)(?:\.([0-9]+))?", stripped)
        if match and len(match[2] or "") <= scale and len(match[1]) <= precision - scale:
            return constant_of(Decimal(stripped).quantize(Decimal(1).scaleb(-scale)), kind)
    elif kind == "boolean":
        if stripped.lower() in (*_TRUE, *_FALSE):
            return constant_of(stripped.lower() in _TRUE, kind)
    else:
        return None
    raise _unreadable(text, kind)


def _unreadable(text: str, kind: str) -> Unsupported:
    example = {"date": "'2024-01-31'", "timestamp": "'2024-01-31 12:30:00'"}.get(kind, "")
    return Unsupported(f"'{text}' is not a {shown(kind)}", f"write it like {example}" if example else "")


def _date(match: re.Match[str], text: str, kind: str) -> datetime.date:
    try:
        return datetime.date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        raise _unreadable(text, kind) from None


def _micros(text: str, kind: str) -> int:
    match = _STAMP.fullmatch(text)
    if not match or (match[8] and kind == "timestamp_ntz"):
        raise _unreadable(text, kind)
    day = _date(match, text, kind)
    hour, minute, second = (int(match[at] or 0) for at in (4, 5, 6))
    if hour > 23 or minute > 59 or second > 59:
        raise _unreadable(text, kind)
    micros = int((match[7] or "").ljust(6, "0"))
    moment = datetime.datetime(day.year, day.month, day.day, hour, minute, second, micros)
    offset = datetime.timedelta()
    if match[8] and match[8] not in ("Z", "UTC"):
        hours, _, minutes = match[8][1:].partition(":")
        offset = datetime.timedelta(hours=int(hours), minutes=int(minutes or 0)) * (-1 if match[8][0] == "-" else 1)
        if abs(offset) > datetime.timedelta(hours=18):
            raise _unreadable(text, kind)
    return (moment - offset - _EPOCH) // datetime.timedelta(microseconds=1)


def interval_constant(count: str, unit: str) -> Literal:
    """INTERVAL '1' DAY and the like."""
    unit = unit.lower().removesuffix("s")
    written = f"INTERVAL '{count}' {unit.upper()}"
    if unit in _LONG_UNITS and re.fullmatch(r"-?[0-9]{1,4}", count):
        return Literal(int(count) * _LONG_UNITS[unit], MONTHS, written)
    pattern = r"-?[0-9]{1,9}(\.[0-9]{1,6})?" if unit == "second" else r"-?[0-9]{1,9}"
    if unit not in UNITS or not re.fullmatch(pattern, count):
        raise Unsupported(f"{written} is not supported", "write a whole number of one unit: INTERVAL '90' SECOND")
    return Literal(int(Decimal(count) * UNITS[unit]), INTERVAL, written)
