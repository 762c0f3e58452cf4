"""Which processes are resident tasks of this process's engines."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections import Counter
from multiprocessing.connection import Connection

import pytest

from watersmeet.runtime.exec.resident_pool import Residents


def connected_residents(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that are connected as residents, as the operating system names them."""
    connected: list[int] = []
    connections: Counter[int] = Counter()  # each has one for ticks, and one for what runs beside them
    turn = threading.Lock()
    serve = Residents._serve

    def told(self: Residents, connection: Connection) -> None:
        with socket.socket(fileno=os.dup(connection.fileno())) as same:
            peer, _, _ = struct.unpack("3i", same.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        with turn:
            connections[peer] += 1
            if connections[peer] == 1:
                connected.append(peer)
        try:
            serve(self, connection)
        finally:
            with turn:
                connections[peer] -= 1
                if not connections[peer]:
                    connected.remove(peer)

    monkeypatch.setattr(Residents, "_serve", told)
    return connected
