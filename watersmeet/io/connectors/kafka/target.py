"""A topic as a target: the results of a tick are one transaction, which also has the number of the tick.

The number is an offset that the transaction commits for a consumer group of this home and query. Where that is gone
(brokers forget groups without members), the headers of the last messages of this query say it. A transaction whose
outcome is not known is ended by the next producer of the same transactional id, before anybody asks for the number.
A tick is delivered once readers of committed messages see it, not when its commit is acknowledged (`hanging.py`).
"""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

import pyarrow as pa

from watersmeet import points
from watersmeet.errors import ModelError
from watersmeet.io.connectors.kafka.hanging import are_reached, ends
from watersmeet.io.connectors.kafka.last_tick import HOME, QUERY, TICK, LastTicks, Message
from watersmeet.io.connectors.kafka.messages import AvroMessages, JsonMessages, Keys, avro_schema, messages
from watersmeet.io.connectors.kafka.schemas import Schemas
from watersmeet.io.connectors.kafka.settings import SINK, check_needs, client, of_any_client
from watersmeet.io.connectors.protocol import Sender, Undeliverable
from watersmeet.io.connectors.secrets import redacted
from watersmeet.io.sinks import result_schema
from watersmeet.model import Output, Sink

T = TypeVar("T")
_Headers = list[tuple[str, str | bytes | None]]
_GRACE = 5.0  # seconds
_PAUSE = 0.05  # between two tries
_LOOKED_AT = 100_000  # messages at the end of each partition: whether they are of a tick behind the number
_MARK = 0  # the partition whose offset is the number of the tick


