"""Scalar SQL over Arrow data, by an embedded DuckDB: filters, key expressions, computed columns.

A value that cannot be computed (an overflow, a failed conversion) is NULL and counted; it never stops a
tick, because one row must not stop the queries that do not read it.
"""

from __future__ import annotations

import atexit
import threading
from dataclasses import dataclass
from functools import lru_cache

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.store.guard import ExpressionError, bounded, bounds, reason_of_duckdb


def connect(megabytes: int = 0) -> duckdb.DuckDBPyConnection:
    """A private in-memory DuckDB: one thread (tasks are the parallelism), UTC, nothing fetched."""
    connection = duckdb.connect(":memory:", config={"threads": 1})
    if megabytes:
        connection.execute(f"SET memory_limit = '{megabytes}MB'")
    connection.execute("SET autoinstall_known_extensions = false; SET autoload_known_extensions = false")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


@lru_cache(maxsize=1)
def _connection(megabytes: int) -> duckdb.DuckDBPyConnection:
    # Threads of Py4J keep modules alive past the end; DuckDB then complains about a connection left behind.
    atexit.register(_connection.cache_clear)
    return connect(megabytes)


_turn = threading.Lock()  # an embedded tick and a change of queries may evaluate at the same time


def warm_up() -> None:
    """Have everything loaded that the first evaluation would load."""
    evaluate(pa.table({"x": pa.array([1], pa.int64())}), ["x + 1"])


@dataclass(frozen=True)
class Evaluated:
    values: list[pa.Array]
    failures: list[int]  # for each expression, the rows on which it raised


def evaluate(rows: pa.Table | pa.RecordBatch, expressions: list[str]) -> Evaluated:
    """Each expression on each row, in the order of the rows."""
    if not expressions:
        return Evaluated([], [])
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    with _turn:
        try:
            return _evaluated(table, expressions)
        except (duckdb.Error, pa.ArrowException, TimeoutError, MemoryError) as problem:
            failed = {expressions[0]: reason_of_duckdb(problem)}
        if len(expressions) > 1:  # which of them is it?
            failed = {}
            for expression in expressions:
                try:
                    _evaluated(table, [expression])
                except (duckdb.Error, pa.ArrowException, TimeoutError, MemoryError) as problem:
                    failed[expression] = reason_of_duckdb(problem)
        raise ExpressionError.of(failed or dict.fromkeys(expressions, "they cannot be evaluated together"))


def _evaluated(table: pa.Table, expressions: list[str]) -> Evaluated:
    connection = _connection(bounds.megabytes)
    try:
        connection.register("input_rows", table)
        try:
            with bounded(connection):
                return Evaluated(_select(connection, expressions), [0] * len(expressions))
        except duckdb.InterruptException:
            raise
        except duckdb.Error:
            with bounded(connection):
                return _evaluate_carefully(connection, expressions)
        finally:
            connection.unregister("input_rows")
    except duckdb.Error:
        _connection.cache_clear()  # an error inside of DuckDB may have invalidated it
        raise


def _select(connection: duckdb.DuckDBPyConnection, expressions: list[str]) -> list[pa.Array]:
    listed = ", ".join(f"({expression}) AS c{at}" for at, expression in enumerate(expressions))
    result = connection.sql(f"SELECT {listed} FROM input_rows").to_arrow_table()
    return [column.combine_chunks() if column.num_chunks != 1 else column.chunk(0) for column in result.columns]


def _evaluate_carefully(connection: duckdb.DuckDBPyConnection, expressions: list[str]) -> Evaluated:
    # TRY gives NULL where the expression raises; packed in a struct, a NULL that is a value stays distinct. What occurs
    # twice must not be computed once, because that would be outside of TRY.
    connection.execute("SET disabled_optimizers = 'common_subexpressions'")
    try:
        packed = _select(connection, [f"TRY(struct_pack(v := ({expression})))" for expression in expressions])
    finally:
        connection.execute("RESET disabled_optimizers")
    return Evaluated([pc.struct_field(values, [0]) for values in packed], [values.null_count for values in packed])
