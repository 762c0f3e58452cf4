"""INTO postgres by an engine in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.poisoned import HEALTHY, VICTIM, Poisoned
from tests.support.stores.postgres_server import PostgresServer
from tests.support.waiting import eventually
from watersmeet import Engine
from watersmeet.errors import SqlError

pytestmark = pytest.mark.connectors
PLAIN = HEALTHY["plain"]
SECRET = "hunter-2-of-tests"


class IntoPostgres(Poisoned):
    """An engine whose victim's results go to a table, by a query that is added in SQL."""

    with_options = ""

    def engine(self) -> Engine:
        engine = super().engine()
        engine.sql(f"CREATE QUERY {VICTIM} INTO postgres 'shop.results' {self.with_options} AS {PLAIN}")
        return engine


@pytest.fixture
def delivered(tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> IntoPostgres:
    monkeypatch.setenv("PASSWORD_OF_TESTS", SECRET)
    made = IntoPostgres(tmp_path)
    made.with_options = postgres.options()[:-1] + ", password = env('PASSWORD_OF_TESTS'))"
    return made


def found(server: PostgresServer) -> Counter[tuple[int, ...]]:
    return Counter(server.query("SELECT a, b FROM shop.results"))


def suspended(engine: Engine, delivered: Poisoned) -> Callable[[], bool]:
    def is_suspended() -> bool:
        engine.settle(0)
        return bool(delivered.suspended)

    return is_suspended


def test_results_arrive_once_and_no_secret_is_stored(delivered: IntoPostgres, postgres: PostgresServer) -> None:
    for _ in range(3):
        delivered.live()
        delivered.check()
        assert found(postgres) == delivered.results("plain")
    texts = [path.read_bytes() for path in delivered.home.glob("**/*") if path.is_file()]
    assert not any(SECRET.encode() in text for text in texts)
    assert any(b"env('PASSWORD_OF_TESTS')" in text for text in texts)  # the manifest names where it is


def test_a_server_that_is_killed_while_the_engine_runs(delivered: IntoPostgres, postgres: PostgresServer) -> None:
    with delivered.running() as engine:
        delivered.feed()
        engine.run_once()
        postgres.kill()
        for _ in range(2):
            delivered.feed()
            engine.run_once()
        assert engine.newest.tick == 3 and not delivered.suspended
        assert "Postgres: " in engine.stats().as_json()["outbox"][VICTIM]["reason"]
        postgres.start()
        eventually(lambda: found(postgres) == delivered.results("plain"))
    delivered.check()


def test_a_table_that_does_not_fit_suspends_the_query_until_it_does(
    delivered: IntoPostgres, postgres: PostgresServer
) -> None:
    postgres.query("CREATE SCHEMA shop")
    postgres.query("CREATE TABLE shop.results (a bigint)")
    with delivered.running() as engine:
        delivered.feed()
        engine.run_once()
        eventually(suspended(engine, delivered))
        assert "it has no column b" in delivered.reason()
        postgres.query("ALTER TABLE shop.results ADD COLUMN b bigint")
        engine.resume(VICTIM)
        engine.settle(0)
        eventually(lambda: found(postgres) == delivered.results("plain"))
    delivered.check()


def test_a_password_that_is_not_set_suspends_the_query(
    delivered: IntoPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PASSWORD_OF_TESTS")
    with delivered.running() as engine:
        delivered.feed()
        engine.run_once()
        eventually(suspended(engine, delivered))
    assert "the environment variable PASSWORD_OF_TESTS is not set" in delivered.reason()
    delivered.check()


def test_a_password_in_the_sql_is_rejected_and_not_shown(tmp_path: Path) -> None:
    made = IntoPostgres(tmp_path)
    for options in (f"password = '{SECRET}'", f"dsn = 'host=x password={SECRET}'"):
        made.with_options = f"WITH ({options})"
        with pytest.raises(SqlError) as caught:
            made.engine()
        assert SECRET not in str(caught.value) and "env('NAME')" in str(caught.value)
