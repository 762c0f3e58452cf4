"""Streams that are topics of a real broker: what arrives, what is set aside, and what is an error."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from confluent_kafka import Producer, TopicPartition

from tests.support.brokers.kafka import KafkaBroker
from tests.support.earlier_version import lines_of, with_positions
from tests.support.waiting import PATIENCE, eventually
from watersmeet import Engine
from watersmeet.errors import InputError
from watersmeet.home.manifest import load_newest
from watersmeet.io.positions import load_positions

pytestmark = pytest.mark.connectors

_names = itertools.count()
COLUMNS = "at TIMESTAMP, id BIGINT, name STRING"


class Reading:
    """An engine in this process that reads one topic, and a query that has each of its rows as a result."""

    def __init__(self, broker: KafkaBroker, folder: Path, partitions: int = 2) -> None:
        self.broker, self.folder = broker, folder
        self.topic = f"topic{next(_names)}"
        self.columns, self.time, self.options = COLUMNS, "at", {"maxRowsPerTick": "7"}
        self.ids = itertools.count()
        broker.create(self.topic, partitions)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def engine(self) -> Engine:
        given = {"bootstrap.servers": self.broker.address, "timeoutSeconds": "60", **self.options}
        options = ", ".join(f"'{name}' = '{value}'" for name, value in given.items())
        engine = Engine(home=self.home, executor="local", plan_seconds=0.05, tick="1 millisecond")
        engine.sql(
            f"CREATE STREAM s ({self.columns}) TIMESTAMP BY {self.time} LATENESS INTERVAL '1' DAY "
            f"AHEAD UNBOUNDED FROM kafka '{self.topic}' WITH ({options});"
            f"CREATE QUERY q AS SELECT * FROM s [RANGE 0 SECONDS]"
        )
        return engine

    def live(self) -> None:
        with self.engine() as engine:
            engine.run_once()

    def send(self, count: int = 10, **more: Any) -> list[int]:
        ids = [next(self.ids) for _ in range(count)]
        values = [json.dumps({"at": "2030-01-01T00:00:00Z", "id": one, "name": f"n{one}"}).encode() for one in ids]
        self.broker.send(self.topic, list(values), **more)
        return ids

    def results(self) -> list[dict[str, Any]]:
        return rows_of(f"{self.home}/results/q/*.parquet")

    def read(self) -> list[int]:
        return sorted(row["id"] for row in self.results())

    def rejected(self) -> list[dict[str, Any]]:
        return rows_of(f"{self.home}/rejected/s/*.parquet")


def rows_of(files: str) -> list[dict[str, Any]]:
    with duckdb.connect() as reader:
        found: Any = reader.sql(f"FROM read_parquet('{files}')").to_arrow_table()
        return list(found.to_pylist())


@pytest.fixture
def reading(broker: KafkaBroker, tmp_path: Path) -> Iterator[Reading]:
    yield Reading(broker, tmp_path)


def test_each_message_once_through_restarts(reading: Reading) -> None:
    sent = []
    for _ in range(3):
        sent += reading.send(23)
        reading.live()
        assert reading.read() == sent
    assert load_newest(reading.home).tick > 9  # seven rows per tick, at most
    assert load_positions(reading.home, "0").batch == load_newest(reading.home).batches["0"]


def test_only_committed_messages(reading: Reading) -> None:
    sent = reading.send(5)
    producer = Producer(reading.broker.settings(**{"transactional.id": "x"}))
    producer.init_transactions(30)
    for is_committed in (False, True, False):
        producer.begin_transaction()
        for one in range(1000, 1003):
            text = json.dumps({"at": "2030-01-01T00:00:00Z", "id": one + 100 * is_committed, "name": "t"})
            producer.produce(reading.topic, text.encode())
        producer.flush(30)
        (producer.commit_transaction if is_committed else producer.abort_transaction)(30)
    reading.live()
    assert reading.read() == [*sent, 1100, 1101, 1102]
    producer.begin_transaction()
    producer.produce(reading.topic, b'{"at": "2030-01-01T00:00:00Z", "id": 5000, "name": "open"}')
    producer.flush(30)
    reading.live()
    assert 5000 not in reading.read()
    producer.commit_transaction(30)
    reading.live()
    assert reading.read() == [*sent, 1100, 1101, 1102, 5000]


def test_malformed_messages_are_set_aside_with_their_offsets(reading: Reading) -> None:
    reading.broker.send(
        reading.topic,
        [b"{", b"{}{}", b"7", b'{"at": "2030-01-01", "id": "x"}', b"\xff\xfe", b'{"at": 1, "id": 1.5}'],
        partition=1,
    )
    good = reading.send(3)
    reading.live()
    assert reading.read() == good
    aside = reading.rejected()
    assert sorted(row["_offset"] for row in aside) == [0, 1, 2, 3, 4, 5]
    assert {(row["_topic"], row["_partition"], row["rejected_because"]) for row in aside} == {
        (reading.topic, 1, "unreadable")
    }
    assert any("is not a value of type BIGINT" in row["_corrupt_record"] for row in aside)


def test_pseudo_columns(reading: Reading) -> None:
    reading.columns = (
        "_timestamp TIMESTAMP, id BIGINT, _key STRING, _headers ARRAY<STRUCT<key: STRING, value: BINARY>>, "
        "_topic STRING, _partition INT, _offset BIGINT, at TIMESTAMP"
    )
    reading.broker.send(
        reading.topic,
        [b'{"id": 3, "at": "2030-01-01 00:00:00"}'],
        key="k",
        headers=[("a", b"1"), ("a", b"\xff")],
        partition=1,
        timestamp=1_700_000_000_123,
    )
    reading.live()
    (row,) = reading.results()
    assert row["_key"] == "k" and row["_partition"] == 1 and row["_offset"] == 0 and row["_topic"] == reading.topic
    assert row["_headers"] == [{"key": "a", "value": b"1"}, {"key": "a", "value": b"\xff"}]
    assert row["_timestamp"].timestamp() == 1_700_000_000.123


@pytest.mark.parametrize(("given", "expected"), [("latest", 0), ("earliest", 10), ('{"0": 4, "1": 9}', 1 + 6)])
def test_starting_offsets_count_once(reading: Reading, given: str, expected: int) -> None:
    reading.options["startingOffsets"] = given
    first = [*reading.send(10, partition=0)]
    if "9" in given:
        reading.send(10, partition=1)
    reading.live()
    assert len(reading.read()) == expected
    later = reading.send(3)
    reading.options["startingOffsets"] = "earliest"  # too late
    reading.live()
    assert len(reading.read()) == expected + 3
    assert set(later) <= set(reading.read()) and first


def test_a_starting_time(reading: Reading) -> None:
    reading.options["startingOffsets"] = "2023-01-01T00:00:00Z"
    reading.send(4, timestamp=1_600_000_000_000)
    late = reading.send(2, timestamp=1_700_000_000_000)
    reading.live()
    assert reading.read() == late


def test_new_partitions_are_read_from_their_beginning(reading: Reading) -> None:
    reading.options["startingOffsets"] = "latest"
    reading.send(3)
    reading.live()
    reading.broker.grow(reading.topic, 4)
    sent = reading.send(6, partition=3)

    def is_read() -> bool:
        reading.live()
        return reading.read() == sent

    eventually(is_read, what="the new partition was not read")


def test_a_topic_that_was_created_again(reading: Reading) -> None:
    first = reading.send(10)
    reading.live()
    reading.broker.delete(reading.topic)
    with pytest.raises(InputError, match="there is no topic"):
        reading.live()
    reading.broker.create(reading.topic, 2)
    second = reading.send(15)
    with pytest.raises(InputError, match="deleted and created again") as caught:
        reading.live()
    assert "failOnDataLoss = false" in str(caught.value)
    assert reading.read() == first
    reading.options["failOnDataLoss"] = "false"
    reading.live()
    assert reading.read() == first + second


def test_messages_that_are_gone(reading: Reading) -> None:
    sent = reading.send(10, partition=0)
    reading.live()
    gone = reading.send(10, partition=0)
    delete_before(reading, 15)
    with pytest.raises(InputError, match="offsets 10 to 14 of partition 0 are gone"):
        reading.live()
    assert reading.read() == sent
    reading.options["failOnDataLoss"] = "false"
    reading.live()
    assert reading.read() == sent + gone[5:]
    (listed,) = [json.loads(line) for line in (reading.home / "rejected/s/files.jsonl").read_text().splitlines()]
    assert listed["because"] == "offsets 10 to 14 were gone"
    counted = load_newest(reading.home).totals.set_aside
    assert [(reason.value, count) for (reason, _), count in counted.items()] == [("lost messages", 5)]


def test_messages_of_a_batch_that_is_repeated_are_gone(reading: Reading) -> None:
    """The batch was begun before a crash."""
    reading.options["maxRowsPerTick"] = "100"
    sent = reading.send(10, partition=0)
    reading.live()
    gone = reading.send(10, partition=0)
    log = load_positions(reading.home, "0")
    log.begin({"s": {**log.extents["s"], "ranges": {"0": [10, 20], "1": [0, 0]}}}, dict)
    delete_before(reading, 13)
    with pytest.raises(InputError, match="offsets 10 to 12 of partition 0 are gone"):
        reading.live()
    reading.options["failOnDataLoss"] = "false"
    reading.live()
    assert reading.read() == sent + gone[3:]
    reading.live()
    assert reading.read() == sent + gone[3:]


def test_a_home_of_an_earlier_version_resumes(reading: Reading) -> None:
    sent = reading.send(20)
    reading.live()
    first, *lines = lines_of(reading.home)
    earlier = [{"batch": line["batch"], "streams": line["streams"]} for line in lines]
    earlier.insert(0, {"batch": -1, "streams": first["before"]})
    with_positions(reading.home, "0.offsets.jsonl", earlier)
    for _ in range(2):
        sent += reading.send(10)
        reading.live()
        assert reading.read() == sent
    assert [path.name for path in (reading.home / "positions").iterdir()] == ["0.offsets.jsonl"]


def delete_before(reading: Reading, offset: int) -> None:
    """What retention does, at once."""
    admin = reading.broker.admin()
    part = TopicPartition(reading.topic, 0, offset)
    admin.delete_records([part])[part].result(PATIENCE)


def test_a_missing_topic_and_an_unreachable_broker(reading: Reading) -> None:
    reading.topic = "no_such_topic"
    with pytest.raises(InputError, match="there is no topic no_such_topic"):
        reading.live()
    reading.options |= {"bootstrap.servers": "127.0.0.1:1", "timeoutSeconds": "1"}
    with pytest.raises(InputError, match="cannot be reached"):
        reading.live()


@pytest.mark.parametrize(
    ("kind", "columns", "value", "expected"),
    [
        ("raw", "_timestamp TIMESTAMP, v STRING", b"any text", {"v": "any text"}),
        ("csv", "at TIMESTAMP, id BIGINT, v STRING", b'2030-01-01T00:00:00Z;7;"a;b"', {"id": 7, "v": "a;b"}),
        ("json", "at TIMESTAMP, price BIGINT", b'{"at": 5, "payload": {"price": 7}}', {"price": 7}),
    ],
)
def test_formats(reading: Reading, kind: str, columns: str, value: bytes, expected: dict[str, Any]) -> None:
    reading.columns, reading.time = columns, columns.split(maxsplit=1)[0]
    reading.options |= {"format": kind}
    if kind == "csv":
        reading.options["sep"] = ";"
    if kind == "json":
        reading.options["path.price"] = "$.payload.price"
    reading.broker.send(reading.topic, [value])
    reading.live()
    (row,) = reading.results()
    assert {name: row[name] for name in expected} == expected


def test_streams_that_were_declared_together_advance_together(broker: KafkaBroker, tmp_path: Path) -> None:
    """A join of two topics, with messages that come while it runs."""
    for name in ("left", "right"):
        broker.create(name, 3)
    options = f"WITH ('bootstrap.servers' = '{broker.address}', maxRowsPerTick = 50)"
    engine = Engine(home=tmp_path / "home", executor="local", plan_seconds=0.05, tick="20 milliseconds")
    for name in ("left", "right"):
        engine.sql(
            f"CREATE STREAM {name}_ (at TIMESTAMP, k BIGINT, id BIGINT) TIMESTAMP BY at LATENESS INTERVAL '1' DAY "
            f"AHEAD UNBOUNDED FROM kafka '{name}' {options}"
        )
    engine.sql(
        "CREATE QUERY q AS SELECT l.id AS a, r.id AS b "
        "FROM left_ [RANGE 1 HOUR] l, right_ [RANGE 1 HOUR] r WHERE l.k = r.k"
    )
    sent: dict[str, list[tuple[int, int]]] = {"left": [], "right": []}
    with engine.start():
        for batch in range(5):
            for name in sent:
                new = [(one % 17, one) for one in range(batch * 100, batch * 100 + 100)]
                texts = [json.dumps({"at": "2030-01-01T00:00:00Z", "k": k, "id": one}).encode() for k, one in new]
                broker.send(name, list(texts))
                sent[name] += new
            time.sleep(0.2)
        expected = Counter((a, b) for k, a in sent["left"] for other, b in sent["right"] if k == other)

        def found() -> Counter[tuple[int, int]]:
            with duckdb.connect() as reader:
                return Counter(reader.execute(f"FROM read_parquet('{tmp_path}/home/results/q/*.parquet')").fetchall())

        eventually(lambda: found() == expected, what="not all results came")
