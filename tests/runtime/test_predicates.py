"""Joins by other than equalities on Spark: the code of a registered predicate travels to the workers."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from watersmeet import Engine

SCRIPT = """
CREATE STREAM r (ts TIMESTAMP, x BIGINT) TIMESTAMP BY ts FROM parquet '{0}/r' WITH (maxFilesPerTrigger = 1);
CREATE STREAM s (ts TIMESTAMP, x BIGINT) TIMESTAMP BY ts FROM parquet '{0}/s' WITH (maxFilesPerTrigger = 1);
CREATE STREAM t (ts TIMESTAMP, x BIGINT) TIMESTAMP BY ts FROM parquet '{0}/t' WITH (maxFilesPerTrigger = 1);
"""
FROM = "SELECT r.x AS a, s.x AS b, t.x AS c FROM r, s, t WHERE {} WINDOW UNBOUNDED"


def is_close(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.abs(left - right) <= 2


def breaks(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    raise ValueError("not today")


@pytest.mark.parametrize("partitions", [1, 3])
def test_bands_scans_and_registered_predicates(spark: SparkSession, tmp_path: Path, partitions: int) -> None:
    rng = np.random.default_rng(4)
    values = {name: rng.integers(0, 40, 60) for name in "rst"}
    for name, numbers in values.items():
        (tmp_path / name).mkdir()
        for tick, part in enumerate(np.split(numbers, 3)):
            times = pa.array(np.full(len(part), tick * 1_000_000), pa.timestamp("us", tz="UTC"))
            file = tmp_path / name / f"{tick}.parquet"
            pq.write_table(pa.table({"ts": times, "x": part}), file)
            os.utime(file, (tick, tick))  # Spark reads files in the order of their times
    with Engine(spark, home=tmp_path / "home", partitions=partitions) as engine:
        engine.sql(SCRIPT.format(tmp_path))
        engine.predicate("is_close", is_close)
        engine.predicate("breaks", breaks)
        mixed = engine.query("mixed", FROM.format("r.x = s.x AND abs(s.x - t.x) <= 1"))
        scanned = engine.query("scanned", FROM.format("r.x BETWEEN s.x AND s.x + 1 AND s.x * t.x < 30"))
        own = engine.query("own", FROM.format("r.x = s.x AND is_close(s.x, t.x)"))
        broken = engine.query("broken", FROM.format("r.x = s.x AND breaks(s.x, t.x)"))
        engine.run_once()
        every = [tuple(map(int, row)) for row in product(*values.values())]
        wanted = {
            mixed: [(a, b, c) for a, b, c in every if a == b and abs(b - c) <= 1],
            scanned: [(a, b, c) for a, b, c in every if b <= a <= b + 1 and b * c < 30],
            own: [(a, b, c) for a, b, c in every if a == b and abs(b - c) <= 2],
            broken: [],
        }
        for query, rows in wanted.items():
            assert sorted(tuple(row) for row in query.results().collect()) == sorted(rows), query.name
        assert "not today" in engine.complaints()["breaks"]
