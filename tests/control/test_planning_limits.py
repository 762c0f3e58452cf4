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
