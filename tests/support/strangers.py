"""Somebody who reaches a port of Spark and does not know the secret."""

from __future__ import annotations

import socket
import struct

from tests.support.waiting import PATIENCE

_RPC_REQUEST = 3  # of Spark's frames: length, type, number, length of the body, body


def answer_to_a_stranger(port: int, host: str = "127.0.0.1") -> bytes:
    """What a port of Spark replies to a message without authentication."""
    body = b"no message of Spark"
    frame = struct.pack(">bqi", _RPC_REQUEST, 7, len(body)) + body
    with socket.create_connection((host, port), PATIENCE) as stranger:
        stranger.sendall(struct.pack(">q", len(frame) + 8) + frame)
        stranger.settimeout(PATIENCE)
        said = b""
        while len(said) < 8 or len(said) < struct.unpack(">q", said[:8])[0]:
            more = stranger.recv(1 << 16)
            if not more:
                break
            said += more
    return said


def check_rejected(said: bytes) -> None:
    assert b"doAuthChallenge" in said, "who does not prove to know the secret is rejected at once"
    assert b"NettyRpcHandler.internalReceive" not in said, "the message of a stranger was read"
