"""Windows of every class on Spark, beside a continuous query: tasks aggregate, Spark computes, tasks write."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest

from tests.oracle.windowed.queries import declaration, rows
from tests.support.parquet_input import write_file
from tests.support.windowed import SECOND, in_windows, plain
from watersmeet import Engine
from watersmeet.model.forms import FactorizedAggregates, PairRows, SliceAggregates, TaskSql, WindowSql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WINDOW = "[TUMBLE 20 SECONDS]"
QUERIES = {
    "by_key": ("SELECT window_start, k, count(*) AS n, sum(v) AS s FROM r {w} GROUP BY k", SliceAggregates),
    "joined": (
        "SELECT window_start, x.k, count(*) AS n, max(y.w) AS m FROM r {w} x JOIN t {w} y ON x.k = y.k GROUP BY x.k",
        FactorizedAggregates,
    ),
    "distinct_values": ("SELECT window_start, k, count(DISTINCT v) AS n FROM r {w} GROUP BY k", SliceAggregates),
    "middle": (
        "SELECT window_start, k, CAST(median(v) AS DOUBLE) AS n, "
        # a sum that overflows in Spark's own order, with the constant last
        "CAST(median((3 + (v * 0 - 2)) + (v * 0 - 2147483647)) AS DOUBLE) AS as_written FROM r {w} GROUP BY k",
        WindowSql,
    ),
    "without_partner": (
        "SELECT window_start, x.k, x.s, y.w FROM r {w} x LEFT JOIN t {w} y ON x.k = y.k AND y.w > 0",
        TaskSql,
    ),
    "rows": ("SELECT window_start, x.s, y.w, x.v + y.w AS n FROM r {w} x JOIN t {w} y ON x.k = y.k", PairRows),
    "best": ("SELECT window_end, s, d FROM r {w} WHERE d = (SELECT max(d) FROM r {w})", TaskSql),
}


def engine_on(spark: SparkSession, home: Path, source: Path, partitions: int) -> Engine:
    engine = Engine(spark, home=home, partitions=partitions)
    engine.sql(declaration(3, folder=source))
    for name, (text, _) in QUERIES.items():
        engine.query(name, text.format(w=WINDOW))
    engine.query("pairs", "SELECT x.v, y.w FROM r [RANGE 5 SECONDS] x JOIN t [RANGE 5 SECONDS] y ON x.k = y.k")
    return engine


@pytest.mark.parametrize("partitions", [pytest.param(1, marks=pytest.mark.thorough), 3])
def test_all_classes_together(spark: SparkSession, tmp_path: Path, partitions: int) -> None:
    random, source, home = Random(partitions), tmp_path / "input", tmp_path / "home"
    for name in ("r", "t"):
        (source / name).mkdir(parents=True)
    arrived: dict[str, list[pa.Table]] = {"r": [], "t": []}
    engine = engine_on(spark, home, source, partitions)
    for query in engine.queries:
        if query.name in QUERIES:
            assert query.query.is_windowed
            assert isinstance(query.query.form, QUERIES[query.name][1]), query.query.form.kind
    for tick in range(4):
        for name, tables in arrived.items():
            piece = pa.concat_tables(rows(random, name, tick * 9, 1) for _ in range(3))
            tables.append(piece)
            if piece.num_rows:
                write_file(source / name, tick, piece)
        if tick == 2:
            engine.stop()
            engine = engine_on(spark, home, source, partitions)
        engine.run_once()
        assert engine.newest.suspended == {}
    check(engine, home, arrived, until=min(engine.newest.newest.values()) - 3 * SECOND)
    engine.run_once(flush=True)
    check(engine, home, arrived, until=1 << 60)
    joined = min(engine.newest.newest.values()) - 23 * SECOND  # may still find partners: windows and lateness
    for bucket in engine.newest.buckets:
        assert bucket.alive_until >= (joined if bucket.store in arrived else 20 * SECOND)
    engine.stop()


def check(engine: Engine, home: Path, arrived: dict[str, list[pa.Table]], until: int) -> None:
    tables = {name: pa.concat_tables(pieces) for name, pieces in arrived.items()}
    for name, (text, _) in QUERIES.items():
        query = engine[name].query
        assert query.is_windowed
        asked = text.format(w="").replace("window_start", "{start}").replace("window_end", "{end}")
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            found = connection.sql(f"SELECT * FROM read_parquet('{home}/results/{name}/*.parquet')").fetchall()
        read = {stream: tables[stream] for stream in query.streams}
        assert Counter(map(plain, found)) == in_windows(query.grid, asked, read, until), name
