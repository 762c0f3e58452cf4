"""From produce to a result that `read_committed` consumers see, while pairs of rows arrive at a constant rate."""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Producer

from bench.kafka.peers import spark_python, started
from bench.kafka.streams import iso
from bench.kafka.workload import WINDOW
from bench.observe import Observed
from tests.support.brokers.kafka import KafkaBroker

RATE = 5_000  # rows per second, of both streams together
_READY_SECONDS = 120


@dataclass(frozen=True)
class Latency:
    """Seconds from the later row of a pair to its result, without the first third; CPU seconds of the system, without
    the broker, the producer and the consumer."""

    system: str
    p50: float
    p95: float
    p99: float
    results: int
    cpu: float


def latencies(broker: KafkaBroker, folder: Path, seconds: int, systems: list[str]) -> list[Latency]:
    found = []
    for name in systems:
        for topic in (f"left_{name}", f"right_{name}", f"pairs_{name}"):
            broker.create(topic, 2)
        place = folder / name
        command = _ours(broker, place) if name == "ours" else _sparks(broker, place)
        with started(command, place / "log") as (running, observed):
            try:
                found.append(_measured(broker, name, seconds, observed))
            except AssertionError as problem:
                log = (place / "log").read_text()[-3000:]
                raise SystemExit(f"{name}: {problem}; exit code {running.poll()}\n{log}") from None
        print(f"latency: {found[-1]}", flush=True)
    return found


def _ours(broker: KafkaBroker, folder: Path) -> list[str]:
    servers = f"'bootstrap.servers' = '{broker.address}'"
    window = f"[RANGE {WINDOW} SECONDS]"
    script = "".join(
        f"CREATE STREAM {side}_ (ts TIMESTAMP, id BIGINT, sent BIGINT) TIMESTAMP BY ts "
        f"LATENESS INTERVAL '{WINDOW}' SECOND FROM kafka '{side}_ours' WITH ({servers});\n"
        for side in ("left", "right")
    )
    script += (
        f"CREATE QUERY p INTO kafka 'pairs_ours' WITH ({servers}) AS SELECT l.id AS id, "
        f"greatest(l.sent, r.sent) AS sent FROM left_ {window} l, right_ {window} r WHERE l.id = r.id;"
    )
    folder.mkdir(parents=True)
    pipeline = folder / "pipeline.sql"
    pipeline.write_text(script)
    command = [sys.executable, "-m", "watersmeet.cli", "run", str(pipeline), "--home", str(folder / "home")]
    return [*command, "--set", "tick=20 milliseconds"]


def _sparks(broker: KafkaBroker, folder: Path) -> list[str]:
    return [spark_python(), "-m", "bench.kafka.spark_peer", "pairs", broker.address, str(folder)]


def _measured(broker: KafkaBroker, name: str, seconds: int, observed: Observed) -> Latency:
    settings = {"group.id": f"{name}-reader", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    consumer = Consumer(broker.settings(**settings, **{"fetch.wait.max.ms": 5}))
    consumer.subscribe([f"pairs_{name}"])
    wanted = RATE // 2 * seconds
    try:
        _send_pairs(broker, name, range(1), 0.0)
        taken = _take(consumer, 1, _READY_SECONDS)  # the system runs
        begin = time.time()
        feeding = threading.Thread(target=_send_pairs, args=(broker, name, range(1, wanted + 1), RATE / 2))
        feeding.start()
        taken += _take(consumer, wanted, 3 * seconds + 120)
        end = time.time()
        feeding.join()
    finally:
        consumer.close()
    assert sorted(number for number, _ in taken) == list(range(wanted + 1)), "a result is missing, or is there twice"
    late = sorted(waited for number, waited in taken if number > wanted // 3)
    p95, p99 = (late[int(len(late) * share)] for share in (0.95, 0.99))
    return Latency(
        system=name, p50=statistics.median(late), p95=p95, p99=p99, results=wanted, cpu=observed.cpu_within(begin, end)
    )


def _send_pairs(broker: KafkaBroker, name: str, numbers: range, rate: float) -> None:
    """A row of each stream with the same id and the moment at which it was produced; a rate of 0: all at once."""
    producer = Producer(broker.settings(**{"linger.ms": 1, "queue.buffering.max.messages": 1_000_000}))
    begin, sent = time.time(), 0
    while sent < len(numbers):
        due = int((time.time() - begin) * rate) if rate else len(numbers)
        for number in numbers[sent:due]:
            now = time.time_ns() // 1000
            text = json.dumps({"ts": iso(now), "id": number, "sent": now}).encode()
            for side in ("left", "right"):
                producer.produce(f"{side}_{name}", text)
        sent = min(len(numbers), max(sent, due))
        producer.poll(0)
        time.sleep(0.005)
    producer.flush(60)


def _take(consumer: Consumer, wanted: int, seconds: float) -> list[tuple[int, float]]:
    """Ids and ages of so many results."""
    taken: list[tuple[int, float]] = []
    end = time.time() + seconds
    while len(taken) < wanted:
        assert time.time() < end, f"{len(taken):,} of {wanted:,} results after {seconds:g} s"
        for message in consumer.consume(1000, 0.01):
            value = message.value()
            if message.error() is None and value is not None:
                row = json.loads(value)
                taken.append((row["id"], time.time() - row["sent"] / 1e6))
    return taken
