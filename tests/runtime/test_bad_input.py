"""Input that is not as declared: set aside and counted, or rejected with what to do; other queries continue."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.parquet_input import EPOCH, TIMESTAMP, damaged
from tests.support.waiting import eventually
from watersmeet import Engine
from watersmeet.errors import WatersmeetError
from watersmeet.home import layout
from watersmeet.io import folders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARQUET = (
    "CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, n STRING) TIMESTAMP BY ts "
    "FROM parquet '{folder}' WITH (maxFilesPerTrigger = 1);"
)
connection = duckdb.connect()
ALL = "SELECT x.id FROM {name} x WINDOW 10 SECONDS"


def table(*rows: tuple[datetime | None, int, str]) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array([row[0] for row in rows], TIMESTAMP),
            "id": pa.array([row[1] for row in rows], pa.int64()),
            "n": pa.array([row[2] for row in rows]),
        }
    )


def at(second: float) -> datetime:
    return EPOCH + timedelta(seconds=second)


def ids(engine: Engine, query: str) -> list[int]:
    return sorted(row[0] for row in engine[query].results().collect())


def has_settled(path: Path, written: int = 1) -> None:
    """Nobody has written to the file for so long that the engine need not wait for its end."""
    os.utime(path, (written, written))


def stream_with(spark: SparkSession, tmp_path: Path, *names: str) -> Engine:
    engine = Engine(spark, home=tmp_path / "home")
    for name in names:
        (tmp_path / name).mkdir()
        engine.sql(PARQUET.format(name=name, folder=tmp_path / name))
        engine.query(f"{name}_all", ALL.format(name=name))
    return engine


def test_malformed_rows_of_text_files_are_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    for kind in ("csv", "json"):
        (tmp_path / kind).mkdir()
    (tmp_path / "csv/1.csv").write_text(
        "2026-01-01T00:00:01Z,1,a\nnot a time,2,b\n2026-01-01T00:00:02Z,many,c\n2026-01-01T00:00:03Z,4,d\n"
    )
    (tmp_path / "json/1.json").write_text(
        '{"ts":"2026-01-01T00:00:01Z","id":1,"n":"a"}\n{"ts": oops\n{"ts":"2026-01-01T00:00:02Z","id":"x"}\n'
    )
    engine = Engine(spark, home=tmp_path / "home")
    for kind in ("csv", "json"):
        engine.sql(
            f"CREATE STREAM {kind}s (ts TIMESTAMP, id BIGINT, n STRING) TIMESTAMP BY ts "
            f"FROM {kind} '{tmp_path / kind}';"
        )
        engine.query(kind, f"SELECT x.id FROM {kind}s x WINDOW 1 SECOND")
    with engine:
        engine.run_once()
        assert ids(engine, "csv") == [1, 4]
        assert ids(engine, "json") == [1]
        aside = {stream.name: stream.set_aside for stream in engine.stats().streams}
    assert aside == {"csvs": {"unreadable": 2}, "jsons": {"unreadable": 2}}
    kept = connection.sql(
        f"SELECT rejected_because, _corrupt_record FROM '{tmp_path}/home/rejected/csvs/*.parquet'"
    ).fetchall()
    assert sorted(kept) == [("unreadable", "2026-01-01T00:00:02Z,many,c"), ("unreadable", "not a time,2,b")]


def test_impossible_times_and_late_rows_are_set_aside_with_the_reason(spark: SparkSession, tmp_path: Path) -> None:
    engine = Engine(spark, home=tmp_path / "home")
    (tmp_path / "in").mkdir()
    engine.sql(
        f"CREATE STREAM x (at BIGINT, id BIGINT) TIMESTAMP BY at LATENESS 5 MICROSECONDS FROM parquet '{tmp_path}/in' "
        "WITH (maxFilesPerTrigger = 1);"
    )
    engine.query("q", "SELECT x.id FROM x WINDOW 1 SECOND")
    with engine:
        pq.write_table(pa.table({"at": [100, None, 2**62, -(2**62)], "id": [1, 2, 3, 4]}), tmp_path / "in/1.parquet")
        engine.run_once()
        pq.write_table(pa.table({"at": [95, 94, 90, 200], "id": [5, 6, 7, 8]}), tmp_path / "in/2.parquet")
        engine.run_once()
        assert ids(engine, "q") == [1, 5, 8]
        (stream,) = engine.stats().streams
    assert stream.set_aside == {"no event time": 1, "event time out of range": 2, "late": 2}
    rejected = f"{tmp_path}/home/rejected/x/*.parquet"
    kept = connection.sql(f"SELECT id, rejected_because FROM '{rejected}' ORDER BY id").fetchall()
    assert kept == [
        (2, "no event time"),
        (3, "event time out of range"),
        (4, "event time out of range"),
        (6, "late"),
        (7, "late"),
    ]


def test_a_file_that_is_no_parquet_is_set_aside_and_other_streams_go_on(spark: SparkSession, tmp_path: Path) -> None:
    engine = stream_with(spark, tmp_path, "x", "y")
    (tmp_path / "x/1.parquet").write_bytes(b"this is no parquet file at all")
    has_settled(tmp_path / "x/1.parquet")
    pq.write_table(table((at(1), 1, "a")), tmp_path / "x/2.parquet")
    pq.write_table(table((at(1), 7, "a")), tmp_path / "y/1.parquet")
    with engine:
        engine.run_once()
        assert (ids(engine, "x_all"), ids(engine, "y_all")) == ([1], [7])
        assert engine.stats().streams[0].set_aside == {"unreadable files": 1}
    assert "1.parquet" in (tmp_path / "home/rejected/x/files.jsonl").read_text()


def test_a_file_with_a_column_of_another_type_is_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    engine = stream_with(spark, tmp_path, "x")
    other = table((at(1), 1, "a")).set_column(1, "id", pa.array(["one"]))
    pq.write_table(other, tmp_path / "x/1.parquet")
    has_settled(tmp_path / "x/1.parquet")
    pq.write_table(table((at(2), 2, "b")), tmp_path / "x/2.parquet")
    with engine:
        engine.run_once()
        assert ids(engine, "x_all") == [2]
    assert "has id as STRING; the stream declares BIGINT" in (tmp_path / "home/rejected/x/files.jsonl").read_text()


def test_a_file_that_lacks_a_column_is_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    engine = stream_with(spark, tmp_path, "x")
    pq.write_table(table((at(1), 1, "a")).drop_columns(["n"]), tmp_path / "x/1.parquet")
    has_settled(tmp_path / "x/1.parquet")
    pq.write_table(table((at(2), 2, "b")), tmp_path / "x/2.parquet")
    with engine:
        engine.run_once()
        assert ids(engine, "x_all") == [2]
    assert "1.parquet has no column n" in (tmp_path / "home/rejected/x/files.jsonl").read_text()


@pytest.mark.parametrize("shared", [False, True], ids=["one task", "several tasks"])
def test_a_file_damaged_inside_is_set_aside_as_a_whole(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    if shared:
        monkeypatch.setattr(folders, "_SPLIT", 100_000)
    engine = stream_with(spark, tmp_path, "x")
    path = tmp_path / "x/1.parquet"
    rows = table(*((at(second / 1000), second, f"some text {second}") for second in range(20_000)))
    pq.write_table(rows, path, row_group_size=2500, use_dictionary=False, compression="snappy")
    good = path.read_bytes()
    path.write_bytes(damaged(good))
    has_settled(path)
    pq.write_table(table((at(0), -1, "beside it")), tmp_path / "x/2.parquet")
    with engine:
        engine.run_once()
        assert ids(engine, "x_all") == [-1], "of a file all rows are used, or none"
        assert dict(engine.stats().streams[0].set_aside) == {"unreadable files": 1}
        (listed,) = map(json.loads, layout.rejected_files(engine.home, "x").read_text().splitlines())
        assert listed["file"] == str(path) and "could be read" in listed["because"]
        engine.run_once()
        assert ids(engine, "x_all") == [-1]
        path.write_bytes(good)
        has_settled(path, 2)
        eventually(lambda: (engine.run_once(), len(ids(engine, "x_all")))[1] == 20_001)
        engine.run_once()
        assert len(ids(engine, "x_all")) == 20_001


def test_empty_streams_and_streams_that_stop_hold_nothing_up(spark: SparkSession, tmp_path: Path) -> None:
    engine = stream_with(spark, tmp_path, "x", "y", "z")
    engine.query("both", "SELECT x.id, y.id AS yid FROM x, y WHERE x.n = y.n WINDOW 100 SECONDS")
    with engine:
        engine.run_once()
        assert engine.stats().tick == 0
        pq.write_table(table((at(1), 1, "a")), tmp_path / "x/1.parquet")
        pq.write_table(table((at(2), 2, "a")), tmp_path / "y/1.parquet")
        engine.run_once()
        for second in (3, 4):  # y has stopped
            pq.write_table(table((at(second), second, "a")), tmp_path / f"x/{second}.parquet")
            engine.run_once()
        assert sorted(tuple(row) for row in engine["both"].results().collect()) == [(1, 2), (3, 2), (4, 2)]
        assert ids(engine, "z_all") == []


def test_values_that_overflow_a_cast_are_null_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    engine = stream_with(spark, tmp_path, "x")
    engine.query("small", "SELECT x.id, CAST(x.id AS TINYINT) AS tiny FROM x WINDOW 1 SECOND")
    engine.query("chosen", "SELECT x.id FROM x WHERE CAST(x.n AS INT) > 0 WINDOW 1 SECOND")
    pq.write_table(table((at(1), 5, "1"), (at(2), 500, "99999999999"), (at(3), 6, "zero")), tmp_path / "x/1.parquet")
    with engine:
        engine.run_once()
        assert sorted(tuple(row) for row in engine["small"].results().collect()) == [(5, 5), (6, 6), (500, None)]
        assert ids(engine, "chosen") == [5]
        assert ids(engine, "x_all") == [5, 6, 500]
        stats = engine.stats()
    assert {query.name: query.failed_values for query in stats.queries}["small"] == 1
    assert stats.streams[0].set_aside == {"failed_filters": 2}


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        (
            "CREATE STREAM x (ts TIMESTAMP) TIMESTAMP BY ts FROM parquet '/no/such/folder';",
            ("/no/such/folder does not exist",),
        ),
        ("CREATE STREAM x (ts TIMESTAMP) TIMESTAMP BY ts FROM carrier_pigeon '/sky';", ("carrier_pigeon", "format")),
    ],
)
def test_a_source_that_cannot_be_read_is_named(
    spark: SparkSession, tmp_path: Path, sql: str, words: tuple[str, ...]
) -> None:
    engine = Engine(spark, home=tmp_path / "home")
    engine.sql(sql)
    with engine, pytest.raises(WatersmeetError) as caught:
        engine.run_once()
    assert all(word in str(caught.value) for word in words)


def test_a_file_that_needs_too_much_memory_is_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    """A small file: it has a long string once, and refers to it in each row."""
    engine = Engine(spark, home=tmp_path / "home", task_memory=500)
    for name in "xy":
        (tmp_path / name).mkdir()
        engine.sql(PARQUET.format(name=name, folder=tmp_path / name))
        engine.query(f"{name}_all", ALL.format(name=name))
        pq.write_table(table((at(1), 1, "a")), tmp_path / name / "1.parquet")
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), pa.array(["a" * 2**21]))
    bomb = pa.table({"ts": pa.array([at(1)] * 1000, TIMESTAMP), "id": range(1000), "n": long})
    pq.write_table(bomb, tmp_path / "x/bomb.parquet")
    has_settled(tmp_path / "x/bomb.parquet")
    assert (tmp_path / "x/bomb.parquet").stat().st_size < 1 << 20
    with engine:
        engine.run_once()
        assert (ids(engine, "x_all"), ids(engine, "y_all")) == ([1], [1])
    assert (
        "bomb.parquet needs more memory than a task may have" in (tmp_path / "home/rejected/x/files.jsonl").read_text()
    )
