"""Windows that take too long, or are too many, concern their query alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.support.deaths import subscribed
from tests.support.parquet_input import write_file
from tests.support.windowed import SECOND, in_windows, plain
from watersmeet import Engine
from watersmeet.home import layout
from watersmeet.home.files import write_whole
from watersmeet.model.sliding_window import SlidingWindow
from watersmeet.runtime.exec.limited_job import Allowance, Dropped, JobTookTooLong
from watersmeet.runtime.probe.pruning import Stopped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 4000


@pytest.mark.parametrize("more", ["", ", median(x.v) AS m"])
def test_a_window_that_takes_too_long(spark: SparkSession, tmp_path: Path, more: str) -> None:
    numbers = pa.array(range(ROWS), pa.int64())
    write_file(tmp_path / "r", 0, pa.table({"ts": numbers.cast(pa.timestamp("us", "UTC")), "v": numbers}))
    engine = Engine(spark, home=tmp_path / "home", window_seconds=0.01)
    engine.sql(f"CREATE STREAM r (ts TIMESTAMP, v BIGINT) TIMESTAMP BY ts FROM parquet '{tmp_path / 'r'}'")
    # Sixteen million pairs, each with a key of its own; with a median, only Spark computes it.
    pairs = "FROM r [TUMBLE 1 SECOND] x CROSS JOIN r [TUMBLE 1 SECOND] y"
    engine.query("slow", f"SELECT count(DISTINCT concat(x.v, '-', y.v)) AS n{more} {pairs}")
    engine.query("fast", "SELECT count(*) AS n FROM r [TUMBLE 1 SECOND]")
    engine.run_once(flush=True)
    assert "option window_seconds" in engine.newest.suspended["slow"].reason
    assert list(engine.newest.suspended) == ["slow"]
    assert [row.n for row in engine["fast"].results().collect()] == [ROWS]
    assert engine["slow"].results().count() == 0
    engine.stop()


def sliding(spark: SparkSession, folder: Path, **options: int) -> tuple[Engine, pa.Table]:
    """A row every two seconds, a window every second that Spark computes, and a query of slices."""
    seconds = pa.array([2 * SECOND * at for at in range(8)], pa.int64())
    rows = pa.table({"ts": seconds.cast(pa.timestamp("us", "UTC")), "v": pa.array(range(8), pa.int64())})
    write_file(folder / "r", 0, rows)
    engine = Engine(spark, home=folder / "home", **options)
    engine.sql(f"CREATE STREAM r (ts TIMESTAMP, v BIGINT) TIMESTAMP BY ts FROM parquet '{folder / 'r'}'")
    engine.query("slow", "SELECT window_start, median(v) AS m FROM r [RANGE 3 SECONDS SLIDE 1 SECOND]")
    engine.query("fast", "SELECT window_start, count(*) AS n FROM r [TUMBLE 1 SECOND]")
    return engine, rows


def test_a_tick_computes_some_of_the_due_windows_and_the_next_ones_the_rest(
    spark: SparkSession, tmp_path: Path
) -> None:
    engine, rows = sliding(spark, tmp_path, windows_per_tick=5)
    of_ticks = [0]

    def count(point: str, about: object) -> None:
        of_ticks[-1] += point == "window.after"
        if point == "manifest.linked":
            of_ticks.append(0)

    with subscribed(count):
        engine.run_once()
    assert of_ticks == [5, 5, 4, 0], "14 windows, of which each has a row, end at or before the newest one"
    assert engine["fast"].results().count() == 7
    engine.run_once(flush=True)
    found = Counter(plain(tuple(row)) for row in engine["slow"].results().collect())
    asked = "SELECT {start}, CAST(median(v) AS DOUBLE) FROM r"
    assert found == in_windows(SlidingWindow(3 * SECOND, SECOND), asked, {"r": rows}, 1 << 60)
    assert engine.newest.suspended == {}
    engine.stop()


def test_a_drop_gives_up_all_windows_of_the_running_tick(spark: SparkSession, tmp_path: Path) -> None:
    engine, _ = sliding(spark, tmp_path, windows_per_tick=1000, stop_seconds=0)
    computed = []

    def drop(point: str, about: object) -> None:
        if point == "window.after":
            computed.append(point)
            if len(computed) == 2:
                engine.drop("slow")

    with subscribed(drop):
        engine.run_once()
    assert len(computed) == 3, "the third was given up before it began"
    assert engine.newest.suspended == {} and "slow" not in engine.newest.queries
    assert engine["fast"].results().count() == 7
    engine.stop()


def test_the_limits_of_a_query_are_those_of_all_its_windows(tmp_path: Path) -> None:
    allowed = Allowance(tmp_path, seconds=10, query="q")
    for _ in range(4):  # jobs of three seconds each
        assert allowed.why_given_up(now=1.0, running=1.0) is None
        allowed.use(3.0)
        if allowed.why_given_up(now=1.0):
            break
    assert isinstance(allowed.why_given_up(now=1.0), JobTookTooLong)
    patient = Allowance(tmp_path, query="q")
    write_whole(layout.dropped(tmp_path, "q"), "5")
    assert [patient.why_given_up(now) for now in (100.0, 102.0, 104.9)] == [None] * 3
    assert isinstance(patient.why_given_up(105.0), Dropped), "whichever job runs by then"
    assert Allowance(tmp_path, query="another").why_given_up(105.0) is None
    write_whole(tmp_path / layout.STOP, "")
    assert isinstance(Allowance(tmp_path, query="another").why_given_up(105.0), Stopped)


def test_values_that_read_like_a_failure_of_the_engine(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's messages repeat the values that it cannot convert."""
    texts = ["cancelled", "No space left on device", "watersmeet cannot read its state"]
    times = pa.array(range(3), pa.int64()).cast(pa.timestamp("us", "UTC"))
    write_file(tmp_path / "r", 0, pa.table({"ts": times, "s": texts}))
    engine = Engine(spark, home=tmp_path / "home")
    engine.sql(f"CREATE STREAM r (ts TIMESTAMP, s STRING) TIMESTAMP BY ts FROM parquet '{tmp_path / 'r'}'")
    for at, text in enumerate(texts):
        engine.query(f"q{at}", f"SELECT median(year(to_date(s))) AS d FROM r [TUMBLE 1 SECOND] WHERE s = '{text}'")
    engine.query("fast", "SELECT count(*) AS n FROM r [TUMBLE 1 SECOND]")
    engine.run_once(flush=True)
    assert set(engine.newest.suspended) == {"q0", "q1", "q2"}
    assert all(text in engine.newest.suspended[f"q{at}"].reason for at, text in enumerate(texts))
    assert [row.n for row in engine["fast"].results().collect()] == [3]
    engine.stop()
