"""Ranges of offsets are read whole, whatever a client reports of an assignment that is over.

A real client does that too seldom to wait for it, if it does it at all. The one here has the messages of a log and
reports an end too early.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.io.connectors.kafka.reader import OffsetRange, RangeReader


@dataclass(frozen=True)
class Reported:
    """A message, or the end of a partition."""

    number: int
    at: int
    is_end: bool = False

    def partition(self) -> int:
        return self.number

    def offset(self) -> int:
        return self.at

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF) if self.is_end else None


@dataclass
class Client:
    """`logs`: by partition the offsets that have a message, and where it ends. `early`: after which assignments the
    end of each partition is reported first."""

    logs: dict[int, tuple[list[int], int]]
    early: frozenset[int]
    assignments: int = 0
    queue: deque[Reported] = field(default_factory=deque)

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.queue.clear()
        lines = []
        for one in partitions:
            offsets, end = self.logs[one.partition]
            reported = [Reported(one.partition, at) for at in offsets if at >= one.offset]
            reported.append(Reported(one.partition, end, is_end=True))
            if self.assignments in self.early:
                self.queue.append(reported[-1])
            lines.append(deque(reported))
        while any(lines):  # partitions take turns
            self.queue.extend(line.popleft() for line in lines if line)
        self.assignments += 1

    def consume(self, most: int, timeout: float) -> list[Reported]:
        return [self.queue.popleft() for _ in range(min(most, len(self.queue), 3))]

    def unassign(self) -> None:
        """What has not been consumed is still there."""


def reader_of(client: Client) -> RangeReader:
    reader = RangeReader.__new__(RangeReader)
    reader._consumer, reader._topic, reader._seconds = cast(Any, client), "bids", 0.1
    return reader


@given(
    gaps=st.dictionaries(st.integers(0, 2), st.frozensets(st.integers(0, 30)), min_size=1),
    cuts=st.lists(st.integers(0, 30), max_size=4),
    early=st.frozensets(st.sampled_from((0, 2, 4, 6))),
)
def test_every_message_is_read_once(gaps: dict[int, frozenset[int]], cuts: list[int], early: frozenset[int]) -> None:
    """In ranges one after the other; an end is not reported too early twice in a row."""
    logs = {number: ([at for at in range(30) if at not in without], 30) for number, without in gaps.items()}
    reader = reader_of(Client(logs, early))
    bounds = sorted({0, *cuts, 30})
    read = []
    for begin, end in pairwise(bounds):
        ranges = [OffsetRange(number, begin, end) for number in logs]
        found = [message for messages in reader.messages("bids", ranges) for message in messages]
        assert all(begin <= message.offset() < end for message in found)
        read += [(message.partition(), message.offset()) for message in found]
    assert sorted(read) == sorted((number, at) for number, (offsets, _) in logs.items() for at in offsets)


@pytest.mark.parametrize("early", [frozenset(), frozenset({0})])
def test_a_range_without_gaps_is_assigned_once_unless_it_ends_early(early: frozenset[int]) -> None:
    client = Client({0: (list(range(10)), 10)}, early)
    assert len([*reader_of(client).messages("bids", [OffsetRange(0, 2, 8)])]) > 0
    assert client.assignments == 1 + len(early)
