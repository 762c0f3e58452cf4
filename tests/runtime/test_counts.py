"""INTO count: the number of matches of each tick, and no rows."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from watersmeet import Engine

SCRIPT = """
CREATE STREAM r (ts TIMESTAMP, a BIGINT) TIMESTAMP BY ts FROM parquet '{0}/r' WITH (maxFilesPerTrigger = 1);
CREATE STREAM s (ts TIMESTAMP, a BIGINT, n STRING) TIMESTAMP BY ts FROM parquet '{0}/s' WITH (maxFilesPerTrigger = 1);
CREATE QUERY counted INTO count AS SELECT * FROM r, s WHERE r.a = s.a AND s.n <> 'x' WINDOW UNBOUNDED;
CREATE QUERY rows AS SELECT r.a FROM r, s WHERE r.a = s.a AND s.n <> 'x' WINDOW UNBOUNDED;
"""


def test_matches_are_counted_by_tick(spark: SparkSession, tmp_path: Path) -> None:
    for tick, keys in enumerate(([1, 1, 2], [1, 2, 3])):
        times = pa.array([tick * 1_000_000] * 3, pa.timestamp("us", tz="UTC"))
        for name, more in (("r", {}), ("s", {"n": ["x", "y", "z"]})):
            (tmp_path / name).mkdir(exist_ok=True)
            file = tmp_path / name / f"{tick}.parquet"
            pq.write_table(pa.table({"ts": times, "a": keys, **more}), file)
            os.utime(file, (tick, tick))  # Spark reads files in the order of their times
    with Engine(spark, home=tmp_path / "home") as engine:
        counted, rows = engine.sql(SCRIPT.format(tmp_path))
        engine.run_once()
        found = {row.tick: row.matches for row in counted.results().collect()}
        # s keeps (1, y), (2, z), then (2, y), (3, z); r has 1, 1, 2, then 1, 2, 3.
        assert found == {1: 3, 2: 2 + 3}
        assert rows.results().count() == sum(found.values())
        assert engine.stats().queries[0].results == sum(found.values())
        assert not (tmp_path / "home" / "results" / "counted").exists()
