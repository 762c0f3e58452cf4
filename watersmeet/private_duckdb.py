"""The embedded DuckDB that computes expressions: private, and closed to the world."""

from __future__ import annotations

import duckdb


def connect(settings: dict[str, str] | None = None) -> duckdb.DuckDBPyConnection:
    """A private in-memory DuckDB: one thread (tasks are the parallelism), UTC, nothing fetched, no file read.

    Its configuration is locked, so that no text can change that."""
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute("SET autoinstall_known_extensions = false; SET autoload_known_extensions = false")
    connection.execute("SET TimeZone = 'UTC'")
    for name, value in (settings or {}).items():
        connection.execute(f"SET {name} = '{value}'")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection
