"""Windows of slices that are too many or too large, or that fail: they concern their query alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.support.parquet_input import write_file
from tests.support.windowed import SECOND, Asked, WindowedRun
from watersmeet import Engine
from watersmeet.aggregate import arriving
from watersmeet.aggregate.answers import WindowAnswer, answers
from watersmeet.aggregate.due import Caches, DueQuery
from watersmeet.aggregate.partials import SlicedRows, partial_aggregates
from watersmeet.aggregate.rounds import rounds
from watersmeet.aggregate.slice_cache import SliceCache
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.runtime.emit import patience
from watersmeet.store import filters
from watersmeet.store.evaluate import Evaluated, evaluate
from watersmeet.store.guard import ExpressionError
from watersmeet.windows.slices import in_pieces, intake, task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DECLARED = """
CREATE STREAM r (ts TIMESTAMP, k INT, v BIGINT) TIMESTAMP BY ts AHEAD UNBOUNDED FROM parquet 'nowhere';
CREATE STREAM t (ts TIMESTAMP, k INT, v BIGINT) TIMESTAMP BY ts AHEAD UNBOUNDED FROM parquet 'nowhere';
"""
WINDOW = "[RANGE 20 SECONDS SLIDE 5 SECONDS]"
HEALTHY = {
    "sums": Asked(
        f"SELECT window_start, k, sum(v) AS s FROM r {WINDOW} GROUP BY k",
        "SELECT {start}, k, CAST(sum(v) AS BIGINT) FROM r GROUP BY k",
    ),
    "greatest": Asked(
        f"SELECT window_start, k, max(v) AS m FROM r {WINDOW} GROUP BY k ORDER BY m DESC, k LIMIT 2",
        "SELECT {start}, k, max(v) AS m FROM r GROUP BY k ORDER BY m DESC NULLS LAST, k LIMIT 2",
    ),
    "all": Asked("SELECT window_start, count(*) AS n FROM r [TUMBLE 5 SECONDS]", "SELECT {start}, count(*) FROM r"),
    "joined": Asked(
        f"SELECT window_start, x.k, count(*) AS n FROM r {WINDOW} x JOIN t {WINDOW} y ON x.k = y.k GROUP BY x.k",
        "SELECT {start}, x.k, count(*) FROM r x JOIN t y ON x.k = y.k GROUP BY x.k",
    ),
    "rows": Asked(
        f"SELECT window_start, x.v, y.v AS w FROM r {WINDOW} x JOIN t {WINDOW} y ON x.k = y.k WHERE x.v < 3",
        "SELECT {start}, x.v, y.v FROM r x JOIN t y ON x.k = y.k WHERE x.v < 3",
    ),
}
VICTIM = "victim"


def rows(random: Random, at: int, count: int = 12) -> pa.Table:
    times = [(at + random.randint(0, 30)) * SECOND for _ in range(count)]
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "k": pa.array([random.randint(1, 6) for _ in times], pa.int32()),
            "v": pa.array([random.choice([None, *range(9)]) for _ in times], pa.int64()),
        }
    )


def run_beside(home: Path, victim: str, partitions: int = 1, **settings: Any) -> WindowedRun:
    run = WindowedRun(home, DECLARED, partitions, settings=settings)
    for name, asked in HEALTHY.items():
        run.add(name, asked)
    if victim:
        run.add(VICTIM, Asked(victim, ""))
    return run


def live(run: WindowedRun, ticks: int = 4, flush: bool = True) -> None:
    random = Random(ticks)
    for tick in range(ticks):
        run.tick({"r": rows(random, 40 * tick), "t": rows(random, 40 * tick)})
        if tick == 1 and VICTIM not in run.lives:
            run.restart()
    if flush:
        run.flush()


def check_healthy(run: WindowedRun) -> None:
    assert run.manifest.suspended.keys() == run.lives.keys() - HEALTHY.keys()
    for name in HEALTHY:
        assert run.found(name, run.lives[name].query) == run._expected(run.lives[name]), name


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("most", [1, 600])
def test_rounds_give_the_same_results(
    tmp_path: Path, partitions: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "BYTES", most)
    run = run_beside(tmp_path / "home", "", partitions)
    live(run)
    run.check()


def test_more_windows_than_can_be_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted; none of them is made."""
    asked: list[str] = []

    def noting(due: Sequence[DueQuery], caches: Caches) -> list[WindowAnswer]:
        asked.extend(each.query.name for each in due)
        return answers(due, caches)

    monkeypatch.setattr(task, "answers", noting)
    victim = "SELECT window_start, k, count(*) AS n FROM r [RANGE 1 HOUR SLIDE 1 SECOND] GROUP BY k"
    run = run_beside(tmp_path / "home", victim, max_matches=3000)
    live(run, flush=False)
    asked.clear()
    run.flush()
    reason = run.manifest.suspended[VICTIM].reason
    assert "windows with rows to close in a tick, more than 3,000 (option max_matches)" in reason
    assert VICTIM not in asked
    check_healthy(run)


