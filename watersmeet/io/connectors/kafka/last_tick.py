"""What a topic has of a query's newest ticks, from the headers of its messages."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from watersmeet.io.connectors.kafka.hanging import Ends

HOME, QUERY, TICK = "watersmeet.home", "watersmeet.query", "watersmeet.tick"
_FIRST = 1000  # messages that are looked at first; twice as many each time, to the beginning of the partition
_SECONDS = 60.0
Message = tuple[bytes | None, bytes | None]  # key, value


@dataclass(frozen=True)
class LastTicks:
    """All messages of a tick are in one transaction, and ticks follow one another in each partition."""

    settings: dict[str, Any]  # of a consumer
    topic: str
    home: str
    query: str

    def newest(self, partitions: list[int], most: int | None) -> int:
        """The newest tick of any partition, or of so many messages at their ends; 0 where there is none."""
        return max((max(found, default=0) for found in self._read(partitions, None, most)), default=0)

    def messages(self, partitions: list[int], tick: int) -> Counter[Message]:
        """What there is of a tick, which is the newest."""
        return sum((found.get(tick, Counter()) for found in self._read(partitions, tick, None)), Counter())

    def newest_between(self, begins: Ends, ends: Ends) -> int:
        """The newest tick between these offsets, whatever became of its transaction; 0 where there is none."""
        from confluent_kafka import TopicPartition

        newest = 0
        for partition, begin in begins.items():
            if begin < ends[partition]:
                part = TopicPartition(self.topic, partition, begin)
                newest = max(newest, *(tick for tick, _ in self._between("read_uncommitted", part, ends[partition])), 0)
        return newest

    @contextmanager
    def _consumer(self, isolation: str) -> Iterator[Any]:
        from confluent_kafka import Consumer

        more = {"isolation.level": isolation, "enable.partition.eof": True, "auto.offset.reset": "error"}
        consumer = Consumer({**self.settings, **more})
        try:
            yield consumer
        finally:
            consumer.close()

    def _read(self, partitions: list[int], tick: int | None, most: int | None) -> Iterator[dict[int, Counter[Message]]]:
        """By partition, the committed messages of its last ticks: of any, or back to one that is before a tick."""
        from confluent_kafka import TopicPartition

        with self._consumer("read_committed") as consumer:
            for partition in partitions:
                first, end = consumer.get_watermark_offsets(TopicPartition(self.topic, partition), _SECONDS)
                first = max(first, end - most) if most is not None else first
                found: dict[int, Counter[Message]] = {}
                behind, size = end, _FIRST
                while behind > first and (not found or (tick is not None and min(found) >= tick)):
                    begin = max(first, behind - size)
                    part = TopicPartition(self.topic, partition, begin)
                    for number, message in self._between("read_committed", part, behind):
                        found.setdefault(number, Counter())[message] += 1
                    behind, size = begin, 2 * size
                yield found

    def _between(self, isolation: str, part: Any, end: int) -> Iterator[tuple[int, Message]]:
        """Tick and message of this query, from an offset up to another. The consumer is a new one, so that an end which
        is reported is the end of this part."""
        with self._consumer(isolation) as consumer:
            consumer.assign([part])
            yield from self._until(consumer, part, end)

    def _until(self, consumer: Any, part: Any, end: int) -> Iterator[tuple[int, Message]]:
        from confluent_kafka import KafkaError

        limit = time.monotonic() + _SECONDS
        wanted = ((HOME, self.home.encode()), (QUERY, self.query.encode()))
        while True:
            if time.monotonic() > limit:
                raise ConnectionError(f"topic {part.topic}: its last messages could not be read")
            for message in consumer.consume(1000, 0.05):
                problem = message.error()
                if problem is not None and problem.code() != KafkaError._PARTITION_EOF:
                    continue
                if problem is not None or message.offset() >= end:
                    return
                headers = dict(message.headers() or ())
                if all(headers.get(name) == value for name, value in wanted):
                    yield int(headers[TICK]), (message.key(), message.value())
                if message.offset() + 1 >= end:
                    return
