"""One JSON message, as Spark's from_json reads it with the declared types. Slow, and only for what Arrow rejects."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from watersmeet.io.connectors.kafka.columns import Fields

_EPOCH = datetime(1970, 1, 1)
_WIDE = Context(prec=80)


def values_of(text: bytes, fields: Fields) -> dict[str, Any]:
    """The columns of a message; ValueError if it is malformed, or a value is not one of the declared type."""
    message = json.loads(text, parse_float=_Number, parse_int=_Number, parse_constant=_no_constant)
    return {
        column.name: _value(_at(message, path), column.type, column.arrow)
        for column, path in zip(fields.columns, fields.paths, strict=True)
    }


class _Number(str):
    """A number as it is written: what it means depends on the column."""


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a JSON value")


def _at(message: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if message is None:
            return None
        if not isinstance(message, dict):
            raise ValueError(f"{name} is not in an object")
        message = message.get(name)
    return message


def _value(value: Any, declared: str, kind: pa.DataType) -> Any:
    """A value of a message as a column has it; ValueError where Spark would not read it."""
    if value is None:
        return None
    for test, accepted, convert in _CONVERSIONS:
        if test(kind):
            if type(value) not in accepted:
                raise _wrong(value, declared)
            return convert(value, declared, kind)
    raise ValueError(f"values of type {declared} are not read from JSON")


def _wrong(value: Any, declared: str) -> ValueError:
    return ValueError(f"{json.dumps(value)[:80]} is not a value of type {declared.upper()}")


def _boolean(value: bool, declared: str, kind: pa.DataType) -> bool:
    return value


def _integer(value: str, declared: str, kind: pa.DataType) -> int:
    if not value.lstrip("-").isdigit():
        raise _wrong(value, declared)
    number, most = int(value), 1 << (kind.bit_width - 1)
    if not -most <= number < most:
        raise _wrong(value, declared)
    return number


_NO_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
_NO_NUMBERS |= {"INF": math.inf, "+INF": math.inf, "-INF": -math.inf}


def _float(value: str, declared: str, kind: pa.DataType) -> float:
    if isinstance(value, _Number):
        return float(value)
    if value in _NO_NUMBERS:
        return _NO_NUMBERS[value]
    raise _wrong(value, declared)


def _decimal(value: str, declared: str, kind: pa.DataType) -> Decimal | None:
    try:
        found = Decimal(value).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, _WIDE)
    except InvalidOperation:
        raise _wrong(value, declared) from None
    if found.is_nan() or found.is_infinite() or found.adjusted() >= kind.precision - kind.scale:
        raise _wrong(value, declared)
    return found


def _text(value: Any, declared: str, kind: pa.DataType) -> str:
    return value if isinstance(value, str) else _written(value)


def _written(value: Any) -> str:
    """A value that is no text, as JSON."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k, ensure_ascii=False)}:{_written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _bytes(value: str, declared: str, kind: pa.DataType) -> bytes:
    return base64.b64decode(value, validate=True)


def _day(value: str, declared: str, kind: pa.DataType) -> date:
    return _moment(value, declared).date()


def _time(value: str, declared: str, kind: pa.DataType) -> int:
    """Microseconds; a number counts seconds, as in Spark."""
    if isinstance(value, _Number):
        if declared != "timestamp" or not value.lstrip("-").isdigit():
            raise _wrong(value, declared)
        return int(value) * 1_000_000
    moment = _moment(value, declared)
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _moment(text: str, declared: str) -> datetime:
    whole, dot, rest = text.strip().partition(".")
    digits = len(rest) - len(rest.lstrip("0123456789"))
    try:
        return datetime.fromisoformat(f"{whole}{dot}{rest[: min(digits, 6)]}{rest[digits:]}".replace(" UTC", "Z"))
    except ValueError:
        raise _wrong(text, declared) from None


def _list(value: list[Any], declared: str, kind: pa.DataType) -> list[Any]:
    return [_value(one, str(kind.value_type), kind.value_type) for one in value]


def _object(value: dict[str, Any], declared: str, kind: pa.DataType) -> dict[str, Any]:
    return {field.name: _value(value.get(field.name), str(field.type), field.type) for field in kind}


def _map(value: dict[str, Any], declared: str, kind: pa.DataType) -> list[tuple[str, Any]]:
    if kind.key_type != pa.string():
        raise _wrong(value, declared)
    return [(name, _value(one, str(kind.item_type), kind.item_type)) for name, one in value.items()]


_Convert = Callable[[Any, str, pa.DataType], Any]
# Which types of Arrow, as which types of Python their values are read from JSON, and how they are made of these.
_CONVERSIONS: tuple[tuple[Callable[[pa.DataType], bool], tuple[type, ...], _Convert], ...] = (
    (pa.types.is_boolean, (bool,), _boolean),
    (pa.types.is_integer, (_Number,), _integer),
    (pa.types.is_floating, (_Number, str), _float),
    (pa.types.is_decimal, (_Number, str), _decimal),
    (pa.types.is_string, (_Number, str, bool, list, dict), _text),
    (pa.types.is_binary, (str,), _bytes),
    (pa.types.is_date, (str,), _day),
    (pa.types.is_timestamp, (_Number, str), _time),
    (pa.types.is_list, (list,), _list),
    (pa.types.is_struct, (dict,), _object),
    (pa.types.is_map, (dict,), _map),
)