@pytest.mark.parametrize("having", ["", " HAVING count(*) > 1000"])
def test_a_query_that_is_dropped_while_its_windows_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, having: str
) -> None:
    """Whether or not it has given a result so far: each round looks for the sign."""
    made: list[str] = []

    def noting(due: Sequence[DueQuery], caches: Caches) -> list[WindowAnswer]:
        made.extend(each.query.name for each in due)
        return answers(due, caches)

    def signs(home: Path) -> dict[str, float]:
        return {VICTIM: 0.0} if made.count(VICTIM) >= 3 else {}

    monkeypatch.setattr(task, "BYTES", 1)
    monkeypatch.setattr(task, "answers", noting)
    monkeypatch.setattr(patience, "dropped", signs)
    victim = f"SELECT window_start, k, count(*) AS n FROM r [RANGE 20 SECONDS SLIDE 1 SECOND] GROUP BY k{having}"
    run = run_beside(tmp_path / "home", victim)
    live(run)
    assert run.manifest.suspended[VICTIM].reason == "it was dropped"
    assert made.count(VICTIM) == 3
    check_healthy(run)


def test_more_keys_of_windows_than_matches_are_allowed(tmp_path: Path) -> None:
    """HAVING leaves none of them, but all of them have to be made."""
    victim = f"SELECT window_start, v, k, count(*) AS n FROM r {WINDOW} GROUP BY v, k HAVING count(*) > 1000"
    run = run_beside(tmp_path / "home", victim, max_matches=45)
    live(run)
    assert "more than 45 matches in a tick" in run.manifest.suspended[VICTIM].reason
    check_healthy(run)


