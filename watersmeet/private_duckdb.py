"""The embedded DuckDB that computes expressions: private, and closed to the world."""

from __future__ import annotations

import duckdb
from duckdb.func import PythonUDFType

from watersmeet.letters.case import lower_case, upper_case


def connect(settings: dict[str, str] | None = None) -> duckdb.DuckDBPyConnection:
    """A private in-memory DuckDB: one thread (tasks are the parallelism), UTC, nothing fetched, no file read.

    Its configuration is locked, so that no text can change that."""
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute("SET autoinstall_known_extensions = false; SET autoload_known_extensions = false")
    connection.execute("SET TimeZone = 'UTC'")
    for name, value in (settings or {}).items():
        connection.execute(f"SET {name} = '{value}'")
    for name, change in (("spark_upper", upper_case), ("spark_lower", lower_case)):
        connection.create_function(name, change, ["VARCHAR"], "VARCHAR", type=PythonUDFType.ARROW)
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection
