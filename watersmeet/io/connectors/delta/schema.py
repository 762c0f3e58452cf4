"""Columns of results and of a Delta table, compared by Delta's own names of types."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from deltalake import Schema


def delta_types(schema: pa.Schema) -> dict[str, Any]:
    """The columns of results as a new table has them."""
    return table_types(Schema.from_arrow(schema).to_json())


def table_types(text: str) -> dict[str, Any]:
    """The columns of a table and their types, from the text in which its log has them."""
    return {field["name"]: plain(field["type"]) for field in json.loads(text)["fields"]}


def plain(kind: Any) -> Any:
    """A type without what says nothing about values: whether NULLs are allowed, and notes."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return {"struct": [[field["name"].lower(), plain(field["type"])] for field in kind["fields"]]}
    if kind["type"] == "array":
        return {"array": plain(kind["elementType"])}
    return {"map": [plain(kind["keyType"]), plain(kind["valueType"])]}


def differences(results: dict[str, Any], table: dict[str, Any]) -> list[str]:
    """Why a table cannot take results. Names may differ in case, and be in another order."""
    found = {name.lower(): (name, kind) for name, kind in table.items()}
    reasons = []
    for name, kind in results.items():
        there = found.pop(name.lower(), None)
        if there is None:
            reasons.append(f"it has no column {name}")
        elif there[1] != kind:
            reasons.append(f"its column {there[0]} is {shown(there[1])}, not {shown(kind)}")
    return reasons + [f"the query has no column {name}" for name, _ in found.values()]


def shown(kind: Any) -> str:
    if isinstance(kind, str):
        return kind
    (outer, inner), *_ = kind.items()
    if outer == "struct":
        return f"struct<{', '.join(f'{name}: {shown(one)}' for name, one in inner)}>"
    parts = [inner] if outer == "array" else inner
    return f"{outer}<{', '.join(map(shown, parts))}>"
