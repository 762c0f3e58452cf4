"""Nexmark's windowed queries, around midnight, so that those over days have two: each equals DuckDB in every window."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.workloads.windowed_texts import windowed_texts
from tests.support.windowed import SECOND
from tests.support.windowed_workloads import Rows, run_on_spark, run_without_spark
from watersmeet.cli.demo.events import AuctionSite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIDNIGHT = 20_454 * 86_400 * SECOND
RATE = 60  # events per second


def ticks(seconds: int, *lengths: int) -> list[Rows]:
    """Events that begin some seconds before midnight, in ticks with as many events."""
    site = AuctionSite(MIDNIGHT - seconds * SECOND, RATE)
    bounds = [sum(lengths[:at]) for at in range(len(lengths) + 1)]
    return [site.tables(begin, end) for begin, end in pairwise(bounds)]


@pytest.mark.parametrize("partitions", [1, 3])
def test_without_spark(tmp_path: Path, partitions: int) -> None:
    rows = ticks(25, 500, 100, 900, 700, 800)
    run_without_spark(tmp_path / "home", "nexmark", windowed_texts("nexmark"), rows, partitions)


@pytest.mark.thorough
@pytest.mark.parametrize("partitions", [1, 3])
def test_on_spark(spark: SparkSession, tmp_path: Path, partitions: int) -> None:
    run_on_spark(spark, tmp_path, "nexmark", windowed_texts("nexmark"), ticks(6, 300, 400), partitions)
