"""Messages that hang in a partition: of a producer whose coordinator holds its transactions to be complete.

A broker that is killed at the wrong moment leaves them, but not each time. A broker that does not verify whether a
partition is in a transaction (`transaction_partition_verification_enable="false"`) takes them from any client that
does not say that it begins one. librdkafka says it, so the two requests are written here (KIP-98, message format 2).
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence

_PRODUCE, _INIT_PRODUCER_ID = 0, 22
_TRANSACTIONAL = 0x10  # the attribute of a batch


def leave_hanging(
    address: str, transactional_id: str, topic: str, partition: int, values: Sequence[bytes], headers: dict[str, str]
) -> None:
    """Send messages of the producer with this id, in a transaction that nobody ends."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        begin = _text(transactional_id) + struct.pack(">i", 60_000)
        problem, producer, epoch = struct.unpack(">4xhqh", _ask(connection, _INIT_PRODUCER_ID, 1, begin))
        assert problem == 0, f"error {problem} of Kafka"
        batch = _batch(values, headers, producer, epoch)
        sent = _text(transactional_id) + struct.pack(">hii", -1, 10_000, 1) + _text(topic)
        sent += struct.pack(">iii", 1, partition, len(batch)) + batch
        reply = _ask(connection, _PRODUCE, 7, sent)
        (problem,) = struct.unpack_from(">h", reply, 4 + len(_text(topic)) + 4 + 4)
        assert problem == 0, f"error {problem} of Kafka"


def _ask(connection: socket.socket, request: int, version: int, body: bytes) -> bytes:
    content = struct.pack(">hhi", request, version, 1) + _text("tests") + body
    connection.sendall(struct.pack(">i", len(content)) + content)
    with connection.makefile("rb") as replies:
        (size,) = struct.unpack(">i", replies.read(4))
        return replies.read(size)[4:]  # behind the number of the request


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def _batch(values: Sequence[bytes], headers: dict[str, str], producer: int, epoch: int) -> bytes:
    now = int(time.time() * 1000)
    last = len(values) - 1
    rest = struct.pack(">hiqqqhii", _TRANSACTIONAL, last, now, now, producer, epoch, 0, len(values))
    for at, value in enumerate(values):
        record = b"\0" + _varint(0) + _varint(at) + _varint(-1) + _sized(value) + _varint(len(headers))
        record += b"".join(_sized(name.encode()) + _sized(given.encode()) for name, given in headers.items())
        rest += _sized(record)
    magic_and_sum = struct.pack(">bI", 2, _crc32c(rest))
    return struct.pack(">qii", 0, 4 + len(magic_and_sum) + len(rest), -1) + magic_and_sum + rest


def _sized(content: bytes) -> bytes:
    return _varint(len(content)) + content


def _varint(value: int) -> bytes:
    left = (value << 1) ^ (value >> 63)
    written = bytearray()
    while left > 0x7F:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    written.append(left)
    return bytes(written)


def _crc32c(content: bytes) -> int:
    found = 0xFFFFFFFF
    for byte in content:
        found ^= byte
        for _ in range(8):
            found = (found >> 1) ^ (0x82F63B78 if found & 1 else 0)
    return found ^ 0xFFFFFFFF
