"""A topic as a target: the results of a tick are one transaction, which also has the number of the tick.

The number is an offset that the transaction commits for a consumer group of this home and query. Where that is gone
(brokers forget groups without members), the headers of the last messages of this query say it. A transaction whose
outcome is not known is ended by the next producer of the same transactional id, before anybody asks for the number.
"""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

import pyarrow as pa

from watersmeet import points
from watersmeet.errors import ModelError
from watersmeet.io.connectors.kafka.last_tick import HOME, QUERY, TICK, last_tick_in
from watersmeet.io.connectors.kafka.messages import AvroMessages, JsonMessages, Keys, Values, avro_schema, messages
from watersmeet.io.connectors.kafka.schemas import Schemas
from watersmeet.io.connectors.kafka.settings import SINK, check_avro, check_packages, client
from watersmeet.io.connectors.protocol import Sender, Undeliverable
from watersmeet.io.connectors.secrets import redacted
from watersmeet.model import Output, Sink
from watersmeet.model.types import outside

T = TypeVar("T")
_Headers = list[tuple[str, str | bytes | None]]
_GRACE = 5.0  # seconds
_MARK = 0  # the partition whose offset is the number of the tick


class KafkaTarget:
    def __init__(self, sender: Sender) -> None:
        from confluent_kafka import Consumer, Producer

        assert sender.sink.path
        settings, own = client(SINK, sender.sink.options)
        self._sender, self._topic = sender, sender.sink.path
        self._seconds = float(own["timeoutSeconds"])
        self._keys = Keys(sender.schema, own["key"]) if own["key"] else None
        self._values = _values(sender.schema, own, self._topic)
        self._is_stuck = False
        self._said = ""  # by librdkafka, of what keeps it from working
        name = f"watersmeet-{sender.home}-{sender.query}"
        sending = ("compression.type", "linger.ms", "batch.size", "batch.num.messages", "transaction.timeout.ms")
        shared = {key: value for key, value in settings.items() if key not in sending}
        self._reading = {**shared, "group.id": name, "enable.auto.commit": False, "isolation.level": "read_committed"}
        try:
            self._producer = Producer(
                {
                    "linger.ms": 5,
                    "compression.type": "lz4",
                    "queue.buffering.max.messages": 1_000_000,
                    **settings,
                    "transactional.id": name,
                    "enable.idempotence": True,
                    "error_cb": self._heard,
                }
            )
            self._consumer = Consumer(self._reading)
        except Exception as problem:
            raise Undeliverable(f"librdkafka rejects the options: {redacted(str(problem))}") from None

    def _heard(self, problem: Any) -> None:
        self._said = redacted(problem.str())

    # Recover -------------------------------------------------------------------------------------

    def recover(self) -> int:
        from confluent_kafka import TopicPartition

        with self._told("the transaction before it"):
            self._in_time(lambda: self._producer.init_transactions(self._seconds))
            listed = self._in_time(lambda: self._consumer.list_topics(self._topic, self._seconds))
            found = listed.topics[self._topic]
            if found.error is not None:
                raise ConnectionError(f"topic {self._topic}: {redacted(found.error.str())}")
            asked = [TopicPartition(self._topic, _MARK)]
            (mark,) = self._in_time(lambda: self._consumer.committed(asked, self._seconds))
            if mark.error is not None:
                raise ConnectionError(redacted(mark.error.str()))
            if mark.offset >= 0:
                return int(mark.offset)
            sender = self._sender
            return last_tick_in(self._reading, self._topic, list(found.partitions), sender.home, sender.query)

    # Commit --------------------------------------------------------------------------------------

    def commit(self, tick: int, rows: Iterator[pa.RecordBatch]) -> None:
        from confluent_kafka import TopicPartition

        with self._told(f"tick {tick}"):
            self._producer.begin_transaction()
            headers: _Headers = [(HOME, self._sender.home), (QUERY, self._sender.query), (TICK, str(tick))]
            for batch in rows:
                for value, key in messages(batch, self._values, self._keys):
                    self._send(value, key, headers)
            mark = TopicPartition(self._topic, _MARK, tick)
            group = self._consumer.consumer_group_metadata()
            self._patiently(lambda: self._producer.send_offsets_to_transaction([mark], group, self._seconds))
            if points.is_watched():
                self._producer.flush(self._seconds)
                points.reach("target.written")
            self._patiently(lambda: self._producer.commit_transaction(self._seconds))

    def _send(self, value: bytes, key: bytes | None, headers: _Headers) -> None:
        end = time.monotonic() + self._seconds
        while True:
            try:
                self._producer.produce(self._topic, value, key, headers=headers)
                return
            except BufferError:
                if time.monotonic() > end:
                    raise
                self._producer.poll(0.1)

    def _patiently(self, action: Callable[[], None]) -> None:
        """An action of a transaction that may be repeated, until it is done or the time is over."""
        from confluent_kafka import KafkaException

        end = time.monotonic() + self._seconds
        while True:
            try:
                return self._in_time(action)
            except KafkaException as problem:
                if not problem.args[0].retriable() or time.monotonic() > end:
                    raise

    def _in_time(self, action: Callable[[], T]) -> T:
        """librdkafka may wait for ever for a broker that was killed meanwhile, whatever time limit it is given. Then
        this producer is given up: the next one of the same transactional id makes it harmless."""
        done: Future[T] = Future()

        def work() -> None:
            try:
                done.set_result(action())
            except BaseException as problem:
                done.set_exception(problem)

        threading.Thread(target=work, name="kafka", daemon=True).start()
        try:
            return done.result(self._seconds + _GRACE)
        except TimeoutError:
            self._is_stuck = True
            raise ConnectionError(f"topic {self._topic}: no reply for {self._seconds:g} seconds") from None

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Errors in words that say what to do; whatever they are, the next one who opens the target begins anew."""
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as problem:
            error = problem.args[0]
            text = f"{what}: {redacted(error.str())}" + (f" ({self._said})" if self._said else "")
            if error.txn_requires_abort():
                with contextlib.suppress(Exception):
                    self._in_time(lambda: self._producer.abort_transaction(self._seconds))
            if error.code() in _for_ever():
                raise Undeliverable(f"topic {self._topic}: {text}") from None
            raise ConnectionError(f"topic {self._topic}: {text}") from None

    def close(self) -> None:
        self._values.close()
        if self._is_stuck:  # to close it would wait as well
            return
        self._consumer.close()
        self._producer.purge()
        with warnings.catch_warnings():  # that a transaction could not be aborted: the next producer does it
            warnings.simplefilter("ignore")
            self._producer.close()


def _for_ever() -> tuple[int, ...]:
    from confluent_kafka import KafkaError

    return (
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.POLICY_VIOLATION,
        KafkaError.INVALID_RECORD,
    )


def _values(schema: pa.Schema, own: dict[str, str], topic: str) -> Values:
    return AvroMessages(schema, Schemas(own), topic) if own["format"] == "avro" else JsonMessages(schema)


class _Kafka:
    def check(self, query: str, sink: Sink, outputs: tuple[Output, ...]) -> None:
        whose = f"query {query}"
        SINK.check(whose, sink.options)
        if not sink.path:
            raise ModelError(f"{whose}: INTO kafka needs a topic", hint="write INTO kafka 'topic' WITH (…)")
        check_packages(whose, sink.options)
        check_avro(whose, sink.options)
        given = dict(sink.options)
        schema = pa.schema([(output.name, outside(output.type)) for output in outputs])
        if given.get("format") == "avro" and not given.get("schema"):
            avro_schema(schema)
        if given.get("key"):
            Keys(schema, given["key"])

    def open(self, sender: Sender) -> KafkaTarget:
        return KafkaTarget(sender)


CONNECTOR = _Kafka()
