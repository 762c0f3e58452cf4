"""Windows with more keys than fit into a task's memory are made in pieces. A query whose keys cannot be divided is
suspended alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from tests.support.parquet_input import write_file
from watersmeet import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES, ROWS = 6, 100_000
WINDOW = "[TUMBLE 60 SECONDS]"
QUERIES = {
    "persons": f"SELECT person, count(*) AS n, sum(v) AS s FROM r {WINDOW} GROUP BY person HAVING count(*) > 1",
    "first": f"SELECT person, sum(v) AS s FROM r {WINDOW} GROUP BY person ORDER BY s DESC, person LIMIT 5",
    "few": f"SELECT k, count(*) AS n, max(v) AS m FROM r {WINDOW} GROUP BY k",
    "joined": f"SELECT x.k, count(*) AS n, sum(y.v) AS s FROM r {WINDOW} x JOIN r {WINDOW} y ON x.person = y.person "
    "GROUP BY x.k",
}
HOT = f"SELECT count(DISTINCT concat(repeat('longer ', 100), person)) AS n FROM r {WINDOW}"


@pytest.mark.thorough
def test_more_keys_than_fit(spark: SparkSession, tmp_path: Path) -> None:
    chance = np.random.default_rng(1)
    written = []
    for file in range(FILES):
        seconds = np.sort(chance.integers(10 * file, 10 * file + 10, ROWS))
        table = pa.table(
            {
                "ts": pa.array(seconds * 1_000_000, pa.timestamp("us", "UTC")),
                "person": chance.integers(0, 10**6, ROWS),
                "k": (seconds % 7).astype(np.int32),
                "v": chance.integers(0, 1000, ROWS),
            }
        )
        write_file(tmp_path / "r", file, table)
        written.append(table)
    engine = Engine(spark, home=tmp_path / "home", task_memory=600)
    engine.sql(
        "CREATE STREAM r (ts TIMESTAMP, person BIGINT, k INT, v BIGINT) TIMESTAMP BY ts "
        f"FROM parquet '{tmp_path / 'r'}' WITH (maxFilesPerTrigger = 1)"
    )
    for name, sql in QUERIES.items():
        engine.query(name, sql)
    engine.query("hot", HOT)
    engine.run_once(flush=True)
    suspended = {name: one.reason for name, one in engine.newest.suspended.items()}
    assert suspended.keys() == {"hot"}, suspended
    assert "task_memory" in suspended["hot"]
    with duckdb.connect() as oracle:
        oracle.register("r", pa.concat_tables(written))
        for name, sql in QUERIES.items():
            found = f"SELECT * FROM read_parquet('{engine.home}/results/{name}/*.parquet')"
            expected = sql.replace(WINDOW, "")
            for one, other in ((found, expected), (expected, found)):
                assert oracle.execute(f"(({one}) EXCEPT ALL ({other}))").fetchall() == [], name
    engine.stop()
