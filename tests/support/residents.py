"""Which processes are resident tasks of this process's engines."""

from __future__ import annotations

import os
import socket
import struct
from multiprocessing.connection import Connection

import pytest

from watersmeet.runtime.exec.resident_pool import Residents


def connected_residents(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that are connected as residents, as the operating system names them."""
    connected: list[int] = []
    serve = Residents._serve

    def told(self: Residents, connection: Connection) -> None:
        with socket.socket(fileno=os.dup(connection.fileno())) as same:
            peer, _, _ = struct.unpack("3i", same.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        connected.append(peer)
        try:
            serve(self, connection)
        finally:
            connected.remove(peer)

    monkeypatch.setattr(Residents, "_serve", told)
    return connected
