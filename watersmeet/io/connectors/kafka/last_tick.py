"""The newest tick of a query in a topic, from the headers of its messages: all that is committed, backwards."""

from __future__ import annotations

import time
from typing import Any

HOME, QUERY, TICK = "watersmeet.home", "watersmeet.query", "watersmeet.tick"
_FIRST = 1000  # messages that are looked at first; twice as many each time, to the beginning of the partition
_SECONDS = 60.0


def last_tick_in(settings: dict[str, Any], topic: str, partitions: list[int], home: str, query: str) -> int:
    """0 where there is none. All messages of a tick are in one transaction, so the newest of any partition counts."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({**settings, "enable.partition.eof": True, "auto.offset.reset": "error"})
    try:
        newest = 0
        for partition in partitions:
            part = TopicPartition(topic, partition)
            first, end = consumer.get_watermark_offsets(part, _SECONDS)
            behind, size, found = end, _FIRST, 0
            while behind > first and not found:
                begin = max(first, behind - size)
                found = _newest(consumer, TopicPartition(topic, partition, begin), behind, home, query)
                behind, size = begin, 2 * size
            newest = max(newest, found)
        return newest
    finally:
        consumer.close()


def _newest(consumer: Any, part: Any, end: int, home: str, query: str) -> int:
    """The newest tick among the messages from an offset up to another."""
    from confluent_kafka import KafkaError

    consumer.assign([part])
    newest, limit = 0, time.monotonic() + _SECONDS
    wanted = ((HOME, home.encode()), (QUERY, query.encode()))
    while True:
        if time.monotonic() > limit:
            raise ConnectionError(f"topic {part.topic}: its last messages could not be read")
        for message in consumer.consume(1000, 0.5):
            problem = message.error()
            if problem is not None and problem.code() != KafkaError._PARTITION_EOF:
                continue
            if problem is not None or message.offset() >= end:
                return newest
            headers = dict(message.headers() or ())
            if all(headers.get(name) == value for name, value in wanted):
                newest = max(newest, int(headers[TICK]))
            if message.offset() + 1 >= end:
                return newest
