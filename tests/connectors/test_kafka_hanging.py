"""A broker that is killed between the acknowledgement of a commit and the end of the transaction in the partitions.

Kafka 4.3.1 may forget to end it there when it starts again. Whether it does depends on its start; each tick has to be
there once, whatever it does."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.brokers.kafka import KafkaBroker, running_broker
from watersmeet import points
from watersmeet.io.connectors.kafka.target import KafkaTarget
from watersmeet.io.connectors.protocol import Sender
from watersmeet.model import Sink

pytestmark = pytest.mark.connectors

TOPIC = "results"
TICKS, ROWS = 6, 500
KILLS = {2: 0.0, 4: 0.003}  # by tick: seconds from the acknowledgement to the kill


def rows(tick: int) -> Iterator[pa.RecordBatch]:
    """Each value twice: what is left out of a repeated tick is counted."""
    yield pa.record_batch([pa.array([tick * ROWS + at // 2 for at in range(ROWS)], pa.int64())], ["number"])


def sender_to(broker: KafkaBroker, *options: tuple[str, str]) -> Sender:
    given = (("bootstrap.servers", broker.address), ("timeoutSeconds", "10"), *options)
    return Sender("home", "query", Sink("kafka", TOPIC, given), pa.schema([("number", pa.int64())]))


def expected(ticks: int) -> Counter[bytes]:
    return Counter(
        f'{tick}{{"number":{number}}}'.encode()
        for tick in range(1, ticks + 1)
        for batch in rows(tick)
        for number in batch["number"].to_pylist()
    )


def found_in(broker: KafkaBroker) -> Counter[bytes]:
    return Counter(dict(one.headers())["watersmeet.tick"] + one.value() for one in broker.messages(TOPIC))


def test_what_is_there_of_a_tick_is_left_out(broker: KafkaBroker) -> None:
    """As after a transaction that ended in some partitions only: messages of tick 2, and the offset of tick 1."""
    broker.create(TOPIC, 3)
    try:
        target = KafkaTarget(sender_to(broker))
        assert target.recover() == 0
        target.commit(1, rows(1))
        target.close()
        there: list[bytes | None] = [f'{{"number":{number}}}'.encode() for number in (2 * ROWS, 2 * ROWS, 2 * ROWS + 7)]
        headers = {"watersmeet.home": "home", "watersmeet.query": "query", "watersmeet.tick": "2"}
        broker.send(TOPIC, there, headers=headers)
        for again in (1, 1):  # also when it is opened, and nothing is done
            target = KafkaTarget(sender_to(broker))
            assert target.recover() == again
            target.close()
        target = KafkaTarget(sender_to(broker))
        assert target.recover() == 1
        for tick in (2, 3):
            target.commit(tick, rows(tick))
        target.close()
        assert found_in(broker) == expected(3)
        target = KafkaTarget(sender_to(broker))
        assert target.recover() == 3
        target.close()
    finally:
        broker.delete(TOPIC)


@pytest.mark.parametrize("options", [(("key", "number"),), ()], ids=["keys", "no keys"])
def test_each_tick_is_there_once(tmp_path: Path, options: tuple[tuple[str, str], ...]) -> None:
    with running_broker(tmp_path / "broker") as broker:
        broker.create(TOPIC, 3)
        ended = threading.Event()
        keeper = threading.Thread(target=broker.keep_alive, args=(ended,))
        keeper.start()
        try:
            assert deliver(broker, sender_to(broker, *options)) == list(KILLS)
        finally:
            ended.set()
            keeper.join()
        assert found_in(broker) == expected(TICKS)


def deliver(broker: KafkaBroker, sender: Sender) -> list[int]:
    """All ticks, as the engine does it: a target that fails is opened again. Returns the ticks with a kill."""
    last, kills = 0, dict(KILLS)
    tick = 1

    def strike(point: str, about: object) -> None:
        if point == "target.acknowledged" and tick in kills:
            time.sleep(kills.pop(tick))
            os.kill(int(broker.process_file.read_text()), signal.SIGKILL)

    points.subscribe(strike)
    try:
        limit = time.monotonic() + 600
        while last < TICKS:
            target = KafkaTarget(sender)
            try:
                found = target.recover()
                assert found >= last - 1  # one that may be incomplete is delivered again
                for tick in range(max(last, found) + 1, TICKS + 1):
                    target.commit(tick, rows(tick))
                    last = tick
            except ConnectionError:
                assert time.monotonic() < limit
                time.sleep(0.25)
            finally:
                target.close()
    finally:
        points.unsubscribe(strike)
    return [tick for tick in KILLS if tick not in kills]
