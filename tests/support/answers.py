"""Comparing results with DuckDB's over the same finite input, as multisets."""

from __future__ import annotations

import atexit
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa

from tests.support.cases import Case

_connection = duckdb.connect()
_connection.execute("SET TimeZone = 'UTC'")
atexit.register(_connection.close)


def oracle_answers(case: Case) -> dict[str, Counter[tuple[object, ...]]]:
    for stream in case.streams:
        _connection.register("input_rows", stream.rows)
        # Naive UTC, as the engine keeps instants: comparing a DATE with an instant must not depend on a zone.
        columns = ", ".join(
            f"{field.name}::TIMESTAMP AS {field.name}" if pa.types.is_timestamp(field.type) else field.name
            for field in stream.rows.schema
        )
        _connection.execute(f"CREATE OR REPLACE TABLE {stream.name} AS SELECT {columns} FROM input_rows")
        _connection.unregister("input_rows")
    return {query.name: Counter(_connection.execute(query.oracle).fetchall()) for query in case.queries}


def stored_answers(folder: Path) -> Counter[tuple[object, ...]]:
    """What any Parquet reader of a result folder sees; instants as naive UTC."""
    relation = _connection.sql(f"SELECT * FROM read_parquet('{folder}/*.parquet')")
    columns = ", ".join(
        f'"{name}"::TIMESTAMP' if "TIME ZONE" in str(kind) else f'"{name}"'
        for name, kind in zip(relation.columns, relation.types, strict=True)
    )
    return Counter(relation.project(columns).fetchall())


def check_answers(case: Case, home: Path) -> None:
    """Every query's folder holds what the oracle answers."""
    for name, expected in oracle_answers(case).items():
        assert stored_answers(home / "results" / name) == expected, name
