"""Windows that tasks compute from their rows equal DuckDB's, whoever dies, whatever is left to later ticks, and where
windows change to Spark and back: another DuckDB stands for Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest

from tests.oracle.windowed.queries import declaration, rows
from tests.support.duckdb_windows import DuckdbWindows
from tests.support.parquet_input import write_file
from tests.support.windowed import Asked, WindowedRun, in_windows, plain
from watersmeet import Engine
from watersmeet.errors import ModelError
from watersmeet.home import layout
from watersmeet.home.counters import TASK_JOBS, TASK_ROWS, TASK_WINDOWS
from watersmeet.home.files import write_whole
from watersmeet.runtime.probe.pruning import Stopped
from watersmeet.windows.sql import task as in_tasks
from watersmeet.windows.sql.in_duckdb import WindowBounds

SLIDING, TUMBLING = "[RANGE 12 SECONDS SLIDE 4 SECONDS]", "[TUMBLE 5 SECONDS]"
TEXTS = {
    "outer": ("SELECT window_start, x.k, x.s, y.w FROM r {w} x FULL JOIN t {w} y ON x.k = y.k AND x.v < y.w", SLIDING),
    "missing": ("SELECT k, v FROM r {w} EXCEPT ALL SELECT k, k FROM t {w}", TUMBLING),
    "both": ("SELECT v FROM r {w} INTERSECT SELECT k FROM t {w}", SLIDING),
    "nested": ("SELECT k, count(*) AS n FROM r {w} WHERE v IN (SELECT k FROM t {w}) GROUP BY k", TUMBLING),
    "absent": ("SELECT s, d FROM r {w} x WHERE NOT EXISTS (SELECT 1 FROM t {w} y WHERE y.k = x.k)", SLIDING),
    "best": ("SELECT window_end, s, d FROM r {w} WHERE d = (SELECT max(d) FROM r {w})", SLIDING),
    "ranked": ("SELECT k, v, rank() OVER (PARTITION BY k ORDER BY v NULLS FIRST) AS p FROM r {w}", TUMBLING),
    "few": ("SELECT v, s FROM r {w} ORDER BY v DESC NULLS LAST, s NULLS FIRST LIMIT 2", TUMBLING),
    "number": ("SELECT window_start, count(*) AS n FROM (SELECT DISTINCT k, s FROM r {w}) x", SLIDING),
}
QUERIES = {
    name: Asked(
        text.replace("{w}", window),
        text.replace(" {w}", "").replace("window_start", "{start} AS a").replace("window_end", "{end} AS a"),
    )
    for name, (text, window) in TEXTS.items()
}


def run_of(home: Path, partitions: int, kind: str = "", **settings: int) -> WindowedRun:
    run = WindowedRun(home, declaration(2), partitions, tasks=2, settings=settings, drivers=(DuckdbWindows,))
    for name, asked in QUERIES.items():
        run.add(name, asked, kind=kind)
        assert run.lives[name].query.form.kind == "task"
    return run


def ticks(seed: int, count: int) -> Iterator[dict[str, pa.Table]]:
    random = Random(seed)
    for number in range(count):
        yield {name: pa.concat_tables(rows(random, name, number * 7, 3) for _ in range(3)) for name in ("r", "t")}


def windows_of(run: WindowedRun) -> int:
    return run.manifest.totals.done[TASK_JOBS]


def by_spark(run: WindowedRun) -> list[int]:
    (driver,) = run.loop.execution.windows.drivers
    assert isinstance(driver, DuckdbWindows)
    return [len(tick) for tick in driver.computed]


@pytest.mark.parametrize("partitions", [1, 3])
def test_each_window_equals_the_batch_query(tmp_path: Path, partitions: int) -> None:
    run = run_of(tmp_path / "home", partitions)
    for number, arriving in enumerate(ticks(partitions, 7)):
        run.tick(arriving, {2: "window.computed", 4: "manifest.linked"}.get(number, ""))
        if number == 3:
            run.partitions = 4 - partitions
            run.restart()
        if number == 5:
            run.drop("few")
            run.add("late", Asked(*(text.replace("SELECT", "SELECT 1 AS one,", 1) for text in QUERIES["few"].pair)))
    run.check()
    run.flush(killed="window.computed")
    run.check()
    assert not by_spark(run) or not any(by_spark(run))
    done = run.manifest.totals.done
    assert done[TASK_ROWS] > done[TASK_JOBS] > len(QUERIES)
    assert run.manifest.totals.spent[TASK_WINDOWS] > 0


def test_what_takes_long_is_left_to_the_next_ticks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_tasks, "_SECONDS", -1.0)
    monkeypatch.setattr(in_tasks, "_MOST", 2)
    run = run_of(tmp_path / "home", 1)
    for number, arriving in enumerate(ticks(5, 4)):
        run.tick(arriving, "window.computed" if number == 2 else "")
    assert run.loop.waits
    run.settle(killed="window.computed")
    run.check()
    run.flush()
    run.check()
    assert not run.loop.waits


@pytest.mark.parametrize("limit", [2, 100])
def test_windows_that_are_too_large_go_to_spark(tmp_path: Path, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_tasks, "rows_fit", lambda size, megabytes: size < 200)
    run = run_of(tmp_path / "home", 1, windows_per_tick=limit)
    for number, arriving in enumerate(ticks(7, 5)):
        run.tick(arriving, "window.computed" if number == 3 else "")
    run.settle()
    run.flush()
    run.check()
    assert max(by_spark(run)) == limit if limit == 2 else sum(by_spark(run)) > 10
    assert windows_of(run), "others are computed in tasks"
    assert not run.manifest.suspended


def test_the_form_changes_between_two_ticks(tmp_path: Path) -> None:
    """Both read the same rows, so that nothing of the open windows is lost."""
    run = run_of(tmp_path / "home", 1)
    for number, arriving in enumerate(ticks(9, 6)):
        for name, life in run.lives.items():
            if (len(name) + number) % 2 == 0:
                run.use(name, "batch" if life.query.form.kind == "task" else "task")
        run.tick(arriving)
        if number == 3:
            run.restart()
    run.flush()
    run.check()
    assert windows_of(run)


def test_a_window_without_memory_concerns_its_query_alone(tmp_path: Path) -> None:
    declared = "CREATE STREAM r (ts TIMESTAMP, v BIGINT) TIMESTAMP BY ts FROM parquet 'nowhere'"
    run = WindowedRun(tmp_path / "home", declared, settings={"task_memory": 80})
    pairs = "FROM r [TUMBLE 1 SECOND] x CROSS JOIN r [TUMBLE 1 SECOND] y"
    large = f"SELECT count(DISTINCT concat(CAST(x.v AS STRING), '-', CAST(y.v AS STRING))) AS n {pairs}"
    for name, text in {"large": large, "few": f"SELECT max(x.v + y.v) AS n {pairs}"}.items():
        run.add(name, Asked(text, ""), kind="task")
    numbers = pa.array(range(1500), pa.int64())
    run.tick({"r": pa.table({"ts": numbers.cast(pa.timestamp("us", "UTC")), "v": numbers})})
    run.flush()
    assert list(run.manifest.suspended) == ["large"]
    assert "option task_memory" in run.manifest.suspended["large"].reason
    assert run.found("few", run.lives["few"].query) == {(2998,): 1}


def test_a_window_with_too_many_results_concerns_its_query_alone(tmp_path: Path) -> None:
    """What DuckDB gives as it goes is interrupted, too."""
    declared = "CREATE STREAM r (ts TIMESTAMP, v BIGINT) TIMESTAMP BY ts FROM parquet 'nowhere'"
    run = WindowedRun(tmp_path / "home", declared, settings={"window_seconds": 0.2, "max_matches": 0})
    joined = "FROM r [TUMBLE 1 SECOND] x CROSS JOIN r [TUMBLE 1 SECOND] y CROSS JOIN r [TUMBLE 1 SECOND] z"
    run.add("slow", Asked(f"SELECT x.v {joined} WHERE x.v + y.v + z.v < 0", ""), kind="task")
    run.add("many", Asked(f"SELECT x.v {joined}", ""), kind="task")
    run.add("few", Asked("SELECT v FROM r [TUMBLE 1 SECOND] WHERE v > 1498", ""), kind="task")
    numbers = pa.array(range(1500), pa.int64())
    run.tick({"r": pa.table({"ts": numbers.cast(pa.timestamp("us", "UTC")), "v": numbers})})
    run.flush()
    assert set(run.manifest.suspended) == {"slow", "many"}
    assert all("option window_seconds" in each.reason for each in run.manifest.suspended.values())
    assert run.found("few", run.lives["few"].query) == {(1499,): 1}


def test_bounds_of_windows(tmp_path: Path) -> None:
    now = [0.0]

    def bounds(query: str) -> WindowBounds:
        return WindowBounds(lambda: now[0], 10.0, tmp_path, query, 10.0, {})

    bounds("q").check()
    now[0] = 10.0
    with pytest.raises(Exception, match="option window_seconds"):
        bounds("q").check()
    now[0] = 0.0
    (tmp_path / layout.DROPPED).mkdir(parents=True)
    write_whole(layout.dropped(tmp_path, "q"), "0")
    bounds("another").check()
    with pytest.raises(Exception, match="it was dropped"):
        bounds("q").check()
    write_whole(tmp_path / layout.STOP, "")
    with pytest.raises(Stopped):
        bounds("another").check()


def test_without_spark(tmp_path: Path) -> None:
    """What only Spark computes is rejected, all else has the one form that is left."""
    arriving = next(ticks(3, 1))
    for name, piece in arriving.items():
        (tmp_path / name).mkdir()
        write_file(tmp_path / name, 0, piece)
    with Engine(home=tmp_path / "home", executor="local") as engine:
        engine.sql(declaration(2, folder=tmp_path))
        for name, asked in QUERIES.items():
            assert [form.kind for form in engine.query(name, asked.sql).query.forms] == ["task"]
        with pytest.raises(
            ModelError, match="its windows are computed by Spark, and with executor=local there is none"
        ):
            engine.query("middle", f"SELECT median(v) AS m FROM r {TUMBLING}")
        engine.run_once(flush=True)
        assert engine.newest.suspended == {}
        for name, asked in QUERIES.items():
            query = engine[name].query
            tables = {stream: arriving[stream] for stream in query.streams}
            with duckdb.connect() as connection:
                connection.execute("SET TimeZone = 'UTC'")
                found = connection.sql(f"FROM '{engine[name].folder}/*.parquet'").fetchall()
            assert Counter(map(plain, found)) == in_windows(query.grid, asked.oracle, tables, 1 << 60), name
