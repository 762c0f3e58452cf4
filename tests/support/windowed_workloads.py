"""All windowed queries of a workload together, without Spark and on it, compared with DuckDB in every window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from bench.workloads.windowed_texts import WindowedText, declarations
from tests.support.declarations import streams_of
from tests.support.parquet_input import write_file
from tests.support.windowed import Asked, WindowedRun, in_windows, plain
from watersmeet import Engine
from watersmeet.model.forms import WindowSql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = dict[str, pa.Table]  # by stream


def run_without_spark(
    home: Path, workload: str, queries: dict[str, WindowedText], ticks: Sequence[Rows], partitions: int
) -> None:
    """Those that are made of slices, with a restart and a death."""
    run = WindowedRun(home, declarations(workload), partitions, tasks=2)
    for name, each in queries.items():
        if not isinstance(each.query.form, WindowSql):
            run.add(name, Asked(each.sql, each.duckdb))
    assert run.lives
    for number, rows in enumerate(ticks):
        run.tick(rows, "manifest.draft" if number == 3 else "")
        if number == 1:
            run.restart()
    run.check()
    run.flush()
    run.check()
    for name, life in run.lives.items():
        assert says_something(run.found(name, life.query)), name


def run_on_spark(
    spark: SparkSession,
    folder: Path,
    workload: str,
    queries: dict[str, WindowedText],
    ticks: Sequence[Rows],
    partitions: int,
) -> None:
    """All of them, with a restart."""
    source, home = folder / "input", folder / "home"
    for name in ticks[0]:
        (source / name).mkdir(parents=True)

    def started() -> Engine:
        engine = Engine(spark, home=home, partitions=partitions)
        engine.sql(declarations(workload, source))
        for name, each in queries.items():
            engine.query(name, each.sql)
        return engine

    engine = started()
    for number, rows in enumerate(ticks):
        for name, piece in rows.items():
            if piece.num_rows:
                write_file(source / name, number, piece)
        if number == len(ticks) // 2:
            engine.stop()
            engine = started()
        engine.run_once(flush=number == len(ticks) - 1)
        assert engine.newest.suspended == {}
    whole = {name: pa.concat_tables([rows[name] for rows in ticks]) for name in ticks[0]}
    times = {name: stream.time for name, stream in streams_of(declarations(workload)).items()}
    for name, each in queries.items():
        read = {stream: whole[stream] for stream in each.query.streams}
        expected = in_windows(each.query.grid, each.duckdb, read, 1 << 60, time=times[each.query.streams[0]])
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            found = connection.sql(f"SELECT * FROM read_parquet('{home}/results/{name}/*.parquet')").fetchall()
        assert Counter(map(plain, found)) == expected, name
        assert says_something(expected), name
    engine.stop()


def says_something(rows: Iterable[tuple[object, ...]]) -> bool:
    """A global aggregate over no rows gives a row of NULLs."""
    return any(value is not None for row in rows for value in row)
