"""A table of Postgres as a target, without an engine: each tick once, whoever writes it; every type; upserts."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.stores.postgres_server import PostgresServer
from tests.support.stores.results import EVERY_TYPE, SCHEMA, VALUES, batches, every_value, rows_of, sender
from watersmeet.errors import ModelError, RunError
from watersmeet.io.connectors.postgres.connector import CONNECTOR
from watersmeet.io.connectors.protocol import Target, Undeliverable
from watersmeet.model import ColumnRef, Output, Sink

pytestmark = pytest.mark.connectors


def sink(server: PostgresServer, table: str = "results", **options: str) -> Sink:
    return Sink("postgres", table, tuple({**server.settings, **options}.items()))


def opened(server: PostgresServer, table: str = "results", schema: pa.Schema = SCHEMA, **options: str) -> Target:
    target = CONNECTOR.open(sender(sink(server, table, **options), schema=schema))
    _open.append(target)
    return target


_open: list[Target] = []


@pytest.fixture(autouse=True)
def close_all() -> Iterator[None]:
    """Also where a test fails."""
    yield
    close_targets()


def close_targets() -> None:
    while _open:
        _open.pop().close()


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


@settings(max_examples=40)
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


def _plain(value: Any) -> Any:
    """As JSON has it: floats that it does not have are texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return [_plain(one) for one in value] if isinstance(value, list) else value


def test_every_type(postgres: PostgresServer) -> None:
    target = opened(postgres, schema=EVERY_TYPE)
    target.recover()
    target.commit(1, batches(every_value()))
    target.close()
    columns = ", ".join(f'"{name}"' for name in EVERY_TYPE.names)
    rows = postgres.query(f"SELECT {columns} FROM results ORDER BY yes DESC NULLS LAST")
    for at, name in enumerate(EVERY_TYPE.names):
        values = [*VALUES[name], None]
        if name == "pairs":
            values = [{"k": 1}, {}, None]
        if name in ("single", "double"):
            assert [str(row[at]) for row in rows] == [str(value) for value in values], name
        else:
            assert [row[at] for row in rows] == [_plain(value) for value in values], name
    kinds = dict(
        postgres.query(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = 'results'::regclass AND attnum > 0"
        )
    )
    assert kinds == {
        "yes": "boolean",
        "tiny": "smallint",
        "small": "smallint",
        "whole": "integer",
        "long": "bigint",
        "single": "real",
        "double": "double precision",
        "amount": "numeric(38,10)",
        "text": "text",
        "bytes": "bytea",
        "day": "date",
        "moment": "timestamp with time zone",
        "local": "timestamp without time zone",
        "list": "jsonb",
        "record": "jsonb",
        "pairs": "jsonb",
    }


_MICROS = 1_000_000
_YEARS = st.integers(-200_000_000_000 * _MICROS, 9_000_000_000_000 * _MICROS)  # 4368 BC to 287168 AD


@settings(max_examples=40)
@given(
    texts=st.lists(st.one_of(st.none(), st.text(st.characters(codec="utf-8"))), min_size=1, max_size=5),
    number=st.floats(width=64),
    single=st.floats(width=32),
    moment=_YEARS,
    amount=st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**20), max_value=10**20),
)
def test_any_value_arrives_as_it_is(
    postgres_server: PostgresServer,
    texts: list[str | None],
    number: float,
    single: float,
    moment: int,
    amount: decimal.Decimal,
) -> None:
    close_targets()
    postgres_server.clear()
    schema = pa.schema(
        [
            ("at", pa.int64()),
            ("text", pa.string()),
            ("number", pa.float64()),
            ("single", pa.float32()),
            ("moment", pa.timestamp("us", "UTC")),
            ("local", pa.timestamp("us")),
            ("day", pa.date32()),
            ("amount", pa.decimal128(38, 6)),
            ("listed", pa.list_(pa.string())),
        ]
    )
    count = len(texts)
    columns: list[Any] = [
        pa.array(range(count), pa.int64()),
        pa.array(texts, pa.string()),
        pa.array([number] * count),
        pa.array([single] * count, pa.float32()),
        pa.array([moment] * count, pa.int64()).cast(schema.field("moment").type),
        pa.array([moment] * count, pa.int64()).cast(schema.field("local").type),
        pa.array([moment // (86_400 * _MICROS)] * count, pa.int32()).cast(pa.date32()),
        pa.array([amount] * count, pa.decimal128(38, 6)),
        pa.array([[text] for text in texts], pa.list_(pa.string())),
    ]
    target = opened(postgres_server, schema=schema)
    target.recover()
    target.commit(1, batches(pa.RecordBatch.from_arrays(columns, schema=schema)))
    target.close()
    micros = "(extract(epoch FROM {}) * 1000000)::bigint"
    rows = postgres_server.query(
        f"SELECT text, number, single, {micros.format('moment')}, {micros.format('local')}, day - '1970-01-01'::date, "
        "amount, listed::text FROM results ORDER BY at"
    )
    for text, row in zip(texts, rows, strict=True):
        written = None if text is None else text.replace("\0", "␀")
        assert row[0] == written
        assert str(row[1]) == str(number)
        assert str(np.float32(row[2])) == str(np.float32(single))
        assert row[3:7] == (moment, moment, moment // (86_400 * _MICROS), amount)
        assert json.loads(row[7]) == [written]


def test_one_column_of_nulls_and_end_marks(postgres: PostgresServer) -> None:
    schema = pa.schema([("text", pa.string())])
    values = [None, "", "\\.", "\\N", "NULL", '"']
    target = opened(postgres, schema=schema)
    target.recover()
    target.commit(1, batches(pa.RecordBatch.from_arrays([pa.array(values)], schema=schema)))
    target.close()
    assert Counter(postgres.query("SELECT text FROM results")) == Counter((value,) for value in values)


def test_strings_with_nul_are_written_with_a_sign_for_it_and_a_warning(
    postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    schema = pa.schema([("text", pa.string()), ("listed", pa.list_(pa.string()))])
    rows = pa.RecordBatch.from_pylist([{"text": "a\0b", "listed": ["\0", "\\u0000"]}], schema=schema)
    target = opened(postgres, schema=schema)
    target.recover()
    with caplog.at_level("WARNING", "watersmeet"):
        target.commit(1, batches(rows))
    target.close()
    assert postgres.query("SELECT text, listed FROM results") == [("a␀b", ["␀", "\\u0000"])]
    assert "2 strings have a NUL" in caplog.text


def test_a_moment_that_postgres_does_not_have(postgres: PostgresServer) -> None:
    schema = pa.schema([("moment", pa.timestamp("us"))])
    column = pa.array([-(2**62)], pa.int64()).cast(schema.field(0).type)
    target = opened(postgres, schema=schema)
    target.recover()
    with pytest.raises(Undeliverable, match="out of range"):
        target.commit(1, batches(pa.RecordBatch.from_arrays([column], schema=schema)))
    target.close()


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


def test_times_are_utc_whatever_the_server_says(postgres: PostgresServer) -> None:
    postgres.query("ALTER ROLE postgres SET timezone = 'Asia/Tokyo'")
    try:
        schema = pa.schema([("moment", pa.timestamp("us", "UTC"))])
        moment = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
        target = opened(postgres, schema=schema)
        target.recover()
        target.commit(1, batches(pa.RecordBatch.from_arrays([pa.array([moment], schema.field(0).type)], schema=schema)))
        target.close()
        assert postgres.query("SELECT moment FROM results") == [(moment,)]
    finally:
        postgres.query("ALTER ROLE postgres RESET timezone")
