"""Windows that are left to later ticks: each is answered once, with its rows, whatever the limit and whoever dies."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from tests.support.duckdb_windows import DuckdbWindows
from tests.support.windowed import SECOND, Asked, WindowedRun
from watersmeet.model.forms import WindowSql

DECLARED = """
CREATE STREAM r (ts TIMESTAMP, k INT, v BIGINT)
TIMESTAMP BY ts LATENESS 2 SECONDS AHEAD UNBOUNDED FROM parquet 'nowhere';
CREATE STREAM t (ts TIMESTAMP, k INT, v BIGINT) TIMESTAMP BY ts AHEAD UNBOUNDED FROM parquet 'nowhere';
"""
SLIDING, TUMBLING = "[RANGE 12 SECONDS SLIDE 2 SECONDS]", "[TUMBLE 5 SECONDS]"
QUERIES = {
    "middle": Asked(
        f"SELECT window_start, median(v) AS m FROM r {SLIDING}", "SELECT {start}, CAST(median(v) AS DOUBLE) FROM r"
    ),
    "partners": Asked(
        f"SELECT window_end, x.v, y.v AS w FROM r {TUMBLING} x LEFT JOIN t {TUMBLING} y ON x.k = y.k AND x.v < y.v",
        "SELECT {end}, x.v, y.v FROM r x LEFT JOIN t y ON x.k = y.k AND x.v < y.v",
    ),
    "by_key": Asked(
        f"SELECT window_start, k, median(v) AS m FROM t {SLIDING} GROUP BY k",
        "SELECT {start}, k, CAST(median(v) AS DOUBLE) FROM t GROUP BY k",
    ),
    "healthy": Asked(
        f"SELECT window_start, k, sum(v) AS s FROM r {TUMBLING} GROUP BY k",
        "SELECT {start}, k, CAST(sum(v) AS BIGINT) FROM r GROUP BY k",
    ),
}


def rows(random: Random, at: int, seconds: int, count: int = 20) -> pa.Table:
    times = [(at + random.randint(0, seconds)) * SECOND for _ in range(count)]
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "k": pa.array([random.randint(1, 3) for _ in times], pa.int32()),
            "v": pa.array([random.choice([None, *range(9)]) for _ in times], pa.int64()),
        }
    )


def run_of(home: Path, partitions: int, limit: int) -> WindowedRun:
    run = WindowedRun(home, DECLARED, partitions, settings={"windows_per_tick": limit}, drivers=(DuckdbWindows,))
    for name, asked in QUERIES.items():
        run.add(name, asked, kind="slices" if name == "healthy" else "batch")
        assert isinstance(run.lives[name].query.form, WindowSql) == (name != "healthy")
    return run


def computed(run: WindowedRun) -> list[list[tuple[str, int]]]:
    (driver,) = run.loop.execution.windows.drivers
    assert isinstance(driver, DuckdbWindows)
    return driver.computed


@pytest.mark.soak
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("limit", [1, 4, 1000])
def test_each_window_is_answered_once(tmp_path: Path, limit: int, partitions: int) -> None:
    random = Random(limit)
    run = run_of(tmp_path / "home", partitions, limit)
    # A minute passes with each tick: far more windows are due than it may compute.
    for number, killed in enumerate(("", "window.after", "", "manifest.linked", "window.after")):
        at = 70 * number
        run.tick({"r": rows(random, at, 60), "t": rows(random, at, 60)}, killed)
    if limit < 1000:
        with pytest.raises(AssertionError):
            run.check()  # some windows are left
    run.restart()  # and they are known to the next start, without any row
    assert run.loop.waits == (limit < 1000)
    run.settle(killed="window.after" if limit < 1000 else "")
    run.check()
    assert all(1 <= len(tick) <= limit for tick in computed(run))
    assert not run.loop.waits
    number = run.manifest.tick
    run.settle()
    assert run.manifest.tick == number, "nothing is left"
    run.flush(killed="window.after")
    run.check()
    assert all(1 <= len(tick) <= limit for tick in computed(run))
    assert not run.loop.waits
    # Rows that come after it are in later windows, and what was needed for these alone is gone.
    run.flush()
    run.check()


def test_with_more_queries_than_windows_they_take_turns(tmp_path: Path) -> None:
    """One window in a tick and three queries with more than enough: each has every third tick, also after a restart."""
    random = Random(3)
    run = run_of(tmp_path / "home", 1, 1)
    by_spark = QUERIES.keys() - {"healthy"}
    for number in range(4):
        run.tick({"r": rows(random, 70 * number, 60), "t": rows(random, 70 * number, 60)})
    assert [len(tick) for tick in computed(run)] == [1] * 4
    for _ in range(2):
        seen = len(computed(run))
        for _ in range(6):
            run.loop.settle(1.0)
        turns = [query for tick in computed(run)[seen:] for query, _ in tick]
        assert len(turns) == 6 and all(set(turns[at : at + 3]) == by_spark for at in range(4))
        run.restart()
    run.settle(killed="window.after")
    run.check()
    assert all(len(tick) == 1 for tick in computed(run))


def test_others_are_answered_in_the_tick_in_which_they_are_due(tmp_path: Path) -> None:
    """One row every nine seconds, and a window every second: the first tick has hundreds of due windows."""
    run = WindowedRun(tmp_path / "home", DECLARED, drivers=(DuckdbWindows,))
    run.add("slow", Asked("SELECT window_start, median(v) AS m FROM r [RANGE 1 MINUTE SLIDE 1 SECOND]", ""))
    run.add("healthy", QUERIES["healthy"])
    times = pa.array([9 * SECOND * at for at in range(60)], pa.timestamp("us", "UTC"))
    run.tick({"r": pa.table({"ts": times, "k": pa.array([1] * 60, pa.int32()), "v": pa.array(range(60), pa.int64())})})
    assert [len(tick) for tick in computed(run)] == [16]
    slow = run.lives.pop("slow")
    run.check()
    for _ in range(3):  # the settling thread of an engine
        run.loop.settle(1.0)
    assert [len(tick) for tick in computed(run)] == [16] * 4
    run.lives["slow"] = slow
    run.drop("slow")
    run.settle()
    assert len(computed(run)) == 4, "of a query that is dropped nothing is computed"
    assert not run.manifest.suspended and "slow" not in run.manifest.windows
    assert not [bucket for bucket in run.manifest.buckets if bucket.store == "r"], "nor are its rows stored"
