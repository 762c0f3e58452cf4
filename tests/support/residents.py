"""Which processes are resident tasks of this process's engines."""

from __future__ import annotations

import os
import socket
import struct
import threading
from multiprocessing.connection import Connection

import pytest

from watersmeet.runtime.exec.link import limit_waiting
from watersmeet.runtime.exec.resident_pool import Residents


class ConnectedResidents(list[int]):
    """Processes. Each has a connection for ticks, and one for what runs beside them."""

    def __init__(self) -> None:
        self.connections: dict[int, list[Connection]] = {}

    def lose_patience(self, process: int) -> None:
        """Let the engine give up a resident that says nothing at the next order, however long it waits for others."""
        for connection in self.connections[process]:
            limit_waiting(connection, 0.1)


def connected_residents(monkeypatch: pytest.MonkeyPatch) -> ConnectedResidents:
    """The processes that are connected as residents, as the operating system names them."""
    connected = ConnectedResidents()
    turn = threading.Lock()
    serve = Residents._serve

    def told(self: Residents, connection: Connection) -> None:
        with socket.socket(fileno=os.dup(connection.fileno())) as same:
            peer, _, _ = struct.unpack("3i", same.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        with turn:
            connected.connections.setdefault(peer, []).append(connection)
            if len(connected.connections[peer]) == 1:
                connected.append(peer)
        try:
            serve(self, connection)
        finally:
            with turn:
                connected.connections[peer].remove(connection)
                if not connected.connections[peer]:
                    connected.remove(peer)

    monkeypatch.setattr(Residents, "_serve", told)
    return connected
