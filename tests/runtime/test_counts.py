"""INTO count: the number of matches of each tick, and no rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
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


def test_windows_of_several_queries_are_counted_each_for_itself(tmp_path: Path) -> None:
    """One task answers all of them, in one folder."""
    rows = pa.table({"ts": seconds_after_epoch(range(20)), "a": [at % 4 for at in range(20)]})
    write_file(tmp_path / "r", 0, rows)
    script = f"""
    CREATE STREAM r (ts TIMESTAMP, a BIGINT) TIMESTAMP BY ts FROM parquet '{tmp_path}/r';
    CREATE QUERY by_key INTO count AS SELECT window_end, a, count(*) AS n FROM r [TUMBLE 10 SECONDS] GROUP BY a;
    CREATE QUERY all_keys INTO count AS SELECT window_end, count(*) AS n FROM r [TUMBLE 5 SECONDS];
    CREATE QUERY even INTO count AS SELECT window_end, a, max(a) AS m FROM r [TUMBLE 5 SECONDS]
        WHERE a % 2 = 0 GROUP BY a;
    """
    with Engine(home=tmp_path / "home", executor="local") as engine:
        engine.sql(script)
        engine.run_once(flush=True)
        told = {query.name: query.results for query in engine.stats().queries}
    counted: Counter[str] = Counter()
    for file in (tmp_path / "home" / "counts").glob("*.parquet"):
        for row in pq.read_table(file).to_pylist():
            counted[row["query"]] += row["matches"]
    assert counted == told == {"by_key": 8, "all_keys": 4, "even": 8}
