"""JSON messages as rows: whole batches and single messages mean the same, which is what Spark's from_json means."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.io.connectors.kafka.columns import Fields
from watersmeet.io.connectors.kafka.csv_values import CsvValues
from watersmeet.io.connectors.kafka.json_values import JsonValues
from watersmeet.model import Column, Source, Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = {
    "b": "BOOLEAN",
    "t": "TINYINT",
    "i": "INT",
    "l": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "n": "DECIMAL(9,2)",
    "s": "STRING",
    "day": "DATE",
    "at": "TIMESTAMP",
    "ntz": "TIMESTAMP_NTZ",
    "list": "ARRAY<BIGINT>",
    "pair": "STRUCT<x: BIGINT, y: STRING>",
}


def fields(options: dict[str, str] | None, kinds: dict[str, str]) -> Fields:
    columns = tuple(Column(name, kind) for name, kind in kinds.items())
    stream = Stream("s", (*columns, Column("_timestamp", "TIMESTAMP")), "_timestamp")
    source = Source("kafka", "t", tuple((options or {}).items()))
    return Fields.of(Stream("s", stream.columns, "_timestamp", source=source))


def decoded(found: Fields, *texts: bytes | None) -> tuple[list[dict[str, Any]], list[str | None]]:
    columns, problems = JsonValues(found).decode(texts)
    assert all(array.type == column.arrow for array, column in zip(columns.values(), found.columns, strict=True))
    return pa.table(columns).to_pylist(), problems


def test_whole_batches_and_single_messages_mean_the_same() -> None:
    """In a batch with a message that Arrow rejects, the others are read one by one."""
    value = {
        "b": True, "t": -3, "i": 5, "l": 2**62, "f": 0.5, "d": 1e300, "n": 12.34, "s": "é\n\"", "day": "2030-01-31",
        "at": "2030-01-31T12:00:00.123456Z", "ntz": "2030-01-31 12:00:00", "list": [1, None, 3],
        "pair": {"x": 1, "y": "z"}, "other": {"ignored": [1]},
    }  # fmt: skip
    good = json.dumps(value).encode()
    found = fields(None, KINDS)
    (fast,), problems = decoded(found, good)
    assert problems == [None]
    (slow, _), problems = decoded(found, good, b'{"l": "x"}')
    assert problems[0] is None and problems[1]
    assert fast == slow
    assert fast["at"] == dt.datetime(2030, 1, 31, 12, 0, 0, 123456) and fast["n"] == Decimal("12.34")


scalars: dict[str, st.SearchStrategy[Any]] = {
    "b": st.booleans(),
    "i": st.integers(-(2**31), 2**31 - 1),
    "l": st.integers(-(2**63), 2**63 - 1),
    "d": st.floats(allow_nan=False, allow_infinity=False),
    "s": st.text(st.characters(codec="utf-8"), max_size=8),
    "at": st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)).map(lambda at: at.isoformat() + "Z"),
    "day": st.dates().map(str),
}
rows = st.fixed_dictionaries({}, optional={name: st.none() | values for name, values in scalars.items()})
junk = st.binary(max_size=12) | st.sampled_from(
    [b"{", b"}", b"{}{}", b'{"i": 1.5}', b'{"l": 1e3}', b"", b'{"a":', b"7"]
)


@given(st.lists(rows.map(lambda row: json.dumps(row).encode()) | junk, max_size=30))
def test_any_batch_is_what_its_messages_are(texts: list[bytes]) -> None:
    found = fields(None, {name: KINDS[name] for name in scalars})
    together, problems = decoded(found, *texts)
    for text, row, problem in zip(texts, together, problems, strict=True):
        # With one that Arrow rejects beside it, a message is read alone.
        (alone, _), (why, _) = decoded(found, text, b'{"i": "x"}')
        assert (row, problem is None) == (alone, why is None), text
        if problem is None:
            expected = json.loads(text)
            assert row["i"] == expected.get("i") and row["s"] == expected.get("s")


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("BIGINT", "1", 1),
        ("BIGINT", "1.0", None),
        ("BIGINT", '"1"', None),
        ("DOUBLE", "1", 1.0),
        ("DOUBLE", '"Infinity"', float("inf")),
        ("DOUBLE", '"1"', None),
        ("STRING", "1.5", "1.5"),
        ("STRING", '{"a": [1, true]}', '{"a":[1,true]}'),
        ("BOOLEAN", '"true"', None),
        ("DECIMAL(5,2)", "1.005", Decimal("1.01")),
        ("DECIMAL(5,2)", '"7.5"', Decimal("7.50")),
        ("TIMESTAMP", "5", dt.datetime(1970, 1, 1, 0, 0, 5)),
        ("TIMESTAMP", '"2030-01-01T00:00:00+02:00"', dt.datetime(2029, 12, 31, 22)),
        ("TIMESTAMP", '"2030-01-01"', dt.datetime(2030, 1, 1)),
        ("DATE", '"2030-01-31"', dt.date(2030, 1, 31)),
        ("BINARY", '"aGk="', b"hi"),
        ("ARRAY<BIGINT>", "[1, 2]", [1, 2]),
        ("MAP<STRING,BIGINT>", '{"a": 1}', [("a", 1)]),
    ],
)
def test_values_are_those_of_from_json(spark: SparkSession, kind: str, text: str, expected: Any) -> None:
    """None: Spark makes NULL of it; here the message is set aside."""
    message = f'{{"v": {text}}}'
    (row,), (problem,) = decoded(fields(None, {"v": kind}), message.encode())
    assert (row["v"], problem is None) == (expected, expected is not None)
    from_json = spark.sql(f"SELECT from_json('{message}', 'v {kind.replace(':', ' ')}').v AS v")
    found = from_json.toArrow().column("v").cast(fields(None, {"v": kind}).columns[0].arrow).to_pylist()[0]
    assert found == expected


@pytest.mark.parametrize(
    ("kind", "text", "ours", "sparks"), [("TINYINT", "128", None, -128), ("STRING", "1.50", "1.50", "1.5")]
)
def test_values_that_differ_from_from_json(spark: SparkSession, kind: str, text: str, ours: Any, sparks: Any) -> None:
    """What docs/connectors.md says of it."""
    message = f'{{"v": {text}}}'
    assert decoded(fields(None, {"v": kind}), message.encode())[0] == [{"v": ours}]
    assert spark.sql(f"SELECT from_json('{message}', 'v {kind}').v").collect()[0][0] == sparks


def test_paths() -> None:
    found = fields(
        {"path.price": "$.payload.price", "path.at": "payload.meta.at"},
        {"price": "BIGINT", "at": "BIGINT", "id": "INT"},
    )
    texts = [b'{"id": 1, "payload": {"price": 7, "meta": {"at": 5}}}', b'{"id": 2}', b'{"id": 3, "payload": null}']
    (first, second, third, bad), problems = decoded(found, *texts, b'{"payload": 7}')
    assert first == {"price": 7, "at": 5, "id": 1}
    assert second == {"price": None, "at": None, "id": 2} and third["id"] == 3 and bad["id"] is None
    assert problems[:3] == [None] * 3 and problems[3]


def test_csv_lines() -> None:
    values = CsvValues(fields(None, {"at": "TIMESTAMP", "id": "BIGINT", "s": "STRING"}), ";")
    lines = [
        b"2030-01-01T00:00:00Z;7;a",
        b'2030-01-01T00:00:00Z;;""',
        b"x;y",
        b"2030-01-01T00:00:00Z;z;",
        b"a\nb",
        None,
    ]
    columns, problems = values.decode(lines)
    assert columns["id"].to_pylist() == [7, None, None, None, None, None]
    assert columns["s"].to_pylist()[:2] == ["a", ""]
    assert [problem is None for problem in problems] == [True, True, False, False, False, True]
