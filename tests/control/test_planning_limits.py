"""No query is too large to plan: it has a plan at once, also beside others. Too many aliases are rejected by count."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from typer.testing import CliRunner

from tests.support.two_streams import JOIN, create_both, write
from tests.support.waiting import PATIENCE, join
from watersmeet import Engine
from watersmeet.cli.app import app
from watersmeet.control.changes import Activated, Add, ChangeRequest, Drop, read_changes
from watersmeet.control.checker import Checker
from watersmeet.errors import SqlError, WatersmeetError
from watersmeet.home.manifest import load_newest
from watersmeet.model import Query
from watersmeet.optimize.problem import Problem
from watersmeet.pipeline import Pipeline
from watersmeet.plan import planner
from watersmeet.sql import bind

MANY = 16  # aliases, which have 2¹⁶ subqueries if every two are linked


def members(aliases: int, window: str = "10 SECONDS") -> str:
    return ", ".join(f"{'lr'[at % 2]} [RANGE {window}] t{at}" for at in range(aliases))


def clique(aliases: int) -> str:
    linked = " AND ".join(f"t{one}.k <> t{other}.id" for one, other in itertools.combinations(range(aliases), 2))
    return f"SELECT t0.id AS x FROM {members(aliases)} WHERE {linked}"


def star(aliases: int) -> str:
    linked = " AND ".join(f"t0.k = t{at}.k" for at in range(1, aliases))
    return f"SELECT t0.id AS x FROM {members(aliases)} WHERE {linked}"


def chain(aliases: int) -> str:
    linked = " AND ".join(f"t{at}.k = t{at + 1}.k" for at in range(aliases - 1))
    return f"SELECT t0.id AS x FROM {members(aliases)} WHERE {linked}"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    for name in ("l", "r"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, [(1, 1, 1)])
    with Engine(home=tmp_path / "home", executor="local") as engine:
        engine.sql(create_both(tmp_path))
        engine.query("standing", JOIN)
        engine.run_once()
        yield engine


def asked(engine: Engine, name: str, sql: str) -> ChangeRequest:
    return ChangeRequest(time.monotonic(), (Add(engine.pipeline.query(name, sql)),))


def test_large_queries_are_planned_with_the_others_of_a_batch(engine: Engine) -> None:
    """In the order of the requests, some of which depend on each other."""
    requests = [asked(engine, "a", JOIN), asked(engine, "clique", clique(MANY)), asked(engine, "star", star(MANY))]
    requests.append(ChangeRequest(time.monotonic(), (Drop("a"),)))
    assert all(isinstance(verdict, Activated) for verdict in engine.apply(requests))
    assert set(engine.pipeline.queries) == {"standing", "clique", "star"}
    engine.run_once()
    assert set(load_newest(engine.home).queries) == {"standing", "clique", "star"}


def test_a_start_plans_every_query(tmp_path: Path) -> None:
    """However many aliases they have; none is suspended, and all have their results."""
    for name in ("l", "r"):
        (tmp_path / name).mkdir()
    queries = {"standing": JOIN, "clique": clique(MANY), "chain": chain(9), "star": star(MANY)}
    for number in (1, 2):
        for name in ("l", "r"):
            write(tmp_path / name, [(20 * number, number, 7 * number)])
        with Engine(home=tmp_path / "home", executor="local") as engine:
            engine.sql(create_both(tmp_path))
            for name, sql in queries.items():
                engine.query(name, sql)
            engine.run_once()
            assert not engine.newest.suspended
            assert engine.newest.totals.results == dict.fromkeys(queries, number)


REJECTED = r"joins 17 aliases; the limit is 16"


def test_more_aliases_than_the_limit_are_rejected(engine: Engine) -> None:
    """By the check of a pipeline, by an engine, and by the process that checks requests: the message has the count."""
    script = f"CREATE QUERY large AS {star(MANY + 1)}"
    with pytest.raises(SqlError, match=REJECTED):
        Pipeline.read(f"{create_both(Path('in'))} {script};")
    with pytest.raises(SqlError, match=REJECTED):
        engine.query("large", star(MANY + 1))
    with pytest.raises(SqlError, match=REJECTED):
        read_changes(script, "", "", engine.pipeline)
    checker = Checker()
    try:
        with pytest.raises(SqlError, match=REJECTED):
            checker.read_changes(script, "", "", engine.pipeline)
    finally:
        checker.close()
    assert set(engine.pipeline.queries) == {"standing"}


def test_a_query_without_a_plan_is_no_reason_to_reject_others(tmp_path: Path) -> None:
    """A searcher that was named may find no plan: here the budget is too small for what a left-deep plan stores."""
    for name in ("l", "r"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, [(1, 1, 1)])
    with Engine(
        home=tmp_path / "home", executor="local", searcher="left-deep", adaptive="off", storage_budget=2500.0
    ) as engine:
        engine.sql(create_both(tmp_path))
        engine.query("standing", JOIN)
        engine.run_once()
        requests = [asked(engine, "a", JOIN), asked(engine, "large", chain(4)), asked(engine, "b", JOIN)]
        verdicts = engine.apply(requests)
        assert [isinstance(verdict, Activated) for verdict in verdicts] == [True, False, True]
        assert isinstance(verdicts[1], WatersmeetError) and "storage budget" in str(verdicts[1])
        assert set(engine.pipeline.queries) == {"standing", "a", "b"}


@pytest.fixture
def failing_planner(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planner with an error that no query is known to have: it fails for every query named bad."""
    real = planner.problem_of

    def fail(queries: Sequence[Query], *rest: Any) -> Problem:
        if any(query.name == "bad" for query in queries):
            raise ZeroDivisionError("division by zero")
        return real(queries, *rest)

    monkeypatch.setattr(planner, "problem_of", fail)


