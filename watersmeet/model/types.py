"""Column types: Spark's names for users, Arrow's for data, and how a type takes part in an equality.

Inside the engine every timestamp is naive UTC microseconds, with or without a zone outside; `at_rest`
converts on the way in and `outside` gives the type that leaves.
"""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa

from watersmeet.errors import ModelError

SHORT_DECIMAL_DIGITS = 18  # of decimals that an int64 holds
_SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp_ntz": pa.timestamp("us"),
}
_SYNONYMS = {
    "bool": "boolean",
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "text": "string",
    "varchar": "string",
    "char": "string",
    "timestamptz": "timestamp",
    "timestamp_ltz": "timestamp",
    "numeric": "decimal",
    "dec": "decimal",
}
_OF_ARROW: dict[pa.DataType, str] = {
    **{kind: name for name, kind in _SIMPLE.items()},
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
    pa.uint64(): "decimal(20,0)",
    pa.large_string(): "string",
    pa.large_binary(): "binary",
    pa.string_view(): "string",
    pa.null(): "string",
}
KNOWN_TYPES = (*(name.upper() for name in _SIMPLE), "DECIMAL(p, s)", "ARRAY<…>", "STRUCT<…>", "MAP<…>")


@lru_cache(maxsize=1024)
def canonical_type(text: str) -> str:
    """The one spelling of a type: lower case, no spaces, synonyms resolved. Raises ModelError."""
    return _known(text)[0]


@lru_cache(maxsize=1024)
def arrow_type(text: str) -> pa.DataType:
    """The Arrow type in which values of a declared type are kept inside the engine."""
    return _known(text)[1]


def _known(text: str) -> tuple[str, pa.DataType]:
    """Spelling and Arrow type."""
    folded = re.sub(r"\s+", "", text.lower())
    folded = _SYNONYMS.get(folded, folded)
    if folded in _SIMPLE:
        return folded, _SIMPLE[folded]
    if re.fullmatch(r"(varchar|char)\(\d+\)", folded):
        return "string", pa.string()
    match = re.fullmatch(r"(?:decimal|numeric|dec)(?:\((\d+)(?:,(\d+))?\))?", folded)
    if match:
        precision, scale = int(match[1] or 10), int(match[2] or 0)
        if not 1 <= precision <= 38 or scale > precision:
            raise ModelError(f"{text} is not a decimal type", hint="use a precision of 1 to 38 and a scale no larger")
        return f"decimal({match[1] or 10},{match[2] or 0})", pa.decimal128(precision, scale)
    outer = re.fullmatch(r"(array|map|struct)<(.*)>", folded)
    if outer:
        parts = split_top(outer[2])
        if outer[1] == "array" and len(parts) == 1:
            return folded, pa.list_(arrow_type(parts[0]))
        if outer[1] == "map" and len(parts) == 2:
            return folded, pa.map_(arrow_type(parts[0]), arrow_type(parts[1]))
        if outer[1] == "struct" and all(":" in part for part in parts):
            named = [part.split(":", 1) for part in parts]
            return folded, pa.struct([(name, arrow_type(inner)) for name, inner in named])
    raise ModelError(f"unknown type {text}", detail=f"Types: {', '.join(KNOWN_TYPES)}.")


def split_top(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def outside(declared: str) -> pa.DataType:
    """The Arrow type under which a declared column leaves the engine: TIMESTAMP is an instant again."""
    return pa.timestamp("us", tz="UTC") if declared == "timestamp" else arrow_type(declared)


def type_of_arrow(kind: pa.DataType) -> str:
    """The declared type that an Arrow type (as DuckDB or a file reports it) stands for."""
    if pa.types.is_decimal(kind):
        if kind.precision > 38:
            raise ModelError(f"decimals of {kind.precision} digits are not supported")
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{type_of_arrow(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{type_of_arrow(kind.key_type)},{type_of_arrow(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return "struct<" + ",".join(f"{field.name}:{type_of_arrow(field.type)}" for field in kind) + ">"
    if kind in _OF_ARROW:
        return _OF_ARROW[kind]
    raise ModelError(f"values of Arrow type {kind} cannot be stored", hint="CAST the expression to a known type")


_INTEGERS = ("tinyint", "smallint", "int", "bigint")


def is_integer(declared: str) -> bool:
    return declared in _INTEGERS


def has_code(kind: pa.DataType) -> bool:
    """Whether 64 bits can tell each value, and their order is that of the values."""
    if pa.types.is_decimal(kind):
        return bool(kind.precision <= SHORT_DECIMAL_DIGITS)
    return bool(pa.types.is_primitive(kind))
