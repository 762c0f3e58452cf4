"""The connection between the driver and a resident task: found by address, authenticated by a key.

On the driver's own host it is a Unix socket in a folder that only its user may enter, elsewhere TCP. Both sides prove
that they know the key, which reaches tasks in the way that Spark brings them their code, before anything else is read.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import threading
from collections.abc import Callable
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

from watersmeet.socket_folder import make_socket_folder

Address = str | tuple[str, int]  # the path of a Unix socket, or host and port
GREETING_SECONDS = 10.0
_PAUSE = 0.1


class Listener:
    """Gives each connection that was made with the key to `arrived`, in a thread of its own."""

    def __init__(self, key: bytes, host: str | None, arrived: Callable[[Connection], None]) -> None:
        """`host` is the name by which others reach this machine; None where all tasks are on it."""
        self._key = key
        self._arrived = arrived
        self._closed = threading.Event()
        self._folder = make_socket_folder()
        path = os.path.join(self._folder, "residents")
        self._sockets = [_listening(socket.AF_UNIX, path)]
        self.addresses: list[Address] = [path]
        if host is not None:
            self._sockets.append(_listening(socket.AF_INET, (host, 0)))
            self.addresses.append((host, self._sockets[-1].getsockname()[1]))
        for each in self._sockets:
            threading.Thread(target=self._accept, args=(each,), name="watersmeet residents", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
            each.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                accepted, _ = listening.accept()
            except OSError:  # closed, or a moment without free file numbers
                if self._closed.wait(_PAUSE):
                    return
                continue
            # Whoever is silent keeps only a thread of its own waiting.
            threading.Thread(target=self._greet, args=(accepted,), name="watersmeet resident", daemon=True).start()

    def _greet(self, accepted: socket.socket) -> None:
        limit_waiting(accepted, GREETING_SECONDS)
        send_at_once(accepted)
        connection = Connection(accepted.detach())
        try:
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
        except (AuthenticationError, OSError, EOFError):
            connection.close()
            return
        self._arrived(connection)


def _listening(family: int, address: Address) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    made.bind(address)
    made.listen(128)
    return made


def connect(addresses: list[Address], key: bytes) -> Connection:
    """A connection to the driver by the first address that leads there."""
    for address in addresses:
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        if family == socket.AF_UNIX and not os.path.exists(str(address)):
            continue  # another host's
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.settimeout(GREETING_SECONDS)
            made.connect(address)
            made.settimeout(None)
            limit_waiting(made, GREETING_SECONDS)
            send_at_once(made)
        except OSError:
            made.close()
            continue
        connection = Connection(made.detach())
        try:
            answer_challenge(connection, key)
            deliver_challenge(connection, key)
            limit_waiting(connection, 0)  # an order may be long in coming
        except BaseException:
            connection.close()
            raise
        return connection
    raise ConnectionError(f"the engine of this resident task cannot be reached at {addresses}")


def send_at_once(of: socket.socket) -> None:
    """Do not let the second part of a message wait until the first has been acknowledged."""
    if of.family == socket.AF_INET:
        of.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def hang_up(connection: Connection) -> None:
    """End a connection that another thread may be reading; that thread closes it."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as same:
        same.shutdown(socket.SHUT_RDWR)


def limit_waiting(of: socket.socket | Connection, seconds: float) -> None:
    """Let each read and write fail that waits longer than this for the other side; 0: wait for ever."""
    limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
    with socket.socket(fileno=os.dup(of.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        same.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