class KafkaTarget:
    def __init__(self, sender: Sender) -> None:
        from confluent_kafka import Consumer, Producer
        from confluent_kafka.admin import AdminClient

        assert sender.sink.path
        settings, own = client(SINK, sender.sink.options)
        self._sender, self._topic = sender, sender.sink.path
        self._seconds = float(own["timeoutSeconds"])
        self._keys = Keys(sender.schema, own["key"]) if own["key"] else None
        self._values: AvroMessages | JsonMessages = (
            AvroMessages(sender.schema, Schemas(own), self._topic)
            if own["format"] == "avro"
            else JsonMessages(sender.schema)
        )
        self._is_stuck = False
        self._partitions: list[int] = []
        self._visible: tuple[int, Counter[Message]] = 0, Counter()  # a tick, and what the topic has of it already
        self._said = ""  # by librdkafka, of what keeps it from working
        name = f"watersmeet-{sender.home}-{sender.query}"
        shared = of_any_client(settings)
        self._reading = {**shared, "group.id": name, "enable.auto.commit": False, "isolation.level": "read_committed"}
        self._reading |= {"retry.backoff.ms": 5, "retry.backoff.max.ms": 100}  # partitions hear of a commit soon
        self._last = LastTicks(self._reading, self._topic, sender.home, sender.query)
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
            self._admin = AdminClient(shared)
        except Exception as problem:
            raise Undeliverable(f"librdkafka rejects the options: {redacted(str(problem))}") from None

    def _heard(self, problem: Any) -> None:
        self._said = redacted(problem.str())

    # Recover -------------------------------------------------------------------------------------

    def recover(self) -> int:
        with self._told("the transaction before it"):
            self._in_time(lambda: self._producer.init_transactions(self._seconds))
            listed = self._in_time(lambda: self._consumer.list_topics(self._topic, self._seconds))
            found = listed.topics[self._topic]
            if found.error is not None:
                raise ConnectionError(f"topic {self._topic}: {redacted(found.error.str())}")
            self._partitions = list(found.partitions)
            if self._hangs():
                self._step_back()
                self._abort_what_hangs()
            mark = self._mark()
            newest = self._last.newest(self._partitions, _LOOKED_AT if mark >= 0 else None)
            if newest > mark >= 0:
                # A part of this tick may be missing. What is there is left out when it is delivered again.
                self._visible = newest, self._last.messages(self._partitions, newest)
                return newest - 1
            return max(mark, newest)

    def _mark(self) -> int:
        """The tick of the last transaction that has ended where the number is; below 0: there is none."""
        from confluent_kafka import TopicPartition

        asked = [TopicPartition(self._topic, _MARK)]
        (mark,) = self._patiently(lambda: self._consumer.committed(asked, self._seconds))
        if mark.error is not None:
            raise ConnectionError(redacted(mark.error.str()))
        return int(mark.offset)

    def _ends(self) -> dict[int, int]:
        return ends(self._admin, self._topic, self._partitions, False, self._seconds)

    def _hangs(self) -> bool:
        """Whether something in the topic may be without an end, though no transaction of this producer is open."""
        from confluent_kafka import KafkaError, KafkaException

        if not are_reached(self._admin, self._topic, self._ends(), min(self._seconds, _GRACE)):
            return True
        try:
            self._mark()
        except KafkaException as problem:
            if problem.args[0].code() != KafkaError._TIMED_OUT:
                raise
            return True
        return False

    def _step_back(self) -> None:
        """Number of the tick before the one that hangs: the abort makes it incomplete, and whoever opens the topic
        after that has to know, also if this process or the broker does not live to deliver it again."""
        begins = ends(self._admin, self._topic, self._partitions, True, self._seconds)
        tick = self._last.newest_between(begins, self._ends())
        if tick == 0:  # another producer's transaction is open, or the number hangs alone: the tick itself is complete
            return
        self._producer.begin_transaction()
        self._send_mark(tick - 1)
        self._patiently(lambda: self._producer.commit_transaction(self._seconds))
        if self._mark() != tick - 1:
            raise ConnectionError(f"topic {self._topic}: its number is not that of tick {tick - 1}")
        points.reach("target.stepped_back")

    def _abort_what_hangs(self) -> None:
        """An aborted transaction with a message in each partition ends whatever hangs there."""
        self._producer.begin_transaction()
        for partition in self._partitions:
            self._producer.produce(self._topic, None, b"", partition=partition)  # compacted topics want a key
        self._send_mark(0)
        self._producer.flush(self._seconds)
        upto = self._ends()
        self._patiently(lambda: self._producer.abort_transaction(self._seconds))
        if not are_reached(self._admin, self._topic, upto, self._seconds):
            raise ConnectionError(f"topic {self._topic}: a transaction holds its readers back")
        points.reach("target.cleared")

    # Commit --------------------------------------------------------------------------------------

    def commit(self, tick: int, rows: Iterator[pa.RecordBatch]) -> None:
        there = self._visible[1] if self._visible[0] == tick else Counter()
        with self._told(f"tick {tick}"):
            self._producer.begin_transaction()
            headers: _Headers = [(HOME, self._sender.home), (QUERY, self._sender.query), (TICK, str(tick))]
            for batch in rows:
                for value, key in messages(batch, self._values, self._keys):
                    if there[key, value]:
                        there[key, value] -= 1
                    else:
                        self._send(value, key, headers)
            self._send_mark(tick)
            self._producer.flush(self._seconds)
            upto = self._ends()
            points.reach("target.written")
            self._patiently(lambda: self._producer.commit_transaction(self._seconds))
            points.reach("target.acknowledged", tick)
            if not are_reached(self._admin, self._topic, upto, self._seconds) or self._mark() != tick:
                raise ConnectionError(f"topic {self._topic}: tick {tick} was acknowledged, and readers do not see it")

    def _send_mark(self, tick: int) -> None:
        from confluent_kafka import TopicPartition

        mark = TopicPartition(self._topic, _MARK, tick)
        group = self._consumer.consumer_group_metadata()
        self._patiently(lambda: self._producer.send_offsets_to_transaction([mark], group, self._seconds))

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

    def _patiently(self, action: Callable[[], T]) -> T:
        """An action that may be repeated, until it is done or the time is over."""
        from confluent_kafka import KafkaException

        end = time.monotonic() + self._seconds
        while True:
            try:
                return self._in_time(action)
            except KafkaException as problem:
                error = problem.args[0]
                if not (error.retriable() or error.code() in _for_a_moment()) or time.monotonic() > end:
                    raise
            time.sleep(_PAUSE)

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


def _for_a_moment() -> tuple[int, ...]:
    """While a broker starts, or another one takes over, nobody knows who has the offsets."""
    from confluent_kafka import KafkaError

    return KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS


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


class _Kafka:
    def check(self, query: str, sink: Sink, outputs: tuple[Output, ...]) -> None:
        whose = f"query {query}"
        SINK.check(whose, sink.options)
        if not sink.path:
            raise ModelError(f"{whose}: INTO kafka needs a topic", hint="write INTO kafka 'topic' WITH (…)")
        check_needs(whose, sink.options)
        given = dict(sink.options)
        schema = result_schema(outputs)
        if given.get("format") == "avro" and not given.get("schema"):
            avro_schema(schema)
        if given.get("key"):
            Keys(schema, given["key"])

    def open(self, sender: Sender) -> KafkaTarget:
        return KafkaTarget(sender)


CONNECTOR = _Kafka()
