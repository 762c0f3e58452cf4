"""A topic as the source of a stream: what is checked before anything runs."""

from __future__ import annotations

from watersmeet.errors import ModelError
from watersmeet.io.connectors.kafka.columns import check_columns
from watersmeet.io.connectors.kafka.settings import SOURCE, check_avro, check_packages
from watersmeet.model import Stream

FORMAT = "kafka"


def is_topic(stream: Stream) -> bool:
    return stream.source is not None and stream.source.format == FORMAT


def check_topic(stream: Stream) -> None:
    """Reject a declaration that no topic could satisfy. Connects to nothing."""
    assert stream.source is not None
    whose, options = f"stream {stream.name}", stream.source.options
    if not stream.source.path:
        raise ModelError(f"{whose}: FROM kafka needs the name of a topic", hint="write FROM kafka 'topic' WITH (…)")
    SOURCE.check(whose, options)
    check_packages(whose, options)
    check_avro(whose, options)
    check_columns(stream, dict(options).get("format", "json"))
