"""Random cases through Spark itself: streaming file sources, real tasks, stops and restarts."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
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


def build(spark: SparkSession, case: Case, home: Path, folder: Path) -> Engine:
    engine = Engine(spark, home=home, partitions=case.partitions)
    for stream in case.streams:
        engine.sql(f"{stream.create} '{folder / stream.name}' WITH (maxFilesPerTrigger = 1);")
    for query in case.queries:
        engine.query(query.name, query.sql)
    return engine


@given(case=cases(max_queries=8, max_ticks=4), whole=st.booleans())
@settings(max_examples=8)
def test_random_queries_on_spark_give_the_oracles_results(spark: SparkSession, case: Case, whole: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        middle = case.ticks if whole else case.ticks // 2
        for ticks in (range(middle), range(middle, case.ticks)):
            feed(case, folder / "input", ticks)
            with build(spark, case, folder / "home", folder / "input") as engine:
                engine.run_once()
        for query, expected in oracle_answers(case).items():
            assert stored_answers(folder / "home" / "results" / query) == expected, query
