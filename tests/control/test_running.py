"""A running engine on Spark whose queries come and go, asked for by its own process and through its mailbox."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from tests.support.change_log import requested
from tests.support.inside import loop_of, published
from tests.support.two_streams import JOIN, create, create_both, pairs, write
from tests.support.waiting import PATIENCE, eventually, join
from watersmeet import Engine
from watersmeet.control.changes import Activated, Add, ChangeRequest, Drop
from watersmeet.control.mailbox import Mailbox, Request
from watersmeet.control.stats import stats_of_home
from watersmeet.errors import ModelError, RunError, SqlError, StateError, WatersmeetError
from watersmeet.sql import build_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RETAIN = "FROM parquet", "RETAIN UNBOUNDED FROM parquet"
Declare = Callable[..., Engine]


@pytest.fixture
def declare(spark: SparkSession, tmp_path: Path) -> Declare:
    """An engine over l and r on the test's home, as a script would declare it."""

    def declared(retain: bool = False, **options: object) -> Engine:
        for name in ("l", "r"):
            (tmp_path / name).mkdir(exist_ok=True)
        script = create_both(tmp_path)
        engine = Engine(spark, home=tmp_path / "home", **options)
        engine.sql(script.replace(*RETAIN) if retain else script)
        return engine

    return declared


@pytest.fixture
def running(declare: Declare) -> Iterator[Engine]:
    """An engine that has begun to answer q."""
    engine = declare()
    engine.query("q", JOIN)
    with engine:
        engine.start()
        yield engine


def ask(engine: Engine, script: str) -> int:
    """What another process does; the tick that it is told."""
    return Mailbox(engine.home).ask(Request("change", script=script, folder=str(engine.home)), PATIENCE).tick


def fed(engine: Engine, tmp_path: Path, stream: str, rows: list[tuple[int, int, int]]) -> None:
    """Write a file and wait until it is committed."""
    total = sum(one.rows for one in engine.stats().streams) + len(rows)
    write(tmp_path / stream, rows)
    eventually(lambda: sum(one.rows for one in engine.stats().streams) == total)
    published(engine)


# Results ---------------------------------------------------------------------------------------------


def test_each_life_of_a_query_has_the_results_of_its_ticks(declare: Declare, tmp_path: Path) -> None:
    """While rows keep coming; a query over one stream tells in which tick each row arrived."""
    engine = declare(retain=True)
    for name in ("l", "r"):
        engine.query(f"seen_{name}", f"SELECT x.id, x.ts, x.k FROM {name} [RANGE 0 SECONDS] x")
    chance = random.Random(7)
    written: list[int] = []

    def feed() -> None:
        while not over.wait(0.1):
            if len(written) > 4 * engine.stats().tick:  # a slow machine should not meet a mountain of files
                continue
            for name in ("l", "r"):
                second, first = len(written) + 1, len(written) * 9
                write(tmp_path / name, [(second, first + number, chance.randrange(9)) for number in range(9)])
            written.append(9)

    over, feeder = threading.Event(), threading.Thread(target=feed)
    with engine:
        engine.start()
        feeder.start()
        eventually(lambda: engine.stats().tick >= 2)
        engine.query("a", JOIN)
        ask(engine, f"CREATE QUERY b BACKFILL AS {JOIN}; CREATE QUERY c AS {JOIN.replace('10 S', '3 S')} AND l.id > 30")
        eventually(lambda: engine.stats().tick >= engine["c"].since)
        ask(engine, f"DROP QUERY a; DROP QUERY c; CREATE QUERY c BACKFILL AS {JOIN}")
        eventually(lambda: engine.stats().tick >= engine["c"].since)
        engine.drop("b")
        again = engine.query("a", JOIN, backfill=True)
        assert again.since == requested(engine.home)[-1].tick
        eventually(lambda: engine.stats().tick > again.since)
        over.set()
        join(feeder)
        eventually(lambda: all(stream.rows == sum(written) for stream in engine.stats().streams))
        published(engine)
    for name in ("a", "b", "c"):
        assert results(engine.home, name) == expected(engine.home, name), name
        assert expected(engine.home, name)


