"""How entries of the table write DuckDB text."""

from __future__ import annotations

import re
from decimal import Decimal

from watersmeet.model.expression import Expression, Literal, Operation, Sql, duckdb_type, unnested
from watersmeet.sql.spark_types import VOID, Unsupported, shown

_PLACE = re.compile(r"\{(\d+)\}")


def sql(template: str, kind: str, *operands: Expression, raises: bool = False) -> Sql:
    """Text with the operands at {0}, {1} …. It has to stand for itself: a call, a CASE, a CAST, or in parentheses."""
    fragments = _PLACE.split(template)
    used = tuple(_enclosed(operands[int(place)]) for place in fragments[1::2])
    return Sql(tuple(fragments[::2]), used, kind, raises)


def _enclosed(operand: Expression) -> Expression:
    plain = not isinstance(operand, Operation) or operand.operator in ("()", "ABS") or operand.lazy
    return operand if plain else Operation("()", (operand,), operand.type)


def operand(value: Expression) -> Expression:
    """A value beside an operator: in parentheses, if it is an operation."""
    return Operation("()", (value,), value.type) if isinstance(value, Operation) and value.operator != "()" else value


def raising(kind: str) -> str:
    """Text of this type that raises when it is computed."""
    text = "CAST('error' AS INT)"  # no function of DuckDB that raises is allowed inside of TRY
    return (
        text
        if kind == "int"
        else f"CAST({text} AS {duckdb_type(kind)})"
        if kind != "date"
        else f"(DATE '1970-01-01' + {text})"
    )


def quoted_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def constant_of(value: object, kind: str) -> Literal:
    """A constant of one of Spark's types, with its text for DuckDB."""
    if kind == "string":
        return Literal(str(value), kind, quoted_text(str(value)))
    if kind == "boolean":
        return Literal(bool(value), kind, "TRUE" if value else "FALSE")
    if kind in ("tinyint", "smallint", "int", "bigint"):
        number = int(value)  # type: ignore[call-overload]
        plain = kind == "int" or (kind == "bigint" and not -(1 << 31) <= number < 1 << 31)
        return Literal(number, kind, str(number) if plain else f"CAST({number} AS {duckdb_type(kind)})")
    if kind == "double":
        text = repr(float(value))  # type: ignore[arg-type]
        return Literal(float(text), kind, text if "e" in text else f"{text}e0")
    if kind.startswith("decimal"):
        number = Decimal(str(value))
        return Literal(number, kind, f"CAST({number:f} AS {duckdb_type(kind)})")
    raise AssertionError(kind)


def null(kind: str) -> Expression:
    return Sql(("NULL",), (), VOID) if kind == VOID else Sql((f"CAST(NULL AS {duckdb_type(kind)})",), (), kind)


def literal(argument: Expression, what: str) -> Literal:
    """An argument that has to be a constant."""
    found = unnested(argument)
    if not isinstance(found, Literal):
        raise Unsupported(f"{what} has to be a constant", "write a literal in its place")
    return found


def text_of(argument: Expression, what: str) -> str:
    found = literal(argument, what)
    if found.type != "string":
        raise Unsupported(f"{what} has to be a STRING, not {shown(found.type)}", "write a string in its place")
    return str(found.value)


def whole(argument: Expression, what: str, least: int, most: int) -> int:
    found = literal(argument, what)
    if found.type not in ("tinyint", "smallint", "int") or not least <= int(found.number) <= most:
        raise Unsupported(f"{what} has to be a whole number from {least} to {most}", "write such a number")
    return int(found.number)
