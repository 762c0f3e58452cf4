"""Rows as JSON objects, written by DuckDB, which knows every type."""

from __future__ import annotations

import re

import duckdb
import pyarrow as pa

from watersmeet.private_duckdb import connect


class JsonLines:
    def __init__(self, schema: pa.Schema) -> None:
        self._connection = connect()
        self._has_floats = any(_has_floats(kind) for kind in schema.types)

    def of(self, rows: pa.Table) -> list[str]:
        """A text for each row."""
        self._connection.register("result_rows", rows)
        lines = self._connection.sql("SELECT to_json(result_rows) FROM result_rows").to_arrow_table()
        self._connection.unregister("result_rows")
        texts: list[str] = lines.column(0).cast(pa.string()).to_pylist()
        return [_valid_json(text) for text in texts] if self._has_floats else texts

    def close(self) -> None:
        self._connection.close()


def _has_floats(kind: pa.DataType) -> bool:
    inner = [kind.field(at).type for at in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    return pa.types.is_floating(kind) or any(map(_has_floats, inner))


# What is in quotation marks, or a number that JSON does not have. Spark writes such a number as a string.
_NO_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|-?(?:nan|inf(?:inity)?)', re.IGNORECASE)


def _valid_json(text: str) -> str:
    return _NO_NUMBER.sub(_quoted, text) if "n" in text or "N" in text else text


def _quoted(found: re.Match[str]) -> str:
    word = found[0]
    if word.startswith('"'):
        return word
    return '"NaN"' if "nan" in word.lower() else '"-Infinity"' if word.startswith("-") else '"Infinity"'


def json_texts(connection: duckdb.DuckDBPyConnection, column: pa.Array) -> pa.Array:
    """The values of a column, each as JSON; NULL where they are."""
    connection.register("values_as_json", pa.table({"value": column}))
    try:
        found = connection.sql("SELECT to_json(value) FROM values_as_json").to_arrow_table()
    finally:
        connection.unregister("values_as_json")
    texts = found.column(0).cast(pa.string()).combine_chunks()
    if not _has_floats(column.type):
        return texts
    return pa.array([text and _valid_json(text) for text in texts.to_pylist()], pa.string())
