"""The fourteen queries of TPC-H that SASPAR runs, all in one engine: each equals DuckDB in every window."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bench.windows.tpch_rows import Sizes, by_tick, tables
from bench.workloads.windowed_texts import windowed_texts
from tests.support.windowed import SECOND
from tests.support.windowed_workloads import Rows, run_on_spark, run_without_spark
from watersmeet.windows.sql import spark as spark_windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = 3600 * SECOND
SIZES = Sizes.of(HOUR, HOUR // 4, 150)


def ticks(seed: int, count: int) -> list[Rows]:
    """Rows of two hours, with NULLs, in ticks of different lengths."""
    random = Random(seed)
    bounds = sorted(random.sample(range(1, 2 * HOUR), count - 1))
    rows = {name: with_nulls(random, table) for name, table in tables(SIZES, 0, 2 * HOUR, seed).items()}
    return list(by_tick(rows, [0, *bounds, 2 * HOUR]))


def with_nulls(random: Random, table: pa.Table) -> pa.Table:
    """Some values of every column but the event time are missing."""
    for at, name in enumerate(table.column_names):
        if name != "ts":
            missing = pa.array([random.random() < 0.01 for _ in range(table.num_rows)])
            values = pc.if_else(missing, pa.scalar(None, table.column(at).type), table.column(at))
            table = table.set_column(at, name, values)
    return table


@pytest.mark.parametrize("partitions", [pytest.param(1, marks=pytest.mark.thorough), 3])
def test_without_spark(tmp_path: Path, partitions: int) -> None:
    queries = windowed_texts("tpch", "1 HOUR SLIDE 15 MINUTES")
    assert len(queries) == 14
    run_without_spark(tmp_path / "home", "tpch", queries, ticks(partitions, 6), partitions)


@pytest.mark.thorough
@pytest.mark.parametrize(("partitions", "few"), [(1, spark_windows.FEW_ROWS), (3, 0)])
def test_on_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int, few: int
) -> None:
    """Windows of few rows are not divided, others are."""
    monkeypatch.setattr(spark_windows, "FEW_ROWS", few)
    run_on_spark(spark, tmp_path, "tpch", windowed_texts("tpch", "TUMBLE 1 HOUR"), ticks(partitions, 3), partitions)
