"""Results in topics of a real broker: what a read_committed consumer sees is what the query has found, once."""

from __future__ import annotations

import io
import itertools
import json
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tests.support.brokers.kafka import KafkaBroker
from tests.support.brokers.registry import running_registry
from tests.support.poisoned import HEALTHY, VICTIM, Poisoned
from tests.support.waiting import PATIENCE, eventually
from watersmeet.home.manifest import load_newest
from watersmeet.model import Sink

pytestmark = pytest.mark.connectors

_names = itertools.count()


class Sending(Poisoned):
    broker: KafkaBroker
    topic = ""

    def into_topic(self, select: str = HEALTHY["plain"], name: str = VICTIM, **options: str) -> None:
        given = {"bootstrap.servers": self.broker.address, "timeoutSeconds": "20", **options}
        self.declare(select, Sink("kafka", self.topic, tuple(given.items())), name)

    def messages(self, query: str = VICTIM) -> list[Any]:
        found = self.broker.messages(self.topic)
        return [one for one in found if ("watersmeet.query", query.encode()) in (one.headers() or ())]

    def in_topic(self) -> Counter[tuple[Any, ...]]:
        return Counter(tuple(json.loads(one.value()).values()) for one in self.messages())

    def check_sent(self) -> None:
        self.check()
        assert self.in_topic() == self.results("plain")


@pytest.fixture
def sending(broker: KafkaBroker, tmp_path: Path) -> Iterator[Sending]:
    made = Sending(tmp_path)
    made.broker, made.topic = broker, f"results{next(_names)}"
    broker.create(made.topic, 3)
    yield made


def test_each_result_once_through_restarts(sending: Sending) -> None:
    sending.into_topic()
    for _ in range(3):
        sending.live()
        sending.check_sent()
    for one in sending.messages():
        headers = dict(one.headers())
        assert int(headers["watersmeet.tick"]) in (1, 2, 3) and headers["watersmeet.home"]


def test_the_newest_tick_is_known_from_the_topic_itself(sending: Sending) -> None:
    """Brokers forget the offsets of groups without members."""
    sending.into_topic()
    sending.live()
    sending.live()
    sending.check_sent()
    admin, group = sending.broker.admin(), f"watersmeet-{load_newest(sending.home).tag}-{VICTIM}"
    eventually(lambda: _deleted(admin, group), what="the group was not deleted")
    sending.live()
    sending.check_sent()


def _deleted(admin: Any, group: str) -> bool:
    try:
        admin.delete_consumer_groups([group])[group].result(PATIENCE)
    except Exception as problem:
        return "NOT_FOUND" in str(problem)
    return True


@pytest.mark.parametrize(
    ("key", "expected"), [("a", lambda a, b: f"{a}"), ("concat(a, '-', b + 1)", lambda a, b: f"{a}-{b + 1}")]
)
def test_keys(sending: Sending, key: str, expected: Any) -> None:
    sending.into_topic(key=key)
    sending.live()
    found = [(one.key().decode(), json.loads(one.value())) for one in sending.messages()]
    assert found and all(key == expected(value["a"], value["b"]) for key, value in found)
    places: dict[bytes, set[int]] = {}
    for one in sending.messages():
        places.setdefault(one.key(), set()).add(one.partition())
    assert all(len(found) == 1 for found in places.values())


def test_values_of_all_types(sending: Sending) -> None:
    sending.into_topic(
        "SELECT r.ts AS ts, r.id AS id, r.s AS s, r.n AS n, r.list AS list, r.d AS d, r.struct AS struct, "
        "CAST(r.n AS DECIMAL(9, 2)) AS dec, r.n > 2 AS yes FROM r [RANGE 0 SECONDS]"
    )
    sending.live(d=float("nan"), s=pa.array(['a "quoted" ☃\n'] * 8))
    one = json.loads(sending.messages()[0].value())
    assert one["ts"].endswith("Z") and "T" in one["ts"]
    assert one["s"] == 'a "quoted" ☃\n' and one["list"] == [1, 2] and one["struct"] == {"x": 1} and one["d"] == "NaN"


def test_avro_with_a_registry(sending: Sending) -> None:
    with running_registry() as registry:
        sending.into_topic(format="avro", **{"schema.registry.url": registry.address})
        sending.live()
        sending.live()
        found: Counter[tuple[Any, ...]] = Counter()
        for one in sending.messages():
            magic, number = struct.unpack_from(">bI", one.value())
            assert magic == 0
            schema = fastavro.parse_schema(json.loads(registry.schemas[number]))
            row: Any = fastavro.schemaless_reader(io.BytesIO(one.value()[5:]), schema, None)
            found[tuple(row.values())] += 1
        assert found == sending.results("plain")
        assert list(registry.subjects) == [f"{sending.topic}-value"]


def test_two_queries_share_a_topic(sending: Sending) -> None:
    sending.into_topic()
    sending.into_topic(name="other")
    sending.live()
    sending.live()
    sending.check_sent()
    assert len(sending.messages("other")) == sending.results("plain").total()


def test_a_missing_topic_is_tried_again(sending: Sending) -> None:
    there, sending.topic = sending.topic, f"{sending.topic}_later"
    sending.into_topic(timeoutSeconds="2")
    with sending.running() as engine:
        sending.feed()
        engine.run_once()
        waiting = eventually(lambda: engine.stats().as_json()["outbox"].get(VICTIM))
        assert waiting["ticks"] == 1 and sending.topic in waiting["reason"], waiting
        assert not sending.suspended and there
        sending.broker.create(sending.topic)
        eventually(lambda: sending.in_topic() == sending.results("plain"))


def test_a_message_that_is_too_long_suspends_the_query(sending: Sending) -> None:
    sending.into_topic(
        "SELECT r.id AS a, repeat(repeat(r.s, 100), 10) AS b FROM r [RANGE 0 SECONDS]", **{"message.max.bytes": "2000"}
    )
    sending.live()
    sending.live()
    assert "too large" in sending.reason().lower()
    sending.check()
    assert not sending.messages()


def test_secrets_are_nowhere(
    sending: Sending, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A password that librdkafka cannot use, so that it complains."""
    monkeypatch.setenv("TEST_KAFKA_PASSWORD", "hunter2-hunter2")
    sending.into_topic(
        **{
            "timeoutSeconds": "2",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "somebody",
            "sasl.password": "env('TEST_KAFKA_PASSWORD')",
            "ssl.key.pem": "env('TEST_KAFKA_PASSWORD')",
        }
    )
    with sending.running() as engine:
        sending.feed()
        engine.run_once()
        eventually(lambda: engine.stats().as_json()["outbox"].get(VICTIM, {}).get("reason"))
        shown = f"{engine.explain()} {engine.stats().as_json()} {engine['victim'].query}"
        engine.query("late", HEALTHY["plain"], engine["victim"].query.sink)
        engine.run_once()
    assert "hunter2" not in shown and "hunter2" not in caplog.text
    stored = [path for path in sending.home.rglob("*") if path.is_file()]
    assert stored and not [path for path in stored if b"hunter2" in path.read_bytes()]
