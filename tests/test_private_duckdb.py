"""No text of a query reads a file or changes the settings of the DuckDB that evaluates it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from watersmeet.errors import WatersmeetError
from watersmeet.pipeline import Pipeline
from watersmeet.private_duckdb import connect
from watersmeet.store.evaluate import evaluate

STREAM = "CREATE STREAM s (a STRING, at TIMESTAMP) TIMESTAMP BY at FROM parquet 's';"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.csv"
    path.write_text("the password\n")
    return path


def reading(path: Path) -> str:
    return f"json_serialize_plan('select * from read_csv(''{path}'', skip=0, columns={{''x'': ''INT''}})')"


def test_a_connection_reads_no_file_and_stays_so(secret: Path) -> None:
    connection = connect()
    for text in (f"FROM read_text('{secret}')", "SET enable_external_access = true", "SET threads = 8"):
        with pytest.raises(duckdb.Error):
            connection.execute(text)


def test_the_check_of_a_query_reads_no_file(secret: Path) -> None:
    pipeline = Pipeline.read(STREAM)
    try:
        pipeline.query("q", f"SELECT {reading(secret)} AS x FROM s WINDOW 1 SECOND")
    except WatersmeetError as problem:
        assert "password" not in str(problem)


def test_an_evaluation_reads_no_file_named_in_a_row(secret: Path) -> None:
    rows = pa.table({"a": [f"select * from read_text('{secret}')"]})
    try:
        found = evaluate(rows, ["json_serialize_plan(a)"]).values[0].to_pylist()
    except WatersmeetError as problem:
        found = [str(problem)]
    assert "password" not in str(found)


def test_a_part_that_fails_and_occurs_twice_fails_for_its_row_only() -> None:
    rows = pa.table({"x": pa.array([3, 2**62], pa.int64())})
    done = evaluate(rows, ["x * x > 5 OR x * x < 2", "x + 1"])
    assert done.values[0].to_pylist() == [True, None]
    assert done.failures == [1, 0]
