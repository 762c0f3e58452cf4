"""A window that takes too long suspends its query alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from tests.support.parquet_input import write_file
from watersmeet import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 4000


def test_a_window_that_takes_too_long(spark: SparkSession, tmp_path: Path) -> None:
    numbers = pa.array(range(ROWS), pa.int64())
    write_file(tmp_path / "r", 0, pa.table({"ts": numbers.cast(pa.timestamp("us", "UTC")), "v": numbers}))
    engine = Engine(spark, home=tmp_path / "home", window_seconds=0.01)
    engine.sql(f"CREATE STREAM r (ts TIMESTAMP, v BIGINT) TIMESTAMP BY ts FROM parquet '{tmp_path / 'r'}'")
    # Sixteen million pairs, each with a key of its own.
    engine.query(
        "slow",
        "SELECT count(DISTINCT concat(x.v, '-', y.v)) AS n FROM r [TUMBLE 1 SECOND] x CROSS JOIN r [TUMBLE 1 SECOND] y",
    )
    engine.query("fast", "SELECT count(*) AS n FROM r [TUMBLE 1 SECOND]")
    engine.run_once(flush=True)
    assert "option window_seconds" in engine.newest.suspended["slow"].reason
    assert list(engine.newest.suspended) == ["slow"]
    assert [row.n for row in engine["fast"].results().collect()] == [ROWS]
    assert engine["slow"].results().count() == 0
    engine.stop()