def results(home: Path, name: str) -> list[tuple[object, ...]]:
    return sorted(duckdb.execute(f"FROM '{home}/results/{name}/*.parquet'").fetchall())


def expected(home: Path, name: str) -> list[tuple[object, ...]]:
    """The query in DuckDB for each of its lives in the log, over rows with the tick in which they arrived."""
    found: list[tuple[object, ...]] = []
    entries = [entry for entry in requested(home) if entry.name == name]
    for at, entry in enumerate(entries):
        if entry.kind == "drop":
            continue
        end = entries[at + 1].tick if at + 1 < len(entries) else 1 << 30
        window, more = (3, "AND l.id > 30") if "3 S" in entry.sql else (10, "")
        begin = 0 if entry.backfill else entry.tick
        rows = {
            stream: f"""(SELECT *, regexp_extract(filename, '(\\d+)-[^/]*$', 1)::INT AS tick
                FROM read_parquet('{home}/results/seen_{stream}/0*.parquet', filename = true))"""
            for stream in ("l", "r")
        }
        found += duckdb.execute(
            f"""SELECT l.id, r.id FROM {rows["l"]} l, {rows["r"]} r WHERE l.k = r.k {more}
                AND abs(epoch(l.ts) - epoch(r.ts)) <= {window}
                AND greatest(l.tick, r.tick) BETWEEN {begin} AND {end - 1}"""
        ).fetchall()
    return sorted(found)


def test_backfill_on_idle_streams_and_what_drop_frees(declare: Declare, tmp_path: Path) -> None:
    engine = declare()
    engine.query("first", JOIN)
    with engine:
        engine.start()
        fed(engine, tmp_path, "l", [(1, 1, 7), (2, 2, 8)])
        fed(engine, tmp_path, "r", [(1, 10, 7), (3, 20, 9)])
        assert ask(engine, f"CREATE QUERY old BACKFILL AS {JOIN}") > 1
        single = engine.query("rows", "SELECT l.id FROM l [UNBOUNDED] WHERE l.id < 2", backfill=True)
        eventually(lambda: {"old", "rows"} <= set(engine.newest.queries))
        assert pairs(engine["old"].results()) == [(1, 10)]
        assert pairs(single.results()) == [(1,)]
        assert engine.stats().state_bytes > 0
        ask(engine, "DROP QUERY first; DROP QUERY old; DROP QUERY rows;")
        eventually(lambda: not engine.newest.queries)
        assert engine.stats().state_bytes == 0
        fed(engine, tmp_path, "l", [(3, 3, 7)])
        assert engine.stats().state_bytes == 0, "nobody reads it"
        # The manifest before the newest may be needed, so its files are deleted after the commit that follows.
        eventually(lambda: not list((engine.home / "state").glob("*/*")))
        engine.query("first", JOIN)
        fed(engine, tmp_path, "l", [(21, 4, 8)])
        fed(engine, tmp_path, "r", [(22, 30, 8)])
        assert pairs(engine["first"].results()) == [(1, 10), (4, 30)], "it continues in the same folder"


def test_retain_keeps_history_for_queries_to_come(declare: Declare, tmp_path: Path) -> None:
    with declare(retain=True) as engine:
        engine.start()
        fed(engine, tmp_path, "l", [(1, 1, 7)])
        fed(engine, tmp_path, "r", [(1, 10, 7)])
        assert engine.stats().state_bytes > 0
        late, whole = engine.query("late", JOIN), engine.query("whole", JOIN, backfill=True)
        fed(engine, tmp_path, "l", [(2, 2, 7)])
        assert pairs(late.results()) == [(2, 10)]
        assert pairs(whole.results()) == [(1, 10), (2, 10)]


# Requests --------------------------------------------------------------------------------------------


