"""Columns of results and of a Delta table, compared by Delta's own names of types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from watersmeet.errors import ModelError
from watersmeet.io.sinks import result_schema
from watersmeet.model import Output


def check_table(query: str, folder: Path, outputs: tuple[Output, ...]) -> None:
    """Reject a folder that cannot take the results of a query: it is to be empty, or a Delta table with their columns.
    Reads what the log says of the table, and no rows."""
    try:
        found = table_types(DeltaTable(folder).schema().to_json())
    except TableNotFoundError:
        if any(folder.iterdir()):
            raise ModelError(
                f"query {query}: {folder} is neither a Delta table nor empty", hint="name another folder after INTO"
            ) from None
        return
    except (DeltaError, OSError) as problem:
        raise ModelError(f"query {query}: the Delta table {folder} cannot be opened", detail=str(problem)) from None
    if reasons := differences(delta_types(result_schema(outputs)), found):
        raise ModelError(
            f"query {query}: the Delta table {folder} has other columns",
            detail="; ".join(reasons) + ".",
            hint="change the query, or name another folder after INTO",
        )


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
