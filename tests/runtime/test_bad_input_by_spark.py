"""Input that Spark reads and that is not as declared, and paths and times that Spark would take otherwise."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from tests.support.deaths import subscribed
from tests.support.parquet_input import EPOCH, TIMESTAMP, damaged
from watersmeet import Engine
from watersmeet.errors import InputError, WatersmeetError
from watersmeet.home import layout
from watersmeet.io import sources
from watersmeet.runtime.feed import spark_files, streaming

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


def test_parquet_beside_json_is_read_by_the_rules_of_a_folder(spark: SparkSession, tmp_path: Path) -> None:
    """Spark finds these files, because of the JSON stream. A bad one is set aside, and nothing else is held up."""
    for name in ("x", "j"):
        (tmp_path / name).mkdir()
    engine = Engine(spark, home=tmp_path / "home")
    engine.sql(f"CREATE STREAM x {COLUMNS} TIMESTAMP BY ts LATENESS 1 DAY FROM parquet '{tmp_path}/x';")
    engine.sql(f"CREATE STREAM j {COLUMNS} TIMESTAMP BY ts LATENESS 1 DAY FROM json '{tmp_path}/j';")
    engine.query("q", "SELECT x.id, x.n, x.ts FROM x WINDOW 1 SECOND")
    engine.query("json", "SELECT j.id FROM j WINDOW 1 SECOND")
    (tmp_path / "j/1.json").write_text('{"ts":"2026-01-01T00:00:01Z","id":1,"n":"a"}\n')
    frame = pd.DataFrame({"ts": pd.to_datetime([EPOCH]) + pd.Timedelta(1500, "ns"), "id": [1], "n": ["by pandas"]})
    frame.to_parquet(tmp_path / "x/1.parquet")
    assert pq.read_schema(tmp_path / "x/1.parquet").field("ts").type == pa.timestamp("ns")
    good = pa.table({"ts": pa.array([EPOCH], TIMESTAMP), "id": [2], "n": ["narrow"]})
    pq.write_table(good.set_column(1, "id", pa.array([2], pa.int16())), tmp_path / "x/2.parquet")
    pq.write_table(good.drop_columns(["n"]), tmp_path / "x/lacks.parquet")
    pq.write_table(good.set_column(1, "id", pa.array([1.5])), tmp_path / "x/double.parquet")
    (tmp_path / "x/no.parquet").write_bytes(b"this is no Parquet")
    os.mkfifo(tmp_path / "x/pipe.parquet")
    many = pa.table({"ts": pa.array([EPOCH] * 20_000, TIMESTAMP), "id": range(20_000), "n": ["x"] * 20_000})
    pq.write_table(many, tmp_path / "x/damaged.parquet", row_group_size=5000, use_dictionary=False)
    (tmp_path / "x/damaged.parquet").write_bytes(damaged((tmp_path / "x/damaged.parquet").read_bytes()))
    with engine:
        engine.run_once()
        assert rows(engine) == [(1, "by pandas"), (2, "narrow")]
        times = {row.id: row.ts for row in engine["q"].results().collect()}
        assert times[1] == EPOCH + timedelta(microseconds=1)
        assert engine["json"].results().count() == 1
        assert aside(engine) == {"unreadable files": 5}
    listed = map(json.loads, layout.rejected_files(tmp_path / "home", "x").read_text().splitlines())
    because = {Path(line["file"]).stem: line["because"].partition(".parquet ")[2] for line in listed}
    assert because == {
        "lacks": "has no column n",
        "double": "has id as DOUBLE; the stream declares BIGINT",
        "no": "is not a readable Parquet file",
        "pipe": "is not a regular file",
        "damaged": "is damaged: only a part of it could be read",
    }


def test_a_file_that_is_gone_when_it_is_to_be_read_is_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    engine = engine_reading(spark, tmp_path, "parquet", files="/*.parquet")
    good = pa.table({"ts": pa.array([EPOCH], TIMESTAMP), "id": [2], "n": ["a"]})
    for number in (1, 2):
        pq.write_table(good, tmp_path / f"x/{number}.parquet")

    def delete(point: str, about: object) -> None:
        if point == "tick.begin":  # by now Spark has logged that the batch has it
            (tmp_path / "x/1.parquet").unlink(missing_ok=True)

    with engine, subscribed(delete):
        engine.run_once()
        assert rows(engine) == [(2, "a")]
        assert aside(engine) == {"unreadable files": 1}


def test_parquet_at_a_url_is_read_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    """A file system that only Spark knows, here one that refers to a local folder."""
    (tmp_path / "x").mkdir()
    assert spark.sparkContext._jsc is not None
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.viewfs.mounttable.elsewhere.link./x", f"file://{tmp_path}/x")
    engine = Engine(spark, home=tmp_path / "home")
    engine.sql(f"CREATE STREAM x {COLUMNS} TIMESTAMP BY ts LATENESS 1 DAY FROM parquet 'viewfs://elsewhere/x';")
    engine.query("q", "SELECT x.id, x.n, x.ts FROM x WINDOW 1 SECOND")
    good = pa.table({"ts": pa.array([EPOCH], TIMESTAMP), "id": [1], "n": ["a"]})
    pq.write_table(good, tmp_path / "x/1.parquet")
    pq.write_table(good.drop_columns(["n"]).set_column(1, "id", pa.array([2])), tmp_path / "x/2.parquet")
    with engine:
        engine.run_once()
        assert rows(engine) == [(1, "a"), (2, None)]
    engine = Engine(spark, home=tmp_path / "home")
    engine.sql(f"CREATE STREAM x {COLUMNS} TIMESTAMP BY ts LATENESS 1 DAY FROM parquet 'viewfs://elsewhere/x';")
    engine.query("q", "SELECT x.id, x.n, x.ts FROM x WINDOW 1 SECOND")
    pq.write_table(good.set_column(1, "id", pa.array(["one"])), tmp_path / "x/3.parquet")
    with pytest.raises(WatersmeetError, match=r"3\.parquet"):
        engine.run_once()


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


def test_a_compressed_file_that_is_cut_short_stops_the_tick(spark: SparkSession, tmp_path: Path) -> None:
    engine = engine_reading(spark, tmp_path, "csv")
    whole = gzip.compress("".join(f"2026-01-01T00:00:01Z,{each},{each * 7919}\n" for each in range(2000)).encode())
    (tmp_path / "x/1.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(WatersmeetError, match=r"1\.csv\.gz[^\n]*\nHint: move the file away, or put a readable one"):
        engine.run_once()
    (tmp_path / "x/1.csv.gz").unlink()
    (tmp_path / "x/2.csv.gz").write_bytes(whole)
    with engine:
        engine.run_once()
        assert len(rows(engine)) == 2000


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


def test_a_pipe_in_a_folder_that_spark_reads_is_rejected_unopened(spark: SparkSession, tmp_path: Path) -> None:
    engine = engine_reading(spark, tmp_path, "json", "WITH (recursiveFileLookup = true)")
    os.mkfifo(tmp_path / "x/1.json")
    with pytest.raises(InputError, match=r"1\.json is not a regular file\nHint: put an empty file in its place"):
        engine.run_once()
    (tmp_path / "x/1.json").unlink()
    (tmp_path / "x/1.json").touch()
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


def test_a_home_whose_parquet_files_spark_has_read_continues(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions let Spark read all files that it found; its checkpoint is the same."""
    good = pa.table({"ts": pa.array([EPOCH], TIMESTAMP), "id": [1], "n": ["a"]})
    for number, by_tasks in enumerate((False, True)):
        engine = engine_reading(spark, tmp_path, "parquet", files="/*.parquet")
        pq.write_table(good.set_column(1, "id", pa.array([number])), tmp_path / f"x/{number}.parquet")
        with monkeypatch.context() as patch, engine:
            for module in (sources, spark_files, streaming):
                if not by_tasks:
                    patch.setattr(module, "is_read_by_tasks", lambda stream: False)
            engine.run_once()
            assert rows(engine) == [(each, "a") for each in range(number + 1)]
            assert aside(engine) == {}