def test_invalid_requests_are_rejected_with_the_reason_and_disturb_nothing(declare: Declare, tmp_path: Path) -> None:
    engine = declare(max_aliases=3, max_queries=2)
    engine.query("q", JOIN)
    wide = ", ".join(f"l a{number}" for number in range(4))
    joined = " AND ".join(f"a0.k = a{number}.k" for number in range(1, 4))
    wrong = [
        ("CREATE QUERY p AS SELECT x.id FROM nowhere x WINDOW 1 DAY", "nowhere", 1, 36),
        (f"CREATE QUERY q AS {JOIN}", "a query named q exists already", 1, 14),
        ("CREATE QUERY p AS\nSELECT l.id FROM l [UNBOUNDED] WHERE l.ts > l.k", "cannot compare", 2, 38),
        (f"CREATE QUERY p AS SELECT a0.id FROM {wide} WHERE {joined} WINDOW 1 DAY", "4 aliases; the limit is 3", 1, 57),
        (f"CREATE QUERY p AS {JOIN};\nCREATE QUERY p2 AS {JOIN}", "the limit is 2", 2, 14),
        (f"CREATE QUERY p AS {JOIN};\nDROP QUERY nothing", "no query named nothing", 2, 12),
        (create("s", tmp_path / "s"), "but not streams", 1, 15),
        ("SELECT 1", "needs a name", 1, 1),
    ]
    with engine:
        engine.start()
        fed(engine, tmp_path, "l", [(1, 1, 7)])
        plan, tick = loop_of(engine).plan, engine.stats().tick
        for script, fragment, line, column in wrong:
            with pytest.raises(SqlError) as caught:
                ask(engine, script)
            place = caught.value.place
            assert fragment in str(caught.value)
            assert place is not None
            assert (place.line, place.column) == (line, column), str(caught.value)
        with pytest.raises(ModelError, match="no statement"):
            ask(engine, " ; ")
        with pytest.raises(ModelError, match="a query named q exists already"):
            engine.query("q", JOIN)
        assert loop_of(engine).plan is plan
        assert [handle.name for handle in engine.queries] == ["q"]
        assert requested(engine.home) == []
        assert not (engine.home / "results" / "p").exists()
        fed(engine, tmp_path, "r", [(1, 10, 7)])
        assert engine.stats().tick == tick + 1
        assert pairs(engine["q"].results()) == [(1, 10)]


def test_a_name_may_be_given_to_another_query_of_the_same_columns_only(running: Engine, tmp_path: Path) -> None:
    fed(running, tmp_path, "l", [(1, 1, 7)])
    with pytest.raises(SqlError, match="contains results with other columns") as caught:
        ask(running, "DROP QUERY q; CREATE QUERY q AS SELECT l.k FROM l [UNBOUNDED];")
    assert "another name" in caught.value.hint
    assert [handle.name for handle in running.queries] == ["q"], "all of a request, or nothing"
    since = ask(running, f"DROP QUERY q; CREATE QUERY q BACKFILL AS {JOIN.replace('l.k = r.k', 'l.id = r.id')}")
    eventually(lambda: running.newest.queries["q"] == since)


