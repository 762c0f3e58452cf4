"""A loop that joins the new rows of each tick with DuckDB: what a user writes by hand in an hour.

One thread, a table for the rows of each stream and tick, a file of results for each query and tick. A result is found
when its last member arrives: the new rows of one alias are joined with the old rows of those before it, and with all
rows of those behind it. Nothing is shared between queries, and nothing survives the end of the process.
"""

from __future__ import annotations

import tempfile
import time
from collections import deque
from pathlib import Path

import duckdb

from bench.workloads.model import MICROS, Outcome, Query, Workload
from bench.workloads.texts import duckdb_conditions, named

_Tables = dict[str, deque[tuple[str, int]]]  # by stream: tables of its ticks, each with its newest event time


def run(workload: Workload, skip: int) -> Outcome:
    connection = duckdb.connect()
    connection.execute("SET threads = 1; SET TimeZone = 'UTC'; SET preserve_insertion_order = false")
    tables: _Tables = {name: deque() for name in sorted(workload.used())}
    results = dict.fromkeys((query.name for query in workload.queries), 0)
    ended = []
    with tempfile.TemporaryDirectory(dir=Path(workload.folder).parent) as out:
        for tick in range(workload.ticks):
            for name in tables:
                _read(connection, workload, name, tick)
                _name_views(connection, name, tick, tables[name])
            for query in workload.queries:
                results[query.name] += _answer(connection, query, f"{out}/{query.name}-{tick:06d}.parquet")
            for name, known in tables.items():
                _keep(connection, workload, name, tick, known)
            ended.append(time.time())
    spans = [(ended[skip - 1], ended[-1])]
    return Outcome(
        seconds=ended[-1] - ended[skip - 1], spans=spans, skipped=skip, results=results, state_bytes=None, parts={}
    )


def _read(connection: duckdb.DuckDBPyConnection, workload: Workload, name: str, tick: int) -> None:
    file = f"{workload.folder}/{name}/{tick:06d}.parquet"
    connection.execute(f"CREATE TABLE {name}_{tick} AS FROM '{file}'")


def _name_views(connection: duckdb.DuckDBPyConnection, name: str, tick: int, known: deque[tuple[str, int]]) -> None:
    new = f"FROM {name}_{tick}"
    old = " UNION ALL ".join(f"FROM {table}" for table, _ in known) or f"{new} WHERE false"
    for kind, body in (("new", new), ("old", old), ("all", f"{old} UNION ALL {new}")):
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {kind}_{name} AS {body}")


def _answer(connection: duckdb.DuckDBPyConnection, query: Query, file: str) -> int:
    parts = []
    for at in range(len(query.tables)):
        kinds = ["old"] * at + ["new"] + ["all"] * (len(query.tables) - at - 1)
        sources = ", ".join(
            f"{kind}_{table.stream} AS {table.alias}" for kind, table in zip(kinds, query.tables, strict=True)
        )
        parts.append(f"SELECT {', '.join(map(named, query.columns))} FROM {sources} {duckdb_conditions(query)}")
    written = connection.execute(f"COPY ({' UNION ALL '.join(parts)}) TO '{file}' (FORMAT parquet)").fetchone()
    return int(written[0]) if written else 0


def _keep(
    connection: duckdb.DuckDBPyConnection, workload: Workload, name: str, tick: int, known: deque[tuple[str, int]]
) -> None:
    """Keep the rows of a tick, and drop those that no window reaches any more."""
    found = connection.execute(f"SELECT coalesce(max(epoch_us(ts)), 0) FROM {name}_{tick}").fetchone()
    newest = int(found[0]) if found else 0
    known.append((f"{name}_{tick}", newest))
    windows = [table.seconds for query in workload.queries for table in query.tables if table.stream == name]
    if None in windows:
        return
    longest = max(each for each in windows if each is not None) * MICROS
    while known[0][1] < newest - longest:
        connection.execute(f"DROP TABLE {known.popleft()[0]}")
