"""Input that Spark reads and that is not as declared, and paths and times that Spark would take otherwise."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from tests.support.parquet_input import EPOCH, TIMESTAMP, damaged
from watersmeet import Engine
from watersmeet.errors import InputError, WatersmeetError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "(ts TIMESTAMP, id BIGINT, n STRING)"


def engine_reading(spark: SparkSession, folder: Path, kind: str, options: str = "", files: str = "") -> Engine:
    (folder / "x").mkdir(parents=True, exist_ok=True)
    engine = Engine(spark, home=folder / "home")
    engine.sql(f"CREATE STREAM x {COLUMNS} TIMESTAMP BY ts LATENESS 1 DAY FROM {kind} '{folder}/x{files}' {options};")
    engine.query("q", "SELECT x.id, x.n, x.ts FROM x WINDOW 1 SECOND")
    return engine


def rows(engine: Engine) -> list[tuple[object, ...]]:
    return sorted((row.id, row.n) for row in engine["q"].results().collect())


def aside(engine: Engine) -> dict[str, int]:
    return dict(engine.stats().streams[0].set_aside)


def test_a_file_read_by_spark_with_a_column_that_spark_converts_is_rejected(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "x").mkdir()
    engine = Engine(spark, home=tmp_path / "home")
    engine.sql(f"CREATE STREAM x (ts TIMESTAMP, v DOUBLE) TIMESTAMP BY ts FROM parquet '{tmp_path}/x/*.parquet';")
    engine.query("q", "SELECT x.v FROM x WINDOW 1 SECOND")
    pq.write_table(
        pa.table({"ts": pa.array([EPOCH], TIMESTAMP), "v": pa.array([1], pa.int32())}), tmp_path / "x/1.parquet"
    )
    with pytest.raises(InputError, match=r"1.parquet has v as INT; the stream declares DOUBLE\nHint: .*move it away"):
        engine.run_once()


def test_a_file_read_by_spark_that_is_damaged_inside_stops_the_tick(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    engine = Engine(spark, home=tmp_path / "home")
    engine.sql(f"CREATE STREAM x (ts TIMESTAMP, v BIGINT) TIMESTAMP BY ts FROM parquet '{tmp_path}/x/*.parquet';")
    engine.query("q", "SELECT x.v FROM x WINDOW 1 SECOND")
    path = tmp_path / "x/1.parquet"
    values = pa.table({"ts": pa.array([EPOCH] * 20_000, TIMESTAMP), "v": pa.array(range(20_000))})
    pq.write_table(values, path, row_group_size=5000, use_dictionary=False)
    good = path.read_bytes()
    path.write_bytes(damaged(good))
    with pytest.raises(WatersmeetError, match=r"1\.parquet"):
        engine.run_once()
    path.write_bytes(good)
    with engine:
        engine.run_once()
        assert engine["q"].results().count() == 20_000


def test_csv_columns_are_assigned_by_position(spark: SparkSession, tmp_path: Path) -> None:
    engine = engine_reading(spark, tmp_path, "csv", "WITH (header = true)")
    lines = ["a,b,c", "2026-01-01T00:00:01Z,1,one", "2026-01-01T00:00:02Z,2", "2026-01-01T00:00:03Z,3,three,more"]
    (tmp_path / "x/1.csv").write_text("\n".join(lines) + "\n")
    with engine:
        engine.run_once()
        assert rows(engine) == [(1, "one")]
        assert aside(engine) == {"unreadable": 2}


def test_a_csv_header_with_other_names_stops_the_tick_if_the_schema_is_not_enforced(
    spark: SparkSession, tmp_path: Path
) -> None:
    engine = engine_reading(spark, tmp_path, "csv", "WITH (header = true, enforceSchema = false)")
    (tmp_path / "x/1.csv").write_text("ts,n,id\n2026-01-01T00:00:01Z,one,1\n")
    with pytest.raises(WatersmeetError):
        engine.run_once()


@pytest.mark.parametrize("kind", ["json", "xml", "orc"])
def test_a_column_that_is_missing_in_json_xml_or_orc_is_null(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    engine = engine_reading(spark, tmp_path, kind, "WITH (rowTag = 'row')" if kind == "xml" else "")
    path = tmp_path / f"x/1.{kind}"
    if kind == "json":
        path.write_text('{"ts":"2026-01-01T00:00:01Z","id":1}\n')
        path.with_name("2.json").write_text('{"id":2,"n":"two"}\n')
    elif kind == "xml":
        path.write_text("<rows><row><ts>2026-01-01T00:00:01Z</ts><id>1</id></row></rows>")
        path.with_name("2.xml").write_text("<rows><row><id>2</id><n>two</n></row></rows>")
    else:
        pa.orc.write_table(pa.table({"ts": pa.array([EPOCH], TIMESTAMP), "id": [1]}), path)
        pa.orc.write_table(pa.table({"id": [2], "n": ["two"]}), path.with_name("2.orc"))
    with engine:
        engine.run_once()
        assert rows(engine) == [(1, None)]
        assert aside(engine) == {"no event time": 1}


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_a_pipe_in_a_folder_that_spark_reads_is_rejected_unopened(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    engine = engine_reading(spark, tmp_path, kind, "WITH (recursiveFileLookup = true)")
    os.mkfifo(tmp_path / f"x/1.{kind}")
    with pytest.raises(InputError, match=rf"1\.{kind} is not a regular file\nHint: put an empty file in its place"):
        engine.run_once()
    (tmp_path / f"x/1.{kind}").unlink()
    (tmp_path / f"x/1.{kind}").touch()
    with engine:
        engine.run_once()
        assert rows(engine) == []


@pytest.mark.parametrize("special", ["a[1]", "{b,c}", "what?", "star*"])
def test_a_folder_with_special_characters_that_spark_reads_is_a_folder(
    spark: SparkSession, tmp_path: Path, special: str
) -> None:
    folder = tmp_path / special
    engine = engine_reading(spark, folder, "json")
    engine.query("out", "SELECT x.id FROM x WINDOW 1 SECOND")
    for number in (1, 2):
        (folder / f"x/{number}.json").write_text(f'{{"ts":"2026-01-01T00:00:0{number}Z","id":{number},"n":"a"}}\n')
        with engine:
            engine.run_once()
            assert rows(engine) == [(each, "a") for each in range(1, number + 1)]


def test_a_pattern_in_a_folder_that_does_not_exist_is_named(spark: SparkSession, tmp_path: Path) -> None:
    engine = engine_reading(spark, tmp_path, "json", files="/nowhere[1]/*.json")
    with pytest.raises(InputError, match=r"nowhere.* does not exist"):
        engine_reading(spark, tmp_path / "other", "json", files="/nowhere/*.json").run_once()
    with engine:
        engine.run_once()  # files that match may come


@contextmanager
def time_zone(spark: SparkSession, zone: str) -> Iterator[None]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")


@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
@pytest.mark.parametrize("zone", ["UTC", "GMT"])
def test_times_are_the_same_in_input_and_results(spark: SparkSession, tmp_path: Path, kind: str, zone: str) -> None:
    """A time without an offset is one of UTC, as it is for Spark; one with an offset is what it says."""
    (tmp_path / "x").mkdir()
    with time_zone(spark, zone):
        engine = Engine(spark, home=tmp_path / "home")
        engine.sql(
            "CREATE STREAM x (ts TIMESTAMP, local TIMESTAMP_NTZ, id BIGINT) TIMESTAMP BY ts LATENESS 10 DAYS "
            f"FROM json '{tmp_path}/x';"
        )
        engine.sql(f"CREATE QUERY q INTO {kind} '{tmp_path}/out' AS SELECT x.id, x.ts, x.local FROM x WINDOW 1 DAY;")
        (tmp_path / "x/1.json").write_text(
            '{"id":1,"ts":"2026-01-01 12:00:00","local":"2026-01-01 12:00:00"}\n'
            '{"id":2,"ts":"2026-01-01T12:00:00.25Z","local":"2026-01-01T12:00:00.25"}\n'
            '{"id":3,"ts":"2026-01-01T12:00:00+03:00","local":"2026-07-01T00:00:00"}\n'
        )
        expected = spark.read.schema("id bigint, ts timestamp, local timestamp_ntz").json(f"{tmp_path}/x")
        delivered: list[tuple[object, ...]] = []
        engine["q"].foreach_tick(lambda frame, tick: delivered.extend(map(tuple, seconds(frame))))
        with engine:
            engine.run_once()
            assert seconds(engine["q"].results()) == seconds(expected) == sorted(delivered)
    noon = int((EPOCH + timedelta(hours=12) - datetime(1970, 1, 1)).total_seconds())
    assert {row[0]: row[1] for row in delivered} == {1: noon, 2: noon + 0.25, 3: noon - 3 * 3600}


def seconds(frame: object) -> list[tuple[object, ...]]:
    made = frame.selectExpr("id", "CAST(ts AS DOUBLE) AS ts", "CAST(local AS STRING) AS local")  # type: ignore[attr-defined]
    return sorted(tuple(row) for row in made.collect())


@pytest.mark.parametrize("options", ["", "WITH (header = false)", "WITH (header = false, sep = ';')"])
def test_csv_results_are_read_as_they_were_written(spark: SparkSession, tmp_path: Path, options: str) -> None:
    texts: list[str | None] = [None, "plain", 'with "quotes"', "a,b;c", "two\nlines", "back\\slash", ""]
    (tmp_path / "x").mkdir()
    engine = Engine(spark, home=tmp_path / "home")
    engine.sql(f"CREATE STREAM x {COLUMNS} TIMESTAMP BY ts FROM parquet '{tmp_path}/x';")
    engine.sql(f"CREATE QUERY q INTO csv '{tmp_path}/out' {options} AS SELECT x.id, x.n FROM x WINDOW 1 DAY;")
    delivered: list[tuple[object, ...]] = []
    engine["q"].foreach_tick(lambda frame, tick: delivered.extend(tuple(row) for row in frame.collect()))
    columns = {"ts": pa.array([EPOCH] * len(texts), TIMESTAMP), "id": range(len(texts)), "n": texts}
    pq.write_table(pa.table(columns), tmp_path / "x/1.parquet")
    with engine:
        engine.run_once()
        assert rows(engine) == sorted(delivered, key=str) == list(enumerate(texts))
