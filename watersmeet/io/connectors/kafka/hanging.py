"""Transactions that hang: complete for their coordinator, and without an end in some partitions.

A broker acknowledges a commit, and then tells the partitions. A broker that is killed in between and started again has
to tell them once more; Kafka 4.3.1 may hold the partitions to be deleted meanwhile, as it does not know them yet, and
holds the transaction to be complete. Readers of committed messages then wait at the first message of it, and the next
end of a transaction of the same producer counts for these messages, too: an abort lets them vanish.
"""

from __future__ import annotations

import time
from typing import Any

_PAUSE = 0.005  # seconds; twice as long each time, to a limit
_LONGEST_PAUSE = 0.25
Ends = dict[int, int]  # offsets by partition


def ends(admin: Any, topic: str, partitions: list[int], is_committed: bool, seconds: float) -> Ends:
    """Behind the last message, or behind the last one that no open transaction holds back."""
    import confluent_kafka.admin
    from confluent_kafka import IsolationLevel, TopicPartition

    spec: Any = confluent_kafka.admin.OffsetSpec  # type: ignore[attr-defined]
    level: Any = IsolationLevel.READ_COMMITTED if is_committed else IsolationLevel.READ_UNCOMMITTED
    asked = {TopicPartition(topic, number): spec.latest() for number in partitions}
    futures = admin.list_offsets(asked, isolation_level=level, request_timeout=seconds)
    return {part.partition: int(future.result(2 * seconds).offset) for part, future in futures.items()}


def are_reached(admin: Any, topic: str, wanted: Ends, seconds: float) -> bool:
    """Wait until readers of committed messages come as far as that."""
    limit, pause = time.monotonic() + seconds, _PAUSE
    while True:
        found = ends(admin, topic, list(wanted), True, seconds)
        if all(found[number] >= end for number, end in wanted.items()):
            return True
        if time.monotonic() > limit:
            return False
        time.sleep(pause)
        pause = min(_LONGEST_PAUSE, 2 * pause)
