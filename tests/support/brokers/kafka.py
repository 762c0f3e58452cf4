"""A real Kafka broker on loopback: one node (KRaft), started, stopped and killed by tests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.support.brokers.maven import jars, java, maven
from tests.support.waiting import PATIENCE, eventually
from watersmeet.io.connectors.kafka.hanging import ends

ARTIFACTS = ("org.apache.kafka:kafka_2.13:4.3.1", "org.slf4j:slf4j-simple:1.7.36")

_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={logs}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
delete.topic.enable=true
log.retention.check.interval.ms=1000
log.retention.ms=-1
log.initial.task.delay.ms=500
file.delete.delay.ms=100
unstable.api.versions.enable=false
{more}
"""


def is_available() -> bool:
    return java() is not None and maven() is not None


class KafkaBroker:
    def __init__(self, folder: Path, **settings: str) -> None:
        """`settings` are added to the broker's properties; an underscore stands for a dot."""
        self._folder = folder
        self._classes = f"{jars('kafka', *ARTIFACTS)}/*"
        self.port, controller = _free_port(), _free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        more = "\n".join(f"{name.replace('_', '.')}={value}" for name, value in settings.items())
        self._properties = folder / "server.properties"
        self._properties.write_text(
            _PROPERTIES.format(port=self.port, controller=controller, logs=folder / "logs", more=more)
        )
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # With =, because one in 64 begins with a minus.
        named = f"--cluster-id={cluster}"
        self._run("kafka.tools.StorageTool", "format", named, "-c", str(self._properties), "--standalone")

    def _run(self, *arguments: str) -> None:
        done = subprocess.run(
            [*self._java(), *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _java(self) -> list[str]:
        return [
            str(java()),
            "-Xmx384m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-cp",
            self._classes,
        ]

    def start(self) -> None:
        with (self._folder / "broker.log").open("ab") as log:
            command = [*self._java(), "kafka.Kafka", str(self._properties)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self.process_file.write_text(str(self._process.pid))
        self._wait()

    @property
    def process_file(self) -> Path:
        return self._folder / "process"

    @contextmanager
    def kept_alive(self) -> Iterator[None]:
        """It is started again whenever somebody has killed it."""
        ended = threading.Event()

        def keep() -> None:
            while not ended.wait(0.2):
                if self._process is not None and self._process.poll() is not None:
                    self.start()

        keeper = threading.Thread(target=keep)
        keeper.start()
        try:
            yield
        finally:
            ended.set()
            keeper.join()

    def strike(self) -> None:
        """SIGKILL, while somebody keeps it alive."""
        os.kill(int(self.process_file.read_text()), signal.SIGKILL)

    def _wait(self) -> None:
        admin = self.admin()

        def replies() -> bool:
            assert self._process is not None and self._process.poll() is None, self._log()
            with suppress(KafkaException):
                return bool(admin.list_topics(timeout=1).brokers)  # asked again until it replies
            return False

        eventually(replies, "the broker was not ready")

    def _log(self) -> str:
        return (self._folder / "broker.log").read_text()[-3000:]

    def kill(self) -> None:
        """SIGKILL: whatever it had not written is lost."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE)
            self._process = None

    def pause(self) -> None:
        """It hangs: connections stay, and nothing is replied."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    # Topics and messages -------------------------------------------------------------------------

    def settings(self, **more: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self.address, "log_level": 0, **more}

    def admin(self) -> Any:
        return AdminClient(self.settings())

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        named = {name.replace("_", "."): value for name, value in config.items()}
        admin = self.admin()  # one that is let go ends what it was asked for
        asked = admin.create_topics(
            [NewTopic(topic, partitions, 1, config=named)], operation_timeout=PATIENCE, request_timeout=PATIENCE
        )
        asked[topic].result(PATIENCE)

        def leads() -> bool:
            """A broker knows of a new topic before it leads its partitions."""
            with suppress(KafkaException):
                return len(ends(admin, topic, list(range(partitions)), False, 10)) == partitions
            return False

        eventually(leads, f"{topic} has no leaders")

    def delete(self, topic: str) -> None:
        admin = self.admin()
        admin.delete_topics([topic], operation_timeout=PATIENCE, request_timeout=PATIENCE)[topic].result(PATIENCE)
        eventually(lambda: topic not in admin.list_topics(timeout=PATIENCE).topics, f"{topic} was not deleted")

    def forget_group(self, group: str) -> None:
        admin = self.admin()
        admin.delete_consumer_groups([group])[group].result(PATIENCE)

    def grow(self, topic: str, partitions: int) -> None:
        admin = self.admin()
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(PATIENCE)

    def send(self, topic: str, values: list[bytes | None], **more: Any) -> None:
        """Messages, all of which are stored afterwards, in this order; `more` of all of them: key, headers, partition,
        timestamp."""
        producer = Producer(self.settings(**{"linger.ms": 5, "enable.idempotence": True}))
        lost: list[Any] = []
        for value in values:
            while True:
                try:
                    producer.produce(topic, value, on_delivery=lambda problem, _: lost.append(problem), **more)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        assert producer.flush(PATIENCE) == 0
        assert not any(lost), lost

    def messages(self, topic: str, isolation: str = "read_committed") -> list[Any]:
        """All messages of a topic, as a consumer with this isolation sees them now."""
        return list(read_all(self.settings(), topic, isolation))


def read_all(settings: dict[str, Any], topic: str, isolation: str = "read_committed") -> Iterator[Any]:
    consumer = Consumer(
        {
            **settings,
            "group.id": f"reader-{uuid.uuid4()}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=PATIENCE).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        left = set(partitions)
        while left:
            for message in consumer.consume(1000, 1.0):
                problem = message.error()
                if problem is None:
                    yield message
                elif problem.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
                elif not problem.retriable():
                    raise AssertionError(problem)
    finally:
        consumer.close()


@contextmanager
def running_broker(folder: Path, **settings: str) -> Iterator[KafkaBroker]:
    broker = KafkaBroker(folder, **settings)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
