"""Random cases through the engine and Spark: all kinds of sources, work in tasks and in the driver, restarts."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.answers import check_answers
from tests.support.case_engine import engine_for, write_input
from tests.support.cases import Case, cases
from tests.support.examples import examples
from tests.support.leaf_cases import leaf_cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("files", "residents"),
    [("", "auto"), ("/*.parquet", "auto"), ("", "0")],
    ids=["resident tasks", "spark's source", "jobs"],
)
@given(case=st.one_of(cases(max_queries=8, max_ticks=4), leaf_cases(max_ticks=4)), whole=st.booleans())
@settings(max_examples=examples(6))
def test_random_queries_on_spark_give_the_oracles_results(
    spark: SparkSession, case: Case, whole: bool, files: str, residents: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        middle = case.ticks if whole else case.ticks // 2
        for ticks in (range(middle), range(middle, case.ticks)):
            write_input(case, folder / "input", ticks)
            with engine_for(case, spark, folder / "home", folder / "input", files, residents) as engine:
                engine.run_once()
        check_answers(case, folder / "home")
