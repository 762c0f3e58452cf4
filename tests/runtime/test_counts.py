"""INTO count: the number of matches of each tick, and no rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from tests.support.parquet_input import seconds_after_epoch, write_file
from watersmeet import Engine

SCRIPT = """
CREATE STREAM r (ts TIMESTAMP, a BIGINT) TIMESTAMP BY ts FROM parquet '{0}/r' WITH (maxFilesPerTrigger = 1);
CREATE STREAM s (ts TIMESTAMP, a BIGINT, n STRING) TIMESTAMP BY ts FROM parquet '{0}/s' WITH (maxFilesPerTrigger = 1);
CREATE QUERY counted INTO count AS SELECT * FROM r, s WHERE r.a = s.a AND s.n <> 'x' WINDOW UNBOUNDED;
CREATE QUERY rows AS SELECT r.a FROM r, s WHERE r.a = s.a AND s.n <> 'x' WINDOW UNBOUNDED;
"""


def test_matches_are_counted_by_tick(spark: SparkSession, tmp_path: Path) -> None:
    for tick, keys in enumerate(([1, 1, 2], [1, 2, 3])):
        rows = pa.table({"ts": seconds_after_epoch([tick] * 3), "a": keys})
        write_file(tmp_path / "r", tick, rows)
        write_file(tmp_path / "s", tick, rows.append_column("n", pa.array(["x", "y", "z"])))
    with Engine(spark, home=tmp_path / "home") as engine:
        counted, rows = engine.sql(SCRIPT.format(tmp_path))
        engine.run_once()
        found = {row.tick: row.matches for row in counted.results().collect()}
        # s keeps (1, y), (2, z), then (2, y), (3, z); r has 1, 1, 2, then 1, 2, 3.
        assert found == {1: 3, 2: 2 + 3}
        assert rows.results().count() == sum(found.values())
        assert engine.stats().queries[0].results == sum(found.values())
        assert not (tmp_path / "home" / "results" / "counted").exists()
