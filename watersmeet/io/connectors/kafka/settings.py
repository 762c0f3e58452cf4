"""The options of Kafka's sources and sinks, and what librdkafka is given of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from watersmeet.errors import ModelError
from watersmeet.io.connectors.kafka.columns import PATH
from watersmeet.io.connectors.options import Option, OptionTable, check_installed, number, one_of
from watersmeet.io.connectors.secrets import resolved

SERVERS = "bootstrap.servers"
_TLS = [
    "ssl.cipher.suites",
    "ssl.curves.list",
    "ssl.sigalgs.list",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.crl.location",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
    "https.ca.location",
    "https.ca.pem",
]
_SASL = [
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "sasl.kerberos.service.name",
    "sasl.kerberos.principal",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.keytab",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.token.endpoint.url",
    "enable.sasl.oauthbearer.unsecure.jwt",
]
_CLIENT = [
    "security.protocol",
    "client.id",
    "client.dns.lookup",
    "broker.address.family",
    "socket.timeout.ms",
    "socket.keepalive.enable",
    "message.max.bytes",
    "receive.message.max.bytes",
    "test.mock.num.brokers",
]
_COMMON = (*_TLS, *_SASL, *_CLIENT)
_FETCHING = (
    "fetch.max.bytes",
    "fetch.message.max.bytes",
    "max.partition.fetch.bytes",
    "fetch.wait.max.ms",
    "queued.max.messages.kbytes",
)
_SENDING = ("compression.type", "linger.ms", "batch.size", "batch.num.messages", "transaction.timeout.ms")

# A stream: pieces of its messages
FORMATS = ("json", "avro", "csv", "raw")
_REGISTRY = (
    Option("schema"),  # a file with the Avro schema of the messages
    Option("schema.registry.url"),
    Option("schema.registry.basic.auth.user.info"),
)


def _starting(value: str) -> str:
    if value in ("earliest", "latest") or starting_offsets(value) is not None or starting_time(value) is not None:
        return ""
    return 'use earliest, latest, a time such as 2030-01-31T12:00:00Z, or offsets by partition such as {"0": 17}'


def starting_offsets(value: str) -> dict[int, int] | None:
    """Offsets by partition, if that is what is given."""
    try:
        return {int(partition): int(offset) for partition, offset in json.loads(value).items()}
    except (ValueError, AttributeError, TypeError):
        return None


def starting_time(value: str) -> int | None:
    """Milliseconds since 1970, if a time is given."""
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


SOURCE = OptionTable(
    "kafka",
    (
        Option(SERVERS, is_required=True),
        Option("format", "json", one_of(*FORMATS)),
        Option("startingOffsets", "earliest", _starting),
        Option("maxRowsPerTick", "1000000", number),
        Option("failOnDataLoss", "true", one_of("true", "false")),
        Option("timeoutSeconds", "120", number),
        Option("sep", ",", lambda value: "" if len(value) == 1 and value.isascii() else "use one character"),
        Option("framing", "confluent", one_of("confluent", "none")),
        *_REGISTRY,
    ),
    (*_COMMON, *_FETCHING),
    PATH,
)
SINK = OptionTable(
    "kafka",
    (
        Option(SERVERS, is_required=True),
        Option("format", "json", one_of("json", "avro")),
        Option("key"),
        Option("timeoutSeconds", "30", number),
        *_REGISTRY,
    ),
    (*_COMMON, *_SENDING),
)


def check_needs(whose: str, options: tuple[tuple[str, str], ...]) -> None:
    """Reject options for which a package is missing, and Avro without a schema."""
    check_installed(whose, "kafka", ("confluent_kafka",), "kafka")
    given = dict(options)
    if given.get("format") != "avro":
        return
    check_installed(whose, "kafka with format = 'avro'", ("fastavro",), "kafka")
    if not given.get("schema") and not given.get("schema.registry.url"):
        raise ModelError(
            f"{whose}: format = 'avro' needs a schema",
            hint="give schema = 'file.avsc' or 'schema.registry.url' = 'http://…'",
        )


def of_any_client(settings: dict[str, Any]) -> dict[str, Any]:
    """What librdkafka is given, without what only consumers or only producers know."""
    return {name: value for name, value in settings.items() if name not in (*_FETCHING, *_SENDING)}


def client(table: OptionTable, options: tuple[tuple[str, str], ...]) -> tuple[dict[str, Any], dict[str, str]]:
    """What librdkafka is given, and the connector's own options; secrets are resolved."""
    values = resolved(options)
    own = table.own(values)
    # Its own log would go to the standard error of a task, with whatever is in it.
    return {SERVERS: own[SERVERS], "log_level": 0, **table.handed_over(values)}, own
