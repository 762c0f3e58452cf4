"""Arrays, maps and structs: access only."""

from __future__ import annotations

from watersmeet.model.expression import Expression, Literal, duckdb_type, field_of, unnested
from watersmeet.sql.functions.casts import cast
from watersmeet.sql.functions.rendering import raising, sql
from watersmeet.sql.functions.table import entry
from watersmeet.sql.spark_types import ATOMS, INTEGERS, Unsupported, comparable, is_decimal, nested, shown

_FAMILY = "arrays, maps and structs"


def field(struct: Expression, name: str) -> Expression:
    kind, fields = nested(struct.type)
    known = {inner.lower(): inner for inner in fields}
    if kind != "struct" or name.lower() not in known:
        names = f"fields: {', '.join(fields)}" if fields and kind == "struct" else "only a STRUCT has fields"
        raise Unsupported(f"{shown(struct.type)} has no field {name}", names)
    return field_of(struct, known[name.lower()], fields[known[name.lower()]])


def _simple(kind: str) -> str:
    if kind not in ATOMS and not is_decimal(kind):
        raise Unsupported(f"an element of type {shown(kind)} is not supported here", "use arrays of simple values")
    return kind


def _failure(kind: str) -> str:
    return raising(_simple(kind))


@entry("item", _FAMILY, 2, "{array}[0]", "{array}[{int}]", "{map}['a']")
def item(container: Expression, key: Expression) -> Expression:
    """x[y]: arrays count from 0, and raise beyond their ends."""
    kind, inner = nested(container.type)
    if kind == "map":
        return element_at(container, key)
    if kind != "array" or key.type not in INTEGERS:
        raise Unsupported(
            f"{shown(container.type)}[{shown(key.type)}] is not supported", "use an ARRAY with an INT, or a MAP"
        )
    known = unnested(key)
    if isinstance(known, Literal) and 0 <= known.number < 1 << 31:
        at = int(known.number) + 1
        text = (
            f"CASE WHEN len({{0}}) >= {at} THEN {{0}}[{at}] WHEN {{0}} IS NOT NULL THEN {_failure(inner['item'])} END"
        )
        return sql(text, inner["item"], container, raises=True)
    text = (
        "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN {1} >= 0 AND {1} < len({0}) THEN {0}[{1} + 1]"
        f" ELSE {_failure(inner['item'])} END"
    )
    position = cast(key, "bigint")
    if key.type == "bigint":  # of which Spark takes the last 32 bits
        position = sql("(xor({0} & 4294967295, 2147483648) - 2147483648)", "bigint", key)
    return sql(text, inner["item"], container, position, raises=True)


@entry("element_at", _FAMILY, 2, "element_at({array}, 1)", "element_at({array}, {int})", "element_at({map}, 'a')")
def element_at(container: Expression, key: Expression) -> Expression:
    kind, inner = nested(container.type)
    if kind == "map":
        if comparable(inner["key"], key.type) != inner["key"]:
            raise Unsupported(f"a key of {shown(container.type)} is not a {shown(key.type)}")
        return sql(
            f"CAST(element_at({{0}}, {{1}})[1] AS {duckdb_type(_simple(inner['value']))})",
            inner["value"],
            container,
            cast(key, inner["key"]),
        )
    if kind != "array" or key.type not in ("tinyint", "smallint", "int"):
        raise Unsupported(
            f"element_at of {shown(container.type)} and {shown(key.type)} is not supported",
            "use an ARRAY with an INT, or a MAP",
        )
    text = (
        "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN {1} <> 0 AND abs({1}) <= len({0}) THEN {0}[{1}]"
        f" ELSE {_failure(inner['item'])} END"
    )
    return sql(text, inner["item"], container, cast(key, "bigint"), raises=True)


@entry("size cardinality", _FAMILY, 1, "size({array})")
def size(container: Expression) -> Expression:
    kind, _ = nested(container.type)
    if kind != "array":
        raise Unsupported(f"size of {shown(container.type)} is not supported", "use an ARRAY")
    return sql("CAST(len({0}) AS INT)", "int", container)


@entry("array_contains", _FAMILY, 2, "array_contains({array}, {int})", "NOT array_contains({array}, 1)")
def array_contains(container: Expression, value: Expression) -> Expression:
    kind, inner = nested(container.type)
    if kind != "array" or value.type != _simple(inner["item"]):
        raise Unsupported(
            f"array_contains of {shown(container.type)} and {shown(value.type)} is not supported",
            "give it an element's type",
        )
    text = (
        "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN list_contains({0}, {1}) THEN TRUE"
        " WHEN len({0}) > list_count({0}) THEN NULL ELSE FALSE END"
    )
    return sql(text, "boolean", container, value)
