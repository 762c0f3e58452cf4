"""Queries with calls that Spark computes, beside others: added while the engine runs, dropped, restarted, failing."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.support.inside import published
from tests.support.parquet_input import TIMESTAMP, append_file, seconds_after_epoch
from tests.support.waiting import eventually
from watersmeet import Engine
from watersmeet.errors import ModelError, WatersmeetError
from watersmeet.home import layout
from watersmeet.home.manifest import load_earlier
from watersmeet.runtime.exec.spark import SparkExecutor
from watersmeet.runtime.tick.computation import ComputeOrder, ComputeReport
from watersmeet.sql.functions.by_spark import BY_SPARK, SparkEntry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 40
JOINED = "FROM a{w}, b{w} WHERE reverse(a.s) = reverse(b.s) AND ln(a.x) > 0.5 AND exp(a.x) < exp(b.x)"
QUERIES = {
    "computed": f"SELECT a.id AS l, b.id AS r, exp(a.x) + 1 AS e, split(b.s, 'é')[0] AS part {JOINED}",
    "plain": "SELECT a.id AS l, b.id AS r FROM a{w}, b{w} WHERE a.id = b.id",
}
LATER = "SELECT a.id AS l, b.id AS r, initcap(a.s) AS s, exp(a.x) AS e FROM a{w}, b{w} WHERE hash(a.s) = hash(b.s)"
SINCE = "SELECT a.id AS l, b.id AS r FROM a{w}, b{w} WHERE atan(a.x) = atan(b.x)"


class Both:
    """Two streams of files, and an engine over them."""

    def __init__(self, spark: SparkSession, folder: Path, files: str = "", **options: object) -> None:
        self.spark, self.folder, self.files, self.options = spark, folder, files, options
        self.ticks = 0
        for name in ("a", "b"):
            (folder / name).mkdir()

    def engine(self, *queries: str) -> Engine:
        engine = Engine(self.spark, self.folder / "home", tick="100 milliseconds", **self.options)
        for name in ("a", "b"):
            engine.sql(
                f"CREATE STREAM {name} (at TIMESTAMP, id BIGINT, x DOUBLE, s STRING) TIMESTAMP BY at"
                f" FROM parquet '{self.folder / name}{self.files}';"
            )
        for query in queries:
            engine.query(query, text(QUERIES[query]))
        return engine

    def feed(self) -> None:
        """One more file for each stream."""
        begin = self.ticks * ROWS
        for name, shift in (("a", 0.0), ("b", 0.5)):
            rows = {
                "at": seconds_after_epoch(range(begin, begin + ROWS)),
                "id": pa.array(range(begin, begin + ROWS), pa.int64()),
                "x": pa.array([(at % 11) / 3 + shift * (at % 2) for at in range(ROWS)]),
                "s": pa.array([None if at % 13 == 0 else f"{at % 7}é x" for at in range(ROWS)]),
            }
            append_file(self.folder / name, pa.table(rows))
        self.ticks += 1

    def fed(self, engine: Engine) -> None:
        """One more file for each stream arrives and is committed."""
        self.feed()

        def is_done() -> bool:
            engine.wait(0.01)  # raises what has failed
            return all(stream.rows == self.ticks * ROWS for stream in engine.stats().streams)

        eventually(is_done)
        published(engine)

    def expected(self, sql: str, newer_than: int = -1) -> list[tuple[object, ...]]:
        """What a batch over the same files gives, of results whose last member is newer than some row."""
        batch = self.spark.newSession()
        for name in ("a", "b"):
            batch.read.parquet(str(self.folder / name)).createOrReplaceTempView(name)
        rows = [tuple(row) for row in batch.sql(sql.replace("{w}", "")).collect()]
        return sorted((row for row in rows if max(row[0], row[1]) > newer_than), key=str)

    def check(self, engine: Engine, name: str, sql: str, newer_than: int = -1) -> None:
        found = sorted((tuple(row) for row in engine[name].results().collect()), key=str)
        wanted = self.expected(sql, newer_than)
        assert wanted
        assert found == wanted

    def check_files(self, engine: Engine) -> None:
        """The state is what the manifest and the one before it name, and nothing else."""
        home = self.folder / "home"
        stored = {str(path.relative_to(home)) for path in (home / layout.STATE).rglob("*.bucket")}
        named = (engine.newest, *load_earlier(home, engine.newest.tick)[:1])
        assert stored == {bucket.file for one in named for bucket in one.buckets}


def text(sql: str) -> str:
    return sql.replace("{w}", " [UNBOUNDED]")


def columns_of(engine: Engine, stream: str) -> set[tuple[str, ...]]:
    return {bucket.computed for bucket in engine.newest.buckets if bucket.store == stream}


@pytest.mark.parametrize(
    ("files", "options"),
    [
        ("", {}),
        pytest.param("", {"partitions": 2}, marks=pytest.mark.thorough),
        pytest.param("/*.parquet", {"residents": "0"}, marks=pytest.mark.thorough),
    ],
    ids=["residents", "two partitions", "structured streaming and jobs"],
)
def test_results_are_those_of_a_batch(
    spark: SparkSession, tmp_path: Path, files: str, options: dict[str, object]
) -> None:
    both = Both(spark, tmp_path, files, **options)
    both.feed()
    with both.engine("computed", "plain") as engine:
        engine.start()
        both.fed(engine)
        engine.query("later", text(LATER), backfill=True)
        engine.query("since", text(SINCE))
        both.fed(engine)
        known = (both.ticks - 1) * ROWS - 1
        for name, sql in (*QUERIES.items(), ("later", LATER)):
            both.check(engine, name, sql)
        both.check(engine, "since", SINCE, known)
    both.feed()
    with both.engine("computed", "plain") as engine:
        engine.start()
        both.fed(engine)
        for name, sql in (*QUERIES.items(), ("later", LATER)):
            both.check(engine, name, sql)
        both.check(engine, "since", SINCE, known)
        assert len(columns_of(engine, "a")) == 1
        engine.drop("computed")
        engine.drop("later")
        engine.drop("since")
        for _ in range(8):
            both.fed(engine)
        both.check(engine, "plain", QUERIES["plain"])
        if options.get("partitions") != 2:  # there, buckets of earlier layouts are not merged with later ones
            assert columns_of(engine, "a") == {()}
        both.check_files(engine)


def test_values_inside_of_others_keep_their_meaning(spark: SparkSession, tmp_path: Path) -> None:
    times = pa.array([datetime(2024, 2, 29, 12), None, datetime(1, 1, 1)], TIMESTAMP)
    rows = {
        "at": seconds_after_epoch(range(3)),
        "ts": times,
        "st": pa.StructArray.from_arrays([pa.array([1, None, 3], pa.int32()), times], names=["f", "t"]),
        "ats": pa.array([[value] for value in times.to_pylist()], pa.list_(TIMESTAMP)),
        "m": pa.array([[("k", value)] for value in times.to_pylist()], pa.map_(pa.string(), TIMESTAMP)),
    }
    append_file(tmp_path / "in", pa.table(rows))
    columns = "ts TIMESTAMP, st STRUCT<f: INT, t: TIMESTAMP>, ats ARRAY<TIMESTAMP>, m MAP<STRING, TIMESTAMP>"
    outputs = (
        "to_json(st) AS j, to_json(m) AS k, to_json(ats) AS a, array_max(ats) AS x, try_element_at(m, 'k') AS e,"
        " dayname(st.t) AS d, date_format(array_min(ats), 'EEEE') AS f, hash(ats) AS h, array_position(ats, ts) AS p"
    )
    with Engine(spark, tmp_path / "home") as engine:
        engine.sql(f"CREATE STREAM s (at TIMESTAMP, {columns}) TIMESTAMP BY at FROM parquet '{tmp_path}/in';")
        engine.query("q", f"SELECT at, {outputs} FROM s [UNBOUNDED]")
        engine.run_once()
        found = engine["q"].results().orderBy("at")
        spark.read.parquet(str(tmp_path / "in")).createOrReplaceTempView("nested")
        wanted = spark.sql(f"SELECT at, {outputs} FROM nested ORDER BY at")
        assert found.drop("at").schema.simpleString() == wanted.drop("at").schema.simpleString()
        assert found.toArrow().to_pylist() == wanted.toArrow().to_pylist()


def test_a_tick_that_fails_after_spark_has_computed_is_repeated(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = Both(spark, tmp_path)
    both.feed()
    with both.engine("plain") as engine:
        engine.run_once()
    both.feed()
    compute = SparkExecutor.compute

    def compute_and_fail(executor: SparkExecutor, order: ComputeOrder) -> list[ComputeReport]:
        assert compute(executor, order)
        raise RuntimeError("killed")

    with both.engine("computed", "plain") as engine:
        monkeypatch.setattr(SparkExecutor, "compute", compute_and_fail)
        with pytest.raises(WatersmeetError):
            engine.run_once()
    monkeypatch.undo()
    with both.engine("computed", "plain") as engine:
        engine.run_once()
        both.feed()
        engine.run_once()
        both.check(engine, "plain", QUERIES["plain"])
        both.check(engine, "computed", QUERIES["computed"], ROWS - 1)
        both.check_files(engine)


def test_an_engine_without_such_queries_computes_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(SparkExecutor, "compute")
    both = Both(spark, tmp_path)
    both.feed()
    with both.engine("plain") as engine:
        engine.run_once()
        both.check(engine, "plain", QUERIES["plain"])


def test_what_spark_cannot_compute_suspends_its_query_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = SparkEntry(("raise_error",), "", ("string",), lambda arguments: "string", ("raise_error({string})",))
    monkeypatch.setitem(BY_SPARK, "raise_error", [bad])  # it raises, which is why it is not in the list
    both = Both(spark, tmp_path)
    both.feed()
    with both.engine("computed", "plain") as engine:
        engine.query("bad", text("SELECT a.id, length(string(a.id)) AS l, raise_error(a.s) AS u FROM a{w}"))
        engine.run_once()
        both.feed()
        engine.run_once()
        for name, sql in QUERIES.items():
            both.check(engine, name, sql)
        assert list(engine.newest.suspended) == ["bad"]
        assert "raise_error(s)" in engine.newest.suspended["bad"].reason


def test_without_spark_such_a_query_is_rejected_and_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    engine = Engine(home=tmp_path / "home", executor="local")
    engine.sql(f"CREATE STREAM a (at TIMESTAMP, x DOUBLE) TIMESTAMP BY at FROM parquet '{tmp_path}/in';")
    with pytest.raises(ModelError, match=r"exp\(x\) is computed by Spark, and with executor=local there is none"):
        engine.query("q", "SELECT exp(a.x) AS e FROM a [UNBOUNDED]")
    engine.query("p", "SELECT sqrt(a.x) AS e FROM a [UNBOUNDED]")


def test_explain_says_what_spark_computes(tmp_path: Path) -> None:
    engine = Engine(home=tmp_path / "home")
    engine.sql(f"CREATE STREAM a (at TIMESTAMP, x DOUBLE, s STRING) TIMESTAMP BY at FROM parquet '{tmp_path}/in';")
    engine.query("q", "SELECT a.x FROM a [UNBOUNDED], a [UNBOUNDED] AS b WHERE reverse(a.s) = b.s AND exp(a.x) > 1")
    shown = engine.explain()
    assert "computed by Spark when rows arrive: slower" in shown
    assert "\n  a: exp(x)\n  a: reverse(s)\n" in shown
    assert "a.reverse(s) = a@2.s" in shown
