"""A broker that is killed between the acknowledgement of a commit and the end of the transaction in the partitions.

Kafka 4.3.1 may forget to end it there when it starts again. Whether it does depends on its start; each tick has to be
there once, whatever it does."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.brokers.hanging import leave_hanging
from tests.support.brokers.kafka import KafkaBroker, running_broker
from tests.support.waiting import PATIENCE
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
    """If the broker leaves something hanging, it is killed once more when that is aborted."""
    kills = dict(KILLS)
    with running_broker(tmp_path / "broker") as broker, broker.kept_alive():

        def strike(point: str, about: object) -> None:
            if point == "target.acknowledged" and about in kills:
                assert isinstance(about, int)
                time.sleep(kills.pop(about))
                broker.strike()
            elif point == "target.cleared" and point not in struck:
                struck.append(point)
                broker.strike()

        struck: list[str] = []
        broker.create(TOPIC, 3)
        deliver(sender_to(broker, *options), strike)
        assert found_in(broker) == expected(TICKS)
    assert not kills


@pytest.fixture(scope="module")
def trusting_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Takes messages that hang (`leave_hanging`)."""
    folder = tmp_path_factory.mktemp("kafka") / "broker"
    with running_broker(folder, transaction_partition_verification_enable="false") as started:
        yield started


def hang(broker: KafkaBroker, tick: int) -> None:
    """Deliver the ticks up to this one, of which a third hangs, while its number and the rest are committed."""
    numbers = next(rows(tick))["number"]
    target = KafkaTarget(sender_to(broker))
    assert target.recover() == 0
    for before in range(1, tick):
        target.commit(before, rows(before))
    target.commit(tick, iter([pa.record_batch([numbers[ROWS // 3 :]], ["number"])]))
    target.close()
    headers = {"watersmeet.home": "home", "watersmeet.query": "query", "watersmeet.tick": str(tick)}
    values = [f'{{"number":{number}}}'.encode() for number in numbers[: ROWS // 3].to_pylist()]
    leave_hanging(broker.address, "watersmeet-home-query", TOPIC, 1, values, headers)
    assert expected(tick) - found_in(broker) == Counter(str(tick).encode() + value for value in values)


@pytest.mark.parametrize("tick", [1, 3])
@pytest.mark.parametrize("victim", ["process", "broker"])
@pytest.mark.parametrize("point", ["target.stepped_back", "target.cleared", "target.acknowledged"])
def test_a_second_kill_while_a_tick_hangs(trusting_broker: KafkaBroker, point: str, victim: str, tick: int) -> None:
    """The part that hangs is delivered, whoever is killed on the way to it."""
    broker = trusting_broker
    broker.create(TOPIC, 3)
    try:
        hang(broker, tick)
        with broker.kept_alive():
            killed = broker.process_file if victim == "broker" else None
            arguments = (sender_to(broker), point, killed)
            life = multiprocessing.get_context("spawn").Process(target=deliver_and_kill, args=arguments)
            life.start()
            life.join(PATIENCE)
            assert life.exitcode == (0 if killed else -signal.SIGKILL)
            deliver(sender_to(broker))
        assert found_in(broker) == expected(TICKS)
    finally:
        broker.delete(TOPIC)
        broker.forget_group("watersmeet-home-query")


def deliver_and_kill(sender: Sender, point: str, broker: Path | None) -> None:
    """Kill this process, or the broker, at the first pass of a point."""
    passed: list[str] = []

    def strike(reached: str, about: object) -> None:
        if reached == point and not passed:
            passed.append(reached)
            os.kill(int(broker.read_text()) if broker else os.getpid(), signal.SIGKILL)

    deliver(sender, strike)
    assert passed


def deliver(sender: Sender, strike: points.Subscriber | None = None) -> None:
    """All ticks, as the engine does it: a target that fails is opened again."""
    last = 0
    if strike is not None:
        points.subscribe(strike)
    try:
        while last < TICKS:
            target = KafkaTarget(sender)
            try:
                found = target.recover()
                assert found >= last - 1  # one that may be incomplete is delivered again
                last = max(last, found)
                for tick in range(last + 1, TICKS + 1):
                    target.commit(tick, rows(tick))
                    last = tick
            except ConnectionError:
                time.sleep(0.25)
            finally:
                target.close()
    finally:
        if strike is not None:
            points.unsubscribe(strike)
