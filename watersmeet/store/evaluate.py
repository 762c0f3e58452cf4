"""Scalar SQL over Arrow data, by an embedded DuckDB: filters, key expressions, computed columns.

A value that cannot be computed (an overflow, a failed conversion) is NULL and counted; it never stops a
tick, because one row must not stop the queries that do not read it. An expression that takes too long, or cannot be
evaluated whatever the row, raises an `ExpressionError`, which names it.
"""

from __future__ import annotations

import atexit
import threading
from dataclasses import dataclass
from functools import lru_cache

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.private_duckdb import connect
from watersmeet.store.guard import End, ExpressionError, bounded, bounds, end_of_time, reason_of_duckdb

# It makes x > -1 of x + 1 > 0, which then no longer overflows.
_REWRITING = "expression_rewriter"
# What these compute once for several places would be computed outside of TRY or of the branch that asks for it.
CAREFUL = f"{_REWRITING},common_subexpressions,in_clause,statistics_propagation,regex_range"
_BROKEN = (
    duckdb.FatalException,
    duckdb.InternalException,
    duckdb.ConnectionException,
    duckdb.OutOfMemoryException,
    MemoryError,
)
_BAD_VALUE = (duckdb.Error, pa.ArrowException, MemoryError)  # what a value may cause


@lru_cache(maxsize=4)  # for two engines with other limits
def _connection(careful: bool, megabytes: int) -> duckdb.DuckDBPyConnection:
    # Threads of Py4J keep modules alive past the end; DuckDB then complains about a connection left behind.
    atexit.register(_connection.cache_clear)
    limit = {"memory_limit": f"{megabytes}MB"} if megabytes else {}
    return connect({"disabled_optimizers": CAREFUL if careful else _REWRITING, **limit})


def close_databases() -> None:
    """Close the databases, to free their memory; the next evaluation opens them again."""
    with _turn:
        _connection.cache_clear()


_turn = threading.Lock()  # an embedded tick and a change of queries may evaluate at the same time


def warm_up() -> None:
    """Load everything that the first evaluation would load."""
    evaluate(pa.table({"x": pa.array([1], pa.int64())}), ["x + 1"])


@dataclass(frozen=True)
class Evaluated:
    """The values of expressions, and on how many rows each raised."""

    values: list[pa.Array]
    failures: list[int]  # for each expression, the rows on which it raised


def evaluate(rows: pa.Table | pa.RecordBatch, expressions: list[str]) -> Evaluated:
    """Compute each expression for each row, in the order of the rows."""
    if not expressions:
        return Evaluated([], [])
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    with _turn:
        try:
            return Evaluated(_select(table, expressions, end_of_time(), careful=False), [0] * len(expressions))
        except TimeoutError as problem:
            if len(expressions) == 1:
                raise ExpressionError.of({expressions[0]: reason_of_duckdb(problem)}) from None
        except _BAD_VALUE:
            pass
        each = []
        failed = {}
        for expression in expressions:
            try:
                each.append(_evaluate_carefully(table, expression, end_of_time()))
            except (*_BAD_VALUE, TimeoutError) as problem:
                failed[expression] = reason_of_duckdb(problem)
        if failed:
            raise ExpressionError.of(failed)
        return Evaluated([values for values, _ in each], [count for _, count in each])


def _select(table: pa.Table, expressions: list[str], end: End, careful: bool) -> list[pa.Array]:
    listed = ", ".join(f"({expression}) AS c{at}" for at, expression in enumerate(expressions))
    try:
        connection = _connection(careful, bounds().expression_megabytes)
        with bounded(connection, end):
            result = connection.from_arrow(table).project(listed).to_arrow_table()
    except _BROKEN:
        _connection.cache_clear()  # such a database answers nothing more, or holds memory that others need
        raise
    return [column.combine_chunks() if column.num_chunks != 1 else column.chunk(0) for column in result.columns]


def _evaluate_carefully(table: pa.Table, expression: str, end: End) -> tuple[pa.Array, int]:
    """The values, NULL where the expression raises, and on how many rows it does."""
    try:
        # TRY gives NULL where the expression raises; packed in a struct, a NULL that is a value stays distinct.
        (packed,) = _select(table, [f"TRY(struct_pack(v := ({expression})))"], end, careful=True)
        return pc.struct_field(packed, [0]), packed.null_count
    except _BAD_VALUE:
        pass  # what was raised holds on to the memory of a database that failed, so that it has to be gone first
    return _evaluate_in_halves(table, expression, end)


def _evaluate_in_halves(table: pa.Table, expression: str, end: End) -> tuple[pa.Array, int]:
    """The values and the number of rows that raise, where TRY does not help: by dividing the rows."""
    try:
        (values,) = _select(table, [expression], end, careful=True)
        return values, 0
    except _BAD_VALUE:
        pass
    if table.num_rows > 1:
        half = table.num_rows // 2
        parts = [_evaluate_in_halves(part, expression, end) for part in (table.slice(0, half), table.slice(half))]
        return pa.concat_arrays([values for values, _ in parts]), sum(failed for _, failed in parts)
    (empty,) = _select(table.slice(0, 0), [expression], end, careful=True)
    return pa.nulls(table.num_rows, empty.type), table.num_rows
