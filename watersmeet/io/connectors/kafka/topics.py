"""What the driver asks brokers: which partitions a topic has, and how far they go. It reads no message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from watersmeet.errors import InputError
from watersmeet.io.connectors.kafka.settings import SOURCE, client, of_any_client, starting_offsets, starting_time
from watersmeet.io.connectors.secrets import redacted
from watersmeet.io.source import Unreachable
from watersmeet.model import Source

_SECONDS = 10.0  # for one request


@dataclass(frozen=True)
class TopicState:
    """What brokers say of a topic."""

    id: str  # which another topic of the same name does not have
    partitions: tuple[int, ...]


class Topic:
    def __init__(self, stream: str, source: Source) -> None:
        self.stream, self.name = stream, source.path
        settings, self.own = client(SOURCE, source.options)
        try:
            self._admin = _admin_module().AdminClient(of_any_client(settings))
        except Exception as problem:
            raise InputError(
                f"stream {stream}: librdkafka rejects the options: {redacted(str(problem))}",
                hint="check the options after WITH",
            ) from None

    def state(self) -> TopicState:
        from confluent_kafka import KafkaError, TopicCollection

        try:
            found = self._asked(self._admin.describe_topics(TopicCollection([self.name]), request_timeout=_SECONDS))
        except _NoReply as problem:
            if problem.code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise InputError(
                    f"stream {self.stream}: there is no topic {self.name}",
                    hint="create it, or correct the name after FROM kafka; nothing was changed in the home",
                ) from None
            raise
        described = found[self.name]
        return TopicState(str(described.topic_id), tuple(sorted(part.id for part in described.partitions)))

    def latest(self, partitions: Iterable[int]) -> dict[int, int]:
        """The offsets behind the last messages that are committed."""
        return self._offsets(dict.fromkeys(partitions, _admin_module().OffsetSpec.latest()))

    def earliest(self, partitions: Iterable[int]) -> dict[int, int]:
        return self._offsets(dict.fromkeys(partitions, _admin_module().OffsetSpec.earliest()))

    def starting(self, partitions: tuple[int, ...]) -> dict[int, int]:
        """Where to begin, as the option startingOffsets says."""
        given = self.own["startingOffsets"]
        if given == "latest":
            return self.latest(partitions)
        if (millis := starting_time(given)) is not None:
            found = self._offsets(dict.fromkeys(partitions, _admin_module().OffsetSpec.for_timestamp(millis)))
            ends = self.latest(partitions)  # where there is nothing as new as that
            return {number: offset if offset >= 0 else ends[number] for number, offset in found.items()}
        return self.earliest(partitions) | {
            number: offset for number, offset in (starting_offsets(given) or {}).items() if number in partitions
        }

    def _offsets(self, asked: Mapping[int, Any]) -> dict[int, int]:
        from confluent_kafka import IsolationLevel, TopicPartition

        parts = {TopicPartition(self.name, number): spec for number, spec in asked.items()}
        futures = self._admin.list_offsets(
            parts, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_SECONDS
        )
        return {part.partition: found.offset for part, found in self._asked(futures).items()}

    def _asked(self, futures: Mapping[Any, Any]) -> dict[Any, Any]:
        from confluent_kafka import KafkaException

        found = {}
        for name, future in futures.items():
            try:
                found[name] = future.result(2 * _SECONDS)
            except KafkaException as problem:
                error = problem.args[0]
                raise _NoReply(self.name, redacted(error.str()), error.code()) from None
            except TimeoutError:
                raise _NoReply(self.name, "no reply") from None
        return found


def _admin_module() -> Any:
    """Its names are not declared for type checkers."""
    import confluent_kafka.admin

    return confluent_kafka.admin


class _NoReply(Unreachable):
    """Brokers did not reply, or not with what they were asked for."""

    def __init__(self, topic: str, reason: str, code: int = 0) -> None:
        super().__init__(
            f"the brokers of topic {topic} cannot be reached: {reason}",
            hint="check bootstrap.servers and the security settings, and start again with the same home",
        )
        self.code = code