@pytest.mark.usefixtures("failing_planner")
def test_a_request_that_the_planner_fails_for_is_rejected_alone(engine: Engine, tmp_path: Path) -> None:
    requests = [asked(engine, "a", JOIN), asked(engine, "bad", JOIN), asked(engine, "b", JOIN)]
    verdicts = engine.apply(requests)
    assert [isinstance(verdict, Activated) for verdict in verdicts] == [True, False, True]
    assert "no plan can be made with this change: ZeroDivisionError: division by zero" in str(verdicts[1])
    write(tmp_path / "l", [(2, 2, 1)])
    engine.run_once()
    assert set(load_newest(engine.home).queries) == {"standing", "a", "b"}


@pytest.mark.usefixtures("failing_planner")
def test_a_start_suspends_the_query_that_the_planner_fails_for(tmp_path: Path) -> None:
    for name in ("l", "r"):
        (tmp_path / name).mkdir()
    for number in (1, 2):
        for name in ("l", "r"):
            write(tmp_path / name, [(20 * number, number, 7 * number)])
        with Engine(home=tmp_path / "home", executor="local") as engine:
            engine.sql(create_both(tmp_path))
            for name in ("standing", "bad"):
                engine.query(name, JOIN)
            engine.run_once()
            engine.query(f"later{number}", JOIN)  # is planned without it
            assert engine.newest.totals.results["standing"] == number
            because = engine.newest.suspended["bad"].reason
            assert because == "no plan can be made for it: ZeroDivisionError: division by zero"
            with pytest.raises(WatersmeetError, match="no plan can be made"):
                engine.resume("bad")


@pytest.mark.usefixtures("failing_planner")
def test_a_check_names_the_query_that_the_planner_fails_for(tmp_path: Path) -> None:
    pipeline = tmp_path / "pipeline.sql"
    pipeline.write_text(f"{create_both(tmp_path)} CREATE QUERY good AS {JOIN}; CREATE QUERY bad AS {JOIN};")
    result = CliRunner().invoke(app, ["check", str(pipeline)])
    assert result.exit_code == 1
    assert "query bad: no plan can be made for it: ZeroDivisionError" in result.stderr and "good" not in result.stderr


def test_a_check_that_hangs_blocks_nobody_else(engine: Engine, tmp_path: Path) -> None:
    """It is the caller's own thread that hangs: ticks run, and other queries come and go."""
    released, hanging = threading.Event(), threading.Event()
    real = bind.ExpressionCheck.bound

    def bound(binder: bind.ExpressionCheck, *arguments: object) -> object:
        if threading.current_thread() is thread:
            hanging.set()
            released.wait(PATIENCE)
        return real(binder, *arguments)  # type: ignore[arg-type]

    thread = threading.Thread(target=lambda: engine.query("slow", f"{JOIN} AND l.id + r.id > 0"))
    with mock.patch.object(bind.ExpressionCheck, "bound", bound):
        thread.start()
        assert hanging.wait(PATIENCE)
        engine.query("other", f"{JOIN} AND l.id + r.id > 0")
        engine.drop("standing")
        write(tmp_path / "l", [(2, 2, 1)])
        engine.run_once()
        assert set(load_newest(engine.home).queries) == {"other"}
        released.set()
        join(thread)
    assert "slow" in engine.pipeline.queries
