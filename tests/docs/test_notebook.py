"""What is easily done wrong in a notebook has a message that says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import watersmeet
from watersmeet.errors import ModelError, SqlError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_frame_of_pandas_is_no_stream(tmp_path: Path) -> None:
    engine = watersmeet.Engine(home=tmp_path / "home")
    frame: Any = pd.DataFrame({"at": [1]})
    with pytest.raises(ModelError, match="not a streaming DataFrame"):
        engine.stream("bids", frame, time="at")


def test_a_stream_without_event_time_lists_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    engine = watersmeet.Engine(spark, home=tmp_path / "home")
    with pytest.raises(ModelError, match="event time is not named") as rejected:
        engine.stream("ticks", spark.readStream.format("rate").load())
    assert "timestamp, value" in rejected.value.detail and 'time="timestamp"' in rejected.value.hint


def test_the_statistics_of_many_ticks_are_short(tmp_path: Path) -> None:
    assert "ticks=" not in repr(watersmeet.Engine(home=tmp_path / "home").stats())


def test_completion_shows_what_is_not_imported_yet() -> None:
    assert set(watersmeet.__all__) <= set(dir(watersmeet))


def test_ipython_shows_the_message_of_an_error_without_frames(tmp_path: Path) -> None:
    with pytest.raises(SqlError) as caught:
        watersmeet.Engine(home=tmp_path / "home").query("q", "SELECT (")
    assert caught.value._render_traceback_() == [
        f"SqlError: {caught.value.place}: {caught.value.problem}",
        "  SELECT (",
        "         ^",
        f"Hint: {caught.value.hint}",
    ]
    assert caught.value.__suppress_context__, "not what the parser said"


def test_what_a_cell_shows_says_that_a_query_is_suspended(tmp_path: Path) -> None:
    with watersmeet.Engine(home=tmp_path / "home", executor="local", max_matches=2) as engine:
        at = pd.to_datetime(["2026-01-01"] * 3).as_unit("us")
        (tmp_path / "in").mkdir()
        pd.DataFrame({"at": at, "k": [1, 2, 3]}).to_parquet(tmp_path / "in" / "1.parquet")
        engine.sql(f"CREATE STREAM s (at TIMESTAMP, k BIGINT) TIMESTAMP BY at FROM parquet '{tmp_path}/in';")
        many = engine.query("many", "SELECT x.k FROM s [RANGE 1 SECOND] x CROSS JOIN s [RANGE 1 SECOND] y")
        engine.query("few", "SELECT k FROM s [RANGE 1 SECOND] x WHERE k = 1")
        engine.run_once()
        assert repr(many).endswith(", suspended since tick 1>") and "suspended" not in repr(engine["few"])
        assert repr(engine) == "<Engine home: 1 stream, 2 queries, stopped, 1 suspended>"
        engine.resume("many")
        assert "suspended" not in repr(many) and "suspended" not in repr(engine)
