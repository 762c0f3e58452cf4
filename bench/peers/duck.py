"""DuckDB: one batch over the finite input. It is the judge of all counts, and the limit of what a join can do here."""

from __future__ import annotations

import time

import duckdb

from bench.workloads.model import Outcome, Workload
from bench.workloads.texts import duckdb_count


def connect(workload: Workload, ticks: int | None = None) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for stream in workload.streams:
        files = [f"{workload.folder}/{stream.name}/{tick:06d}.parquet" for tick in range(ticks or workload.ticks)]
        connection.execute(f"CREATE VIEW {stream.name} AS FROM read_parquet({files})")
    return connection


def counts(workload: Workload, ticks: int) -> dict[str, int]:
    """The number of results of each query over the first ticks."""
    connection = connect(workload, ticks)
    found = {query.name: connection.execute(duckdb_count(query)).fetchone() for query in workload.queries}
    return {name: row[0] for name, row in found.items() if row}


def run(workload: Workload) -> Outcome:
    connect(workload, 1).execute(duckdb_count(workload.queries[0])).fetchone()  # the first use loads the program
    began = time.time()
    results = counts(workload, workload.ticks)
    ended = time.time()
    return Outcome(
        seconds=ended - began, spans=[(began, ended)], skipped=0, results=results, state_bytes=None, parts={}
    )
