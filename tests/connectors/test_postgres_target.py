"""A table of Postgres as a target, without an engine: each tick once, whoever writes it; every type; upserts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.stores.postgres_server import PostgresServer
from tests.support.stores.postgres_targets import close_all, close_targets, opened  # noqa: F401 - a fixture
from tests.support.stores.results import batches, rows_of, sender
from watersmeet.errors import ModelError, RunError
from watersmeet.io.connectors.postgres.connector import CONNECTOR
from watersmeet.io.connectors.protocol import Undeliverable
from watersmeet.model import ColumnRef, Output, Sink

pytestmark = pytest.mark.connectors


def found(server: PostgresServer) -> Counter[tuple[int, int]]:
    return Counter(server.query("SELECT tick, number FROM results"))


def expected(ticks: dict[int, int]) -> Counter[tuple[int, int]]:
    return Counter((tick, number) for tick, count in ticks.items() for number in range(count))


def test_a_tick_is_there_once_and_remembered(postgres: PostgresServer) -> None:
    target = opened(postgres)
    assert target.recover() == 0
    target.commit(3, batches(rows_of(3, 2), rows_of(3, 0)))
    target.commit(7, batches(rows_of(7, 1)))
    target.commit(7, batches(rows_of(7, 1)))
    target.close()
    again = opened(postgres)
    assert again.recover() == 7
    again.commit(3, batches(rows_of(3, 2)))
    again.close()
    assert found(postgres) == expected({3: 2, 7: 1})
    assert postgres.query("SELECT home, query, target, tick FROM watersmeet_ticks") == [
        ("0123abcd", "books", "results", 7)
    ]


def test_a_commit_that_fails_leaves_nothing(postgres: PostgresServer) -> None:
    target = opened(postgres)
    target.recover()

    def broken() -> Iterator[pa.RecordBatch]:
        yield rows_of(1, 100)
        raise OSError("the outbox cannot be read")

    with pytest.raises(OSError, match="outbox"):
        target.commit(1, broken())
    target.commit(1, batches(rows_of(1, 2)))
    target.close()
    assert found(postgres) == expected({1: 2})


def test_of_two_processes_that_write_a_tick_one_succeeds(postgres: PostgresServer) -> None:
    """One was cut off while it wrote, and is not dead: whoever replaces it waits for the end of its transaction."""
    slow, fast = opened(postgres), opened(postgres)
    slow.recover()
    fast.recover()
    with ThreadPoolExecutor(1) as process:

        def interrupted() -> Iterator[pa.RecordBatch]:
            process.submit(fast.commit, 5, batches(rows_of(5, 3)))
            yield rows_of(5, 3)

        slow.commit(5, interrupted())
    assert found(postgres) == expected({5: 3})
    for target in (slow, fast):
        target.close()


@settings(max_examples=examples(40))
@given(moves=st.lists(st.tuples(st.sampled_from(["new", "repeat", "reopen", "abort"]), st.integers(0, 3)), max_size=10))
def test_each_tick_once_whatever_happens(postgres_server: PostgresServer, moves: list[tuple[str, int]]) -> None:
    close_targets()
    postgres_server.clear()
    target, tick, ticks = opened(postgres_server), 0, {}
    target.recover()

    def aborted(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        yield rows
        raise InterruptedError

    for move, count in moves:
        if move == "new":
            tick += 1
            ticks[tick] = count
            target.commit(tick, batches(rows_of(tick, count)))
        elif move == "repeat" and tick:
            target.commit(tick, batches(rows_of(tick, ticks[tick])))
        elif move == "abort":
            with pytest.raises(InterruptedError):
                target.commit(tick + 1, aborted(rows_of(tick + 1, count)))
        elif move == "reopen":
            target.close()
            target = opened(postgres_server)
            assert target.recover() == tick
    target.close()
    assert found(postgres_server) == expected(ticks)


def test_a_server_that_is_killed_and_started_again(postgres: PostgresServer) -> None:
    target = opened(postgres)
    target.recover()
    target.commit(1, batches(rows_of(1, 1)))

    def killed() -> Iterator[pa.RecordBatch]:
        yield rows_of(2, 1)
        postgres.kill()
        yield rows_of(2, 1)

    with pytest.raises(RunError) as caught:
        target.commit(2, killed())
    assert not isinstance(caught.value, Undeliverable)
    with pytest.raises(RunError, match="Connection refused") as caught:
        opened(postgres)
    assert not isinstance(caught.value, Undeliverable)
    postgres.start()
    target = opened(postgres)
    assert target.recover() == 1
    target.commit(2, batches(rows_of(2, 1)))
    target.close()
    assert found(postgres) == expected({1: 1, 2: 1})


UPSERTED = pa.schema([("k", pa.int64()), ("part", pa.string()), ("v", pa.string())])


def _rows(*rows: tuple[int | None, str, str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"k": k, "part": part, "v": v} for k, part, v in rows], schema=UPSERTED)


def test_upsert_by_key(postgres: PostgresServer) -> None:
    target = opened(postgres, schema=UPSERTED, upsert="K, part")
    target.recover()
    target.commit(1, batches(_rows((1, "a", "old"), (1, "a", "new"), (2, "a", "x")), _rows((None, "a", "n"))))
    target.commit(2, batches(_rows((1, "a", "newest"), (1, "b", "y"), (None, "a", "n"))))
    target.commit(2, batches(_rows((1, "a", "wrong"))))
    target.close()
    assert Counter(postgres.query("SELECT k, part, v FROM results")) == Counter(
        [(1, "a", "newest"), (1, "b", "y"), (2, "a", "x"), (None, "a", "n"), (None, "a", "n")]
    )


def test_upsert_of_keys_only(postgres: PostgresServer) -> None:
    target = opened(postgres, schema=UPSERTED, upsert="k,part,v")
    target.recover()
    for tick in (1, 2):
        target.commit(tick, batches(_rows((1, "a", "x"), (1, "a", "x"))))
    target.close()
    assert postgres.query("SELECT k, part, v FROM results") == [(1, "a", "x")]


def test_upsert_into_a_table_needs_a_unique_index(postgres: PostgresServer) -> None:
    postgres.query("CREATE TABLE results (k bigint, part text, v text)")
    postgres.query("CREATE UNIQUE INDEX ON results (k) WHERE k > 0")
    target = opened(postgres, schema=UPSERTED, upsert="k")
    with pytest.raises(Undeliverable, match="no unique index on k"):
        target.recover()
    postgres.query("CREATE UNIQUE INDEX ON results (k)")
    target.recover()
    target.commit(1, batches(_rows((1, "a", "x"), (1, "b", "y"))))
    target.close()
    assert postgres.query("SELECT * FROM results") == [(1, "b", "y")]


def test_a_table_that_exists_with_wider_types_and_more_columns(postgres: PostgresServer) -> None:
    postgres.query(
        'CREATE TABLE results (id serial PRIMARY KEY, "Number" bigint, TEXT varchar, note text, '
        "tick bigint, at timestamptz NOT NULL DEFAULT now())"
    )
    target = opened(postgres)
    target.recover()
    target.commit(1, batches(rows_of(1, 2)))
    target.close()
    rows = postgres.query('SELECT id, "Number", text, note, tick, at IS NOT NULL FROM results')
    assert rows == [(1, 0, "0", None, 1, True), (2, 1, "1", None, 1, True)]


def test_a_table_that_cannot_take_the_results(postgres: PostgresServer) -> None:
    postgres.query("CREATE TABLE results (tick text, number integer, needed text NOT NULL)")
    target = opened(postgres)
    with pytest.raises(Undeliverable) as caught:
        target.recover()
    target.close()
    for reason in ("it has no column text", "its column tick is text, not bigint", "its column needed is NOT NULL"):
        assert reason in caught.value.problem
    assert postgres.query("SELECT to_regclass('watersmeet_ticks') IS NULL") == [(True,)]


def test_schemas_and_names_as_they_are_written(postgres: PostgresServer) -> None:
    target = opened(postgres, 'My schema.it"s')
    target.recover()
    target.commit(1, batches(rows_of(1, 1)))
    target.close()
    assert postgres.query('SELECT tick FROM "My schema"."it""s"') == [(1,)]
    assert postgres.query('SELECT tick FROM "My schema".watersmeet_ticks') == [(1,)]


def test_a_user_who_may_only_insert(postgres: PostgresServer) -> None:
    opened(postgres).recover()
    postgres.query("DROP ROLE IF EXISTS writer")
    postgres.query("CREATE ROLE writer LOGIN")
    reader = opened(postgres, user="writer")
    with pytest.raises(Undeliverable, match="permission denied"):
        reader.recover()
    reader.close()
    postgres.query("GRANT USAGE ON SCHEMA public TO writer")
    postgres.query("GRANT SELECT, INSERT, UPDATE ON watersmeet_ticks TO writer")
    postgres.query("GRANT INSERT ON results TO writer")
    writer = opened(postgres, user="writer")
    writer.recover()
    writer.commit(1, batches(rows_of(1, 1)))
    writer.close()
    assert found(postgres) == expected({1: 1})
    postgres.query("DROP OWNED BY writer")


def test_a_password_is_in_no_error(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_TESTS", "hunter-2")
    given = {**postgres.settings, "port": "1", "password": "env('SECRET_OF_TESTS')"}
    with pytest.raises(RunError) as caught:
        CONNECTOR.open(sender(Sink("postgres", "results", tuple(given.items()))))
    assert "hunter-2" not in str(caught.value)


OUTPUTS = (Output("tick", "bigint", ColumnRef("tick", "bigint")),)
TABLE = "results"
WRONG: dict[str, tuple[str, dict[str, str], str]] = {
    "no table": ("", {}, "does not name a table"),
    "too many parts": ("a.b.c", {}, "does not name a table"),
    "an empty part": (".results", {}, "does not name a table"),
    "a long name": ("x" * 64, {}, "cannot be a name in Postgres"),
    "a misspelled option": (TABLE, {"hots": "localhost"}, "unknown option hots"),
    "a password in the SQL": (TABLE, {"password": "hunter-2"}, "the option password is a secret"),
    "a password in the dsn": (TABLE, {"dsn": "postgresql://me:hunter-2@host/db"}, "has a password in it"),
    "a dsn that is none": (TABLE, {"dsn": "anything else"}, "no connection string"),
    "an unknown key": (TABLE, {"upsert": "tock"}, "names tock, which is no column"),
    "no key": (TABLE, {"upsert": " "}, "names no column"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_rejected_without_a_connection(case: str) -> None:
    table, options, problem = WRONG[case]
    with pytest.raises(ModelError, match=problem) as caught:
        CONNECTOR.check("books", Sink("postgres", table, tuple(options.items())), OUTPUTS)
    assert "hunter-2" not in str(caught.value)
