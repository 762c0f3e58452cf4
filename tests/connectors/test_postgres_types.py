"""Every type and value in a table of Postgres."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.stores.postgres_server import PostgresServer
from tests.support.stores.postgres_targets import close_all, close_targets, opened  # noqa: F401 - a fixture
from tests.support.stores.results import EVERY_TYPE, VALUES, batches, every_value
from watersmeet.io.connectors.protocol import Undeliverable

pytestmark = pytest.mark.connectors


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


@settings(max_examples=examples(40))
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
