"""The Python API on Spark: streams from DataFrames and files, sinks, deliveries, changes while it runs."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.inside import ends, holding_up, loop_of
from tests.support.two_streams import JOIN, create, create_both, pairs, write
from tests.support.waiting import eventually, happens, join
from watersmeet import Engine, Sink
from watersmeet.errors import ModelError, SqlError, StateError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def engine(spark: SparkSession, tmp_path: Path) -> Engine:
    write(tmp_path / "l", [(1, 1, 7), (2, 2, 8), (3, 3, 7)])
    write(tmp_path / "r", [(1, 10, 7), (20, 20, 8)])
    engine = Engine(spark, home=tmp_path / "home")
    engine.sql(create_both(tmp_path))
    return engine


def test_results_are_a_frame_and_a_stream(engine: Engine, spark: SparkSession, tmp_path: Path) -> None:
    query = engine.query("q", JOIN)
    with engine:
        engine.run_once()
        assert pairs(query.results()) == [(1, 10), (3, 10)]
        downstream = query.stream().writeStream.format("memory").queryName("seen").trigger(availableNow=True).start()
        assert downstream.awaitTermination(60)
        assert pairs(spark.table("seen")) == [(1, 10), (3, 10)]
    stats = engine.stats()
    assert [(stream.name, stream.rows) for stream in stats.streams] == [("l", 3), ("r", 2)]
    assert stats.queries[0].results == 2
    assert stats.state_bytes > 0


def test_any_streaming_frame_is_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in", [(1, 1, 7), (2, 2, 7)])
    frame = spark.readStream.schema("ts timestamp, id long, k long").parquet(str(tmp_path / "in"))
    with Engine(spark, home=tmp_path / "home") as engine:
        engine.stream("x", frame.withColumnRenamed("k", "Key"), time="ts", lateness=timedelta(seconds=5))
        query = engine.query(
            "q", "SELECT a.id AS a, b.id AS b FROM x a, x b WHERE a.key = b.KEY AND a.id < 2 WINDOW 1 MINUTE"
        )
        engine.run_once()
        assert pairs(query.results()) == [(1, 1), (1, 2)]
        with pytest.raises(ModelError, match="not a streaming DataFrame"):
            engine.stream("y", spark.range(3).toDF("id"), time="id")


def test_json_csv_and_console_sinks_hold_the_same_results(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in ("json", "csv"):
        engine.query(kind, JOIN, Sink(kind, str(tmp_path / "out" / kind)))
    engine.query("shown", JOIN, Sink("console"))
    with engine:
        engine.run_once()
        assert pairs(engine["json"].results()) == pairs(engine["csv"].results()) == [(1, 10), (3, 10)]
    lines = [
        json.loads(line) for file in (tmp_path / "out/json").glob("*.json") for line in file.read_text().splitlines()
    ]
    assert sorted(line["left_id"] for line in lines) == [1, 3]
    assert "shown, tick 1" in capsys.readouterr().out


def test_a_callable_gets_each_tick_and_what_it_missed(engine: Engine, tmp_path: Path) -> None:
    seen: list[tuple[int, list[tuple[int, ...]]]] = []

    def fail(frame: DataFrame, tick: int) -> None:
        raise ValueError("the database is away")

    engine.query("q", JOIN).foreach_tick(fail)
    engine.run_once()
    assert "the database is away" in engine.newest.suspended["q"].reason
    engine.stop()
    again = Engine(engine.spark, home=engine.home)
    again.sql(create_both(tmp_path))
    again.query("q", JOIN).foreach_tick(lambda frame, tick: seen.append((tick, pairs(frame))))
    with again:
        again.run_once()
        assert again.resume("q")
        again.run_once()
        assert seen == [(1, [(1, 10), (3, 10)])]
        write(tmp_path / "r", [(21, 30, 8)])
        write(tmp_path / "l", [(22, 31, 8)])
        again.run_once()
    assert [pairs for _, pairs in seen] == [[(1, 10), (3, 10)], [(31, 20), (31, 30)]]
    assert pairs(again["q"].results()) == [(1, 10), (3, 10), (31, 20), (31, 30)]


def test_queries_and_streams_come_and_go_while_it_runs(engine: Engine, tmp_path: Path) -> None:
    first = engine.query("first", JOIN)
    with engine:
        engine.start()
        eventually(lambda: engine.stats().tick >= 1)
        second = engine.query("second", JOIN)
        write(tmp_path / "l", [(21, 4, 8)])
        eventually(lambda: engine.stats().streams[0].rows == 4)
        engine.drop("first")
        write(tmp_path / "r", [(22, 30, 8)])
        eventually(lambda: engine.stats().streams[1].rows == 3)
        write(tmp_path / "third", [(22, 1, 8)])
        engine.sql(create("third", tmp_path / "third"))
        third = engine.query("third", "SELECT r.id, t.id AS tid FROM r, third t WHERE r.k = t.k WINDOW 10 SECONDS")
        write(tmp_path / "third", [(23, 2, 8)])
        eventually(lambda: engine.stats().streams[2].rows == 2)
        with pytest.raises(ModelError, match="no query named first"):
            engine.drop("first")
    assert pairs(first.results()) == [(1, 10), (3, 10), (4, 20)]
    assert pairs(second.results()) == [(4, 20), (4, 30)]  # 20 was stored before the query came
    assert (30, 2) in pairs(third.results())


@pytest.mark.parametrize("files", ["", "/*.parquet"])  # read by the engine, and by Spark
def test_an_engine_stops_while_a_batch_waits_for_its_turn(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: str
) -> None:
    write(tmp_path / "l", [(1, 1, 7), (3, 3, 7)])
    write(tmp_path / "r", [(1, 10, 7)])
    engine = Engine(spark, home=tmp_path / "home")
    engine.sql("".join(create(name, Path(f"{tmp_path / name}{files}")) for name in "lr"))
    query = engine.query("q", JOIN)
    engine.start()
    eventually(lambda: engine.stats().tick >= 1)
    loop = loop_of(engine)
    run, comes = loop.run, threading.Event()

    def noted(*batch: Any) -> None:
        comes.set()
        run(*batch)

    monkeypatch.setattr(loop, "run", noted)
    with holding_up(loop):
        write(tmp_path / "l", [(4, 4, 7)])
        happens(comes)
        stopping = threading.Thread(target=engine.stop)
        stopping.start()
        eventually(lambda: ends(engine))
    join(stopping)
    engine.run_once()  # the batch that was left is taken up
    assert pairs(query.results()) == [(1, 10), (3, 10), (4, 10)]


def test_a_stopped_engine_goes_on_where_it_was(engine: Engine, tmp_path: Path) -> None:
    engine.query("q", JOIN)
    with engine:
        engine.run_once()
    write(tmp_path / "l", [(22, 4, 8)])
    with engine:
        engine.run_once()
    assert pairs(engine["q"].results()) == [(1, 10), (3, 10), (4, 20)]


def test_a_home_has_one_engine_and_its_streams_keep_their_shape(
    engine: Engine, spark: SparkSession, tmp_path: Path
) -> None:
    engine.query("q", JOIN)
    with engine:
        engine.run_once()
        other = Engine(spark, home=engine.home)
        other.sql(create("l", tmp_path / "l"))
        with pytest.raises(StateError, match="in use by process"):
            other.run_once()
    with pytest.raises(StateError, match="r is part of this home"):
        other.run_once()
    changed = Engine(spark, home=engine.home)
    changed.sql((create_both(tmp_path)).replace("k BIGINT", "k INT"))
    with pytest.raises(StateError, match="declared differently"):
        changed.run_once()
    renamed = Engine(spark, home=engine.home)
    renamed.sql(create_both(tmp_path))
    renamed.query("q", JOIN.replace("left_id", "other_name"))
    with pytest.raises(StateError, match="query q: declared differently"):
        renamed.run_once()


def test_invalid_requests_are_rejected_and_change_nothing(engine: Engine) -> None:
    engine.query("q", JOIN)
    with pytest.raises(ModelError, match="a query named q exists already"):
        engine.query("q", JOIN)
    with pytest.raises(ModelError, match="cannot be the name"):
        engine.query("../q", JOIN)
    with pytest.raises(SqlError, match="nowhere"):
        engine.query("p", "SELECT x.id FROM nowhere x WINDOW 1 SECOND")
    with pytest.raises(ModelError, match="a stream named l exists already"):
        engine.stream("l", engine.streams[0])
    with pytest.raises(ModelError, match="cannot be written as iceberg"):
        engine.query("p", JOIN, Sink("iceberg"))
    with pytest.raises(ModelError, match="did you mean partitions"):
        Engine(home="x", partition=3)
    assert [query.name for query in engine.queries] == ["q"]