@pytest.mark.parametrize("victim", ["sum(v * 2)", "stddev(v)"])
@pytest.mark.parametrize("problem", [MemoryError(), ValueError("some library failed")])
def test_what_fails_for_one_query_suspends_it_alone(
    tmp_path: Path, problem: Exception, victim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shares a store with a healthy query."""
    failed = 0

    def failing(due: Sequence[DueQuery], caches: Caches) -> list[WindowAnswer]:
        nonlocal failed
        if any(each.query.name == VICTIM for each in due):
            failed += 1
            raise problem
        return answers(due, caches)

    monkeypatch.setattr(task, "answers", failing)
    monkeypatch.setattr(in_pieces, "answers", failing)
    run = run_beside(tmp_path / "home", f"SELECT window_start, k, {victim} AS x FROM r {WINDOW} GROUP BY k")
    live(run)
    reason = run.manifest.suspended[VICTIM].reason
    assert ("task_memory" if isinstance(problem, MemoryError) else "some library failed") in reason
    assert failed
    check_healthy(run)


def test_memory_that_is_short_once_suspends_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept in memory for others is given up, and read again."""
    times = 2

    def failing(due: Sequence[DueQuery], caches: Caches) -> list[WindowAnswer]:
        nonlocal times
        if times:
            times -= 1
            raise MemoryError
        return answers(due, caches)

    monkeypatch.setattr(task, "answers", failing)
    run = run_beside(tmp_path / "home", "")
    live(run)
    assert not times
    run.check()


def test_slices_that_do_not_fit_into_memory_concern_the_queries_that_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance = SliceCache.advance

    def failing(cache: SliceCache, *given: Any) -> None:
        if "v" in str(cache.store.keys):
            raise MemoryError
        advance(cache, *given)

    monkeypatch.setattr(SliceCache, "advance", failing)
    run = run_beside(tmp_path / "home", f"SELECT window_start, v, count(*) AS n FROM r {WINDOW} GROUP BY v")
    run.add("another", Asked(f"SELECT window_start, v, sum(k) AS n FROM r {WINDOW} GROUP BY v", ""))
    live(run)
    assert all("task_memory" in one.reason for one in run.manifest.suspended.values())
    check_healthy(run)


def test_rows_that_cannot_become_slices_concern_the_queries_that_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(store: SliceStore, *given: Any) -> SlicedRows:
        if "v" in str(store.keys):
            raise ValueError("some library failed")
        return partial_aggregates(store, *given)

    monkeypatch.setattr(intake, "partial_aggregates", failing)
    write_file(tmp_path / "r", 0, rows(Random(1), 0))
    engine = Engine(home=tmp_path / "home", executor="local")
    engine.sql(f"CREATE STREAM r (ts TIMESTAMP, k INT, v BIGINT) TIMESTAMP BY ts FROM parquet '{tmp_path / 'r'}'")
    engine.query(VICTIM, f"SELECT v, count(*) AS n FROM r {WINDOW} GROUP BY v")
    engine.query("healthy", "SELECT count(*) AS n FROM r [TUMBLE 1 HOUR]")
    engine.run_once(flush=True)
    assert {name: one.reason for name, one in engine.newest.suspended.items()} == {VICTIM: "some library failed"}
    assert [found.rows for found in engine.newest.results] == [1]
    engine.stop()


@pytest.mark.parametrize("where", ["", "WHERE v % 3 > 0"])
@pytest.mark.parametrize("is_new", [True, False], ids=["first tick", "later tick"])
def test_an_expression_in_a_shared_store(
    tmp_path: Path, is_new: bool, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store keeps what it computes for as long as it has slices: then all that read it are suspended, and nobody
    else. One that no tick has written into is made anew without it."""
    failing = is_new

    def failing_evaluate(found: Any, texts: list[str]) -> Evaluated:
        if failed := [text for text in texts if failing and '"v" * 2' in text]:
            raise ExpressionError.of(dict.fromkeys(failed, "it takes too long"))
        return evaluate(found, texts)

    monkeypatch.setattr(arriving, "evaluate", failing_evaluate)
    monkeypatch.setattr(filters, "evaluate", failing_evaluate)
    engine = Engine(home=tmp_path / "home", executor="local")
    engine.sql(f"CREATE STREAM r (ts TIMESTAMP, k INT, v BIGINT) TIMESTAMP BY ts FROM parquet '{tmp_path / 'r'}'")
    engine.query(VICTIM, f"SELECT k, sum(v) FILTER (WHERE v * 2 > 1) AS n FROM r {WINDOW} {where} GROUP BY k")
    engine.query("shares", f"SELECT k, count(*) AS n FROM r {WINDOW} GROUP BY k")
    engine.query("healthy", f"SELECT v, count(*) AS n FROM r {WINDOW} GROUP BY v")
    for file in range(2):
        failing |= file == 1
        write_file(tmp_path / "r", file, rows(Random(file), 100 * file))
        engine.run_once(flush=file == 1)
    suspended = engine.newest.suspended
    assert suspended.keys() == ({VICTIM} if is_new else {VICTIM, "shares"})
    assert all("cannot be evaluated: it takes too long" in one.reason for one in suspended.values())
    assert {found.query for found in engine.newest.results} == {"shares", "healthy"} - suspended.keys()
    engine.stop()


@pytest.mark.thorough
def test_many_windows_of_long_keys_in_little_memory(spark: SparkSession, tmp_path: Path) -> None:
    """All due windows together have a gigabyte of keys."""
    count = 3000
    keys = pa.array([f"{at:04000d}" for at in range(count)])
    times = pa.array([at % 60 * SECOND for at in range(count)]).cast(pa.timestamp("us", "UTC"))
    write_file(tmp_path / "r", 0, pa.table({"ts": times, "k": keys}))
    engine = Engine(spark, home=tmp_path / "home", task_memory=700)
    engine.sql(f"CREATE STREAM r (ts TIMESTAMP, k STRING) TIMESTAMP BY ts FROM parquet '{tmp_path / 'r'}'")
    window = "[RANGE 60 SECONDS SLIDE 1 SECOND]"
    engine.query("busy", f"SELECT k, count(*) AS n, window_end FROM r {window} GROUP BY k ORDER BY n DESC LIMIT 1")
    engine.query("healthy", "SELECT count(*) AS n FROM r [TUMBLE 60 SECONDS]")
    engine.run_once(flush=True)
    assert engine.newest.suspended == {}
    assert [row.n for row in engine["healthy"].results().collect()] == [count]
    found = engine["busy"].results()
    assert found.count() == 119
    assert found.select("n").distinct().count() == 1
    engine.stop()


def test_memory_that_is_short_for_all_windows_together_suspends_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tick is repeated with care: each query by itself."""
    failed = 0

    def failing(due: Sequence[DueQuery], *given: Any) -> Any:
        nonlocal failed
        if len(due) > 1:
            failed += 1
            raise MemoryError
        return rounds(due, *given)

    monkeypatch.setattr(task, "rounds", failing)
    run = run_beside(tmp_path / "home", "")
    live(run)
    assert failed == 2, "once in each life: the ticks after it are careful too"
    run.check()
