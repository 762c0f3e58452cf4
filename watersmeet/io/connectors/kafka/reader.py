"""Reads ranges of offsets, in a task: exactly the messages of [begin, end) that were committed.

A consumer stays open from tick to tick. It has no group and stores no offsets: what was read is in the positions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from watersmeet.errors import InputError
from watersmeet.io.connectors.kafka.avro_values import AvroValues
from watersmeet.io.connectors.kafka.columns import Fields, assembled
from watersmeet.io.connectors.kafka.csv_values import CsvValues
from watersmeet.io.connectors.kafka.json_values import Decoded, JsonValues
from watersmeet.io.connectors.kafka.schemas import Schemas
from watersmeet.io.connectors.kafka.settings import SOURCE, client
from watersmeet.io.connectors.secrets import redacted
from watersmeet.model import Source, Stream

_AT_ONCE = 1 << 14  # messages that are decoded together
_WAIT = 0.05  # seconds until fewer are decoded: some offsets have no message to be read


_MESSAGE_BYTES = 100


@dataclass(frozen=True)
class OffsetRange:
    """Messages of one partition."""

    partition: int
    begin: int
    end: int


@dataclass(frozen=True)
class OffsetPiece:
    """Messages of partitions for one task to read; no partition occurs twice."""

    stream: str
    ranges: tuple[OffsetRange, ...]
    file = ""
    shares = 1

    @property
    def bytes(self) -> int:
        return _MESSAGE_BYTES * sum(one.end - one.begin for one in self.ranges)

    def read(self, stream: Stream, kept: dict[Stream, Any]) -> Iterator[pa.RecordBatch]:
        """The consumer is kept, unless something is wrong: then it is not known what it has fetched, or waits for."""
        reader, decoder = kept.pop(stream, None) or _opened(stream)
        try:
            for messages in reader.messages(stream.name, self.ranges):
                found, problems = decoder.decode([message.value() for message in messages])
                yield assembled(stream, messages, found, _corrupt(messages, problems))
        except BaseException:
            reader.close()
            raise
        kept[stream] = reader, decoder


class _RawValues:
    def __init__(self, fields: Fields) -> None:
        self._columns = fields.columns

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        found = pa.array(values, pa.binary())
        return {c.name: found.view(c.arrow) for c in self._columns}, [None] * len(values)


Decoder = JsonValues | AvroValues | CsvValues | _RawValues  # the values of messages as columns


def _opened(stream: Stream) -> tuple[RangeReader, Decoder]:
    assert stream.source is not None
    reader = RangeReader(stream.source)
    return reader, _decoder_of(stream, reader.own)


def _decoder_of(stream: Stream, own: dict[str, str]) -> Decoder:
    fields, kind = Fields.of(stream), own["format"]
    if kind == "csv":
        return CsvValues(fields, own["sep"])
    if kind == "avro":
        return AvroValues(fields, Schemas(own), own["framing"] == "confluent")
    return _RawValues(fields) if kind == "raw" else JsonValues(fields)


def _corrupt(messages: Sequence[Any], problems: list[str | None]) -> pa.Array:
    """For each message that is malformed why, and what it is like."""
    if not any(problems):
        return pa.nulls(len(problems), pa.string())
    return pa.array(
        [
            None if why is None else f"{why}: {(message.value() or b'')[:10_000].decode('utf-8', 'replace')}"
            for message, why in zip(messages, problems, strict=True)
        ],
        pa.string(),
    )


class RangeReader:
    """A consumer that reads ranges of offsets of a topic."""

    def __init__(self, source: Source) -> None:
        from confluent_kafka import Consumer

        settings, self.own = client(SOURCE, source.options)
        self._topic = source.path
        self._seconds = float(self.own["timeoutSeconds"])
        try:
            self._consumer = Consumer(
                {
                    "fetch.wait.max.ms": 10,
                    **settings,
                    "group.id": "watersmeet",  # which it has to have; nothing is committed for it
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "enable.partition.eof": True,
                    "isolation.level": "read_committed",
                    "auto.offset.reset": "error",
                }
            )
        except Exception as problem:
            raise InputError(
                f"topic {source.path}: librdkafka rejects the options: {redacted(str(problem))}",
                hint="check the options after WITH",
            ) from None

    def messages(self, stream: str, ranges: Sequence[OffsetRange]) -> Iterator[list[Any]]:
        """A range may end with offsets that have no message to be read: marks of transactions, what was aborted or
        compacted away. What says so is asked twice: right after an assignment it may be a report of the end that an
        earlier one had reached."""
        left = {one.partition: one for one in ranges if one.begin < one.end}
        behind = {one.partition: one.begin for one in left.values()}  # all messages before it were read
        said: dict[int, int] = {}  # by partition, behind which message nothing more is said to be
        while left:
            yield from self._read(stream, left, behind)
            early = {number: behind[number] for number, one in left.items() if behind[number] < one.end}
            left = {number: left[number] for number, at in early.items() if said.get(number) != at}
            said = early

    def _read(self, stream: str, ranges: dict[int, OffsetRange], behind: dict[int, int]) -> Iterator[list[Any]]:
        """Messages until each range has reached its end, or what is said to be its end."""
        from confluent_kafka import KafkaError, TopicPartition

        left = dict(ranges)
        while self._consumer.consume(_AT_ONCE, 0):
            pass  # nothing is assigned: all of it belongs to what was read before
        self._consumer.assign([TopicPartition(self._topic, number, behind[number]) for number in left])
        last, trouble = time.monotonic(), "no reply"
        try:
            while left:
                found = []
                message: Any
                # It waits for as many as it is asked for.
                most = min(_AT_ONCE, sum(one.end - behind[one.partition] for one in left.values()))
                for message in self._consumer.consume(most, _WAIT):
                    problem = message.error()
                    if problem is None or problem.code() == KafkaError._PARTITION_EOF:
                        number, offset = message.partition(), message.offset()
                        if number not in left:
                            continue
                        if problem is None and behind[number] <= offset < left[number].end:
                            found.append(message)
                            behind[number] = offset + 1
                        if offset + (problem is None) >= left[number].end:
                            del left[number]
                    elif problem.code() in _gone():
                        raise _lost(stream, self._topic, list(left.values()), redacted(problem.str()))
                    else:  # librdkafka tries again by itself
                        trouble = redacted(problem.str())
                if found:
                    last = time.monotonic()
                    yield found
                elif left and time.monotonic() - last > self._seconds:
                    raise InputError(
                        f"stream {stream}: nothing of topic {self._topic} for {self._seconds:g} seconds: {trouble}",
                        hint="see that the broker runs, and start again with the same home: nothing is lost",
                    )
        finally:
            self._consumer.unassign()

    def close(self) -> None:
        self._consumer.close()


def _gone() -> tuple[int, ...]:
    from confluent_kafka import KafkaError

    return (
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    )


def _lost(stream: str, topic: str, ranges: Sequence[OffsetRange], why: str) -> InputError:
    listed = ", ".join(f"{one.begin} to {one.end - 1} of partition {one.partition}" for one in ranges[:5])
    return InputError(
        f"stream {stream}: messages of topic {topic} are gone before they were read: {why}",
        detail=f"Offsets of this tick: {listed}.",
        hint="with failOnDataLoss = false a start with the same home continues with what is left, "
        f"and lists the offsets in the folder rejected/{stream}",
    )
