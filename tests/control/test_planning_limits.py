"""A change that takes too long to plan is rejected with the reason; others are not affected and do not wait."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from tests.support.two_streams import JOIN, create_both, write
from tests.support.waiting import eventually
from watersmeet import Engine
from watersmeet.control.changes import Add, Asked, Drop, InForce
from watersmeet.deadline import TookTooLong, look, within
from watersmeet.errors import RunError
from watersmeet.home.manifest import load_newest
from watersmeet.sql import bind

MANY = 16  # aliases, which have 2¹⁶ subqueries if every two are linked


def clique(aliases: int) -> str:
    members = ", ".join(f"{'lr'[at % 2]} [RANGE 10 SECONDS] t{at}" for at in range(aliases))
    linked = " AND ".join(f"t{one}.k <> t{other}.id" for one, other in itertools.combinations(range(aliases), 2))
    return f"SELECT t0.id AS x FROM {members} WHERE {linked}"


def chain(aliases: int) -> str:
    """Many aliases, but few plans: it is not to blame for a query of another shape."""
    members = ", ".join(f"{'lr'[at % 2]} [RANGE 0 SECONDS] t{at}" for at in range(aliases))
    linked = " AND ".join(f"t{at}.k = t{at + 1}.id" for at in range(aliases - 1))
    return f"SELECT t0.id AS x FROM {members} WHERE {linked} AND t0.id < 0"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    for name in ("l", "r"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, [(1, 1, 1)])
    with Engine(home=tmp_path / "home", executor="local", check_seconds=0.5) as engine:
        engine.sql(create_both(tmp_path))
        engine.query("standing", JOIN)
        engine.run_once()
        yield engine


def asked(engine: Engine, name: str, sql: str) -> Asked:
    return Asked(time.monotonic(), (Add(engine.pipeline.query(name, sql)),))


def test_time_is_over() -> None:
    with within(0), pytest.raises(TookTooLong):
        time.sleep(0.01)
        look()
    look()


def test_a_query_with_too_many_plans_is_rejected(engine: Engine) -> None:
    with pytest.raises(RunError, match="seconds to plan it"):
        engine.query("monster", clique(MANY))
    assert set(engine.pipeline.queries) == {"standing"}
    engine.query("simple", JOIN)
    engine.run_once()
    assert set(load_newest(engine.home).queries) == {"standing", "simple"}


def test_others_of_the_batch_are_not_affected(engine: Engine) -> None:
    requests = [asked(engine, "a", JOIN), asked(engine, "monster", clique(MANY)), asked(engine, "b", JOIN)]
    requests.append(Asked(time.monotonic(), (Drop("standing"),)))
    verdicts = engine.apply(requests)
    assert [isinstance(verdict, InForce) for verdict in verdicts] == [True, False, True, True]
    assert set(engine.pipeline.queries) == {"a", "b"}


def test_requests_that_depend_on_each_other_keep_their_order(engine: Engine) -> None:
    requests = [asked(engine, "a", JOIN), asked(engine, "monster", clique(MANY))]
    requests.append(Asked(time.monotonic(), (Drop("a"),)))
    assert [isinstance(verdict, InForce) for verdict in engine.apply(requests)] == [True, False, True]
    assert set(engine.pipeline.queries) == {"standing"}


def test_a_check_that_hangs_blocks_nobody_else(engine: Engine, tmp_path: Path) -> None:
    """It is the caller's own thread that hangs: ticks run, and other queries come and go."""
    released, hanging = threading.Event(), threading.Event()
    real = bind.Binder.bound

    def bound(binder: bind.Binder, *arguments: object) -> object:
        if threading.current_thread() is thread:
            hanging.set()
            released.wait(60)
        return real(binder, *arguments)  # type: ignore[arg-type]

    thread = threading.Thread(target=lambda: engine.query("slow", f"{JOIN} AND l.id + r.id > 0"))
    with mock.patch.object(bind.Binder, "bound", bound):
        thread.start()
        assert hanging.wait(60)
        engine.query("other", f"{JOIN} AND l.id + r.id > 0")
        engine.drop("standing")
        write(tmp_path / "l", [(2, 2, 1)])
        engine.run_once()
        assert set(load_newest(engine.home).queries) == {"other"}
        released.set()
        thread.join(60)
    assert "slow" in engine.pipeline.queries


def test_a_start_leaves_out_a_query_with_too_many_plans(tmp_path: Path) -> None:
    """It is suspended, with the reason, whenever and however often the engine starts; the others have results."""
    for name in ("l", "r"):
        (tmp_path / name).mkdir()

    def started() -> Engine:
        engine = Engine(home=tmp_path / "home", executor="local", check_seconds=1.5, plan_seconds=0.05)
        engine.sql(create_both(tmp_path))
        for name, sql in (("standing", JOIN), ("monster", clique(MANY)), ("chain", chain(9))):
            engine.query(name, sql)
        return engine

    for number in (1, 2):
        for name in ("l", "r"):
            write(tmp_path / name, [(number, number, 1)])
        with started() as engine:
            engine.run_once()
            newest = engine.newest
            assert set(newest.suspended) == {"monster"} and newest.suspended["monster"].tick == 1
            assert "seconds to plan it" in newest.suspended["monster"].reason
            assert newest.totals.results["standing"] == number**2
            with pytest.raises(RunError, match="seconds to plan it"):
                engine.resume("monster")


def test_changes_before_the_first_tick_of_such_a_start(tmp_path: Path) -> None:
    for name in ("l", "r"):
        (tmp_path / name).mkdir()
    with Engine(home=tmp_path / "home", executor="local", check_seconds=1.0, plan_seconds=0.05) as engine:
        engine.sql(create_both(tmp_path))
        engine.query("monster", clique(MANY))
        engine.start()
        engine.query("other", JOIN)  # planned without it, whether or not it is suspended by now
        for name in ("l", "r"):
            write(tmp_path / name, [(1, 1, 1)])
        eventually(lambda: engine.newest.totals.results["other"] == 1)
        assert set(engine.newest.suspended) == {"monster"}
        engine.drop("monster")
        eventually(lambda: not engine.newest.suspended)