def test_a_batch_is_planned_once_and_a_plan_that_fails_leaves_everything(
    running: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = {stream.name: stream for stream in running.streams}
    asked = [ChangeRequest(0.0, (Add(build_query(name, JOIN, streams)),)) for name in ("a", "b", "q")]
    first, second, rejected = running.apply(asked)
    assert isinstance(first, Activated)
    assert isinstance(second, Activated)
    assert first.tick == second.tick == running["a"].since
    assert isinstance(rejected, ModelError)
    known = [handle.name for handle in running.queries]

    def fail(*_: object, **__: object) -> None:
        raise ModelError("no plan can be found")

    with monkeypatch.context() as broken:
        broken.setattr("watersmeet.adapt.plan_keeper.make_plan", fail)
        verdicts = running.apply([ChangeRequest(0.0, (Drop("a"),)), ChangeRequest(0.0, (Drop("nothing"),))])
        assert [str(verdict).split("\n")[0] for verdict in verdicts] == [
            "no plan can be found",
            "there is no query named nothing",
        ]
        with pytest.raises(ModelError, match="no plan can be found"):
            ask(running, "DROP QUERY a")
    assert [handle.name for handle in running.queries] == known == ["q", "a", "b"]
    assert [entry.name for entry in requested(running.home)] == ["a", "b"]
    ask(running, "DROP QUERY a")


def test_many_at_once_are_all_answered(declare: Declare) -> None:
    engine = declare()
    with engine:
        engine.start()
        names = [f"q{number}" for number in range(12)]
        with ThreadPoolExecutor(6) as pool:
            ticks = list(pool.map(lambda name: ask(engine, f"CREATE QUERY {name} AS {JOIN}"), names))
        assert sorted(handle.name for handle in engine.queries) == sorted(names)
        assert [engine[name].since for name in names] == ticks
        assert list((engine.home / "control" / "inbox").iterdir()) == []
        assert list((engine.home / "control" / "answers").iterdir()) == []


# Restart ---------------------------------------------------------------------------------------------


def test_a_restart_keeps_what_was_added_and_dropped(declare: Declare, tmp_path: Path) -> None:
    engine = declare()
    engine.query("scripted", JOIN)
    with engine:
        engine.start()
        fed(engine, tmp_path, "l", [(1, 1, 7), (5, 2, 8)])
        ask(engine, f"DROP QUERY scripted; CREATE QUERY added INTO json 'results/there' AS {JOIN}")
        fed(engine, tmp_path, "r", [(1, 10, 7)])
        own = engine.query("own", JOIN, backfill=True)
    listed = {query.name: query for query in stats_of_home(engine.home).queries}
    assert set(listed) == {"added", "own"}
    assert listed["added"].in_force
    assert listed["added"].results == 1
    assert not stats_of_home(engine.home).running
    assert len(stats_of_home(engine.home).deployments) == 3

    again = declare()
    again.query("scripted", JOIN)
    with again:
        again.start()
        assert sorted(handle.name for handle in again.queries) == ["added", "own"]
        assert again["added"].folder == engine.home / "results" / "there"
        # The same program adds its own query again. It was promised a tick, whether that came or not.
        assert again.query("own", JOIN, backfill=True).since <= own.since
        with pytest.raises(ModelError, match="a query named own exists already"):
            again.query("own", JOIN, backfill=True)
        fed(again, tmp_path, "r", [(6, 20, 8)])
        assert pairs(again["added"].results()) == [(1, 10), (2, 20)]
        assert pairs(again["own"].results()) == [(1, 10), (2, 20)]
        back = again.query("scripted", JOIN)
        fed(again, tmp_path, "l", [(7, 3, 8)])
        assert pairs(back.results()) == [(3, 20)]
    third = declare()
    third.query("scripted", JOIN)
    with third:
        third.start()
        assert sorted(handle.name for handle in third.queries) == ["added", "own", "scripted"]


def test_an_engine_that_is_only_declared_writes_nothing(declare: Declare) -> None:
    engine = declare()
    engine.query("q", JOIN)
    engine.drop("q")
    assert not engine.home.exists()
    with pytest.raises(RunError, match="no engine is running"):
        ask(engine, "DROP QUERY q")


def test_a_scripted_backfill_is_done_where_no_data_comes(declare: Declare, tmp_path: Path) -> None:
    write(tmp_path / "l", [(1, 1, 7)])
    write(tmp_path / "r", [(1, 10, 7)])
    with declare(retain=True) as engine:
        engine.run_once()
    again = declare(retain=True)
    again.sql(f"CREATE QUERY q BACKFILL AS {JOIN};")
    with again:
        again.run_once()
        assert pairs(again["q"].results()) == [(1, 10)]
        again.run_once()
        assert pairs(again["q"].results()) == [(1, 10)], "once"


def test_a_damaged_log_is_rejected(declare: Declare) -> None:
    engine = declare()
    engine.home.mkdir()
    (engine.home / "changes.jsonl").write_text('{"kind": "add"}\n')
    with pytest.raises(StateError, match=r"changes\.jsonl is damaged"):
        engine.start()
    (engine.home / "changes.jsonl").write_text('{"kind": "ad')  # cut short: it was never active
    with engine:
        engine.start()
        engine.query("q", JOIN)
    assert [entry.name for entry in requested(engine.home)] == ["q"]


def test_a_failure_without_data_reaches_whoever_waits(
    running: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed(running, tmp_path, "l", [(1, 1, 7)])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("watersmeet.runtime.committer.commit", full)
    running.drop("q")
    with pytest.raises(WatersmeetError, match="is full"):
        running.wait(PATIENCE)
