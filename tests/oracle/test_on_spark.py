"""Random cases through the engine and Spark: all kinds of sources, work in tasks and in the driver, restarts."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.answers import oracle_answers, stored_answers
from tests.oracle.cases import Case, cases
from watersmeet import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def feed(case: Case, folder: Path, ticks: range) -> None:
    """One file a tick and stream; the time of the file is the order in which Spark takes it."""
    for stream in case.streams:
        (folder / stream.name).mkdir(parents=True, exist_ok=True)
        for tick in ticks:
            piece = stream.piece(tick)
            if piece.num_rows:
                path = folder / stream.name / f"{tick:05d}.parquet"
                pq.write_table(piece, path)
                os.utime(path, (1_700_000_000 + tick, 1_700_000_000 + tick))


def build(spark: SparkSession, case: Case, home: Path, folder: Path, files: str, residents: str) -> Engine:
    engine = Engine(spark, home=home, partitions=case.partitions, residents=residents)
    for stream in case.streams:
        engine.sql(f"{stream.create} '{folder / stream.name}{files}' WITH (maxFilesPerTrigger = 1);")
    for query in case.queries:
        engine.query(query.name, query.sql)
    return engine


@pytest.mark.parametrize(
    ("files", "residents"),
    [("", "auto"), ("/*.parquet", "auto"), ("", "0")],
    ids=["resident tasks", "spark's source", "jobs"],
)
@given(case=cases(max_queries=8, max_ticks=4), whole=st.booleans())
@settings(max_examples=4)
def test_random_queries_on_spark_give_the_oracles_results(
    spark: SparkSession, case: Case, whole: bool, files: str, residents: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        middle = case.ticks if whole else case.ticks // 2
        for ticks in (range(middle), range(middle, case.ticks)):
            feed(case, folder / "input", ticks)
            with build(spark, case, folder / "home", folder / "input", files, residents) as engine:
                engine.run_once()
        for query, expected in oracle_answers(case).items():
            assert stored_answers(folder / "home" / "results" / query) == expected, query
