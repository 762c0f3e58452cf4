"""The main program of a child process: `python child_main.py CONNECTION LIFELINE`, two open file descriptors.

It imports nothing else of Watersmeet, because a tick may wait while it starts. Messages are pickled, with their length
in front. The first one has a handler, a Python file with a function `answer(request)`, and the search path of modules.
Each request has one reply: ANSWER and what the function returned, or FAILED and the type and text of what it raised.

The lifeline is the end of a pipe to which nothing is ever written. When the other end is closed, because the parent has
ended, the operating system sends a signal that ends this process too. It does so also while code
runs that never comes back to Python.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import pickle
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

_LENGTH = 8
NO_LIMIT = float("inf")

ANSWER, FAILED = "answer", "failed"


def send(connection: socket.socket, message: Any, end: float = NO_LIMIT) -> None:
    """Send a message. Raises a TimeoutError at the (monotonic) time `end`."""
    content = pickle.dumps(message, protocol=5)
    for part in (len(content).to_bytes(_LENGTH, "little"), content):
        _limit(connection, end)
        connection.sendall(part)


def receive(connection: socket.socket, end: float = NO_LIMIT) -> Any:
    """Receive a message. Raises a TimeoutError at the (monotonic) time `end`, an EOFError if the other side is gone."""
    length = int.from_bytes(_read(connection, _LENGTH, end), "little")
    return pickle.loads(_read(connection, length, end))


def _read(connection: socket.socket, length: int, end: float) -> bytearray:
    content = bytearray(length)
    rest = memoryview(content)
    while rest:
        _limit(connection, end)
        count = connection.recv_into(rest)
        if not count:
            raise EOFError
        rest = rest[count:]
    return content


def _limit(connection: socket.socket, end: float) -> None:
    connection.settimeout(None if end == NO_LIMIT else max(end - time.monotonic(), 1e-6))


def load_handler(file: str) -> Callable[[Any], Any]:
    spec = importlib.util.spec_from_file_location("handler", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    answer: Callable[[Any], Any] = module.answer
    return answer


def serve(connection: socket.socket) -> None:
    """Reply to requests until the other side is gone."""
    handler: Callable[[Any], Any] | None = None
    reply: tuple[str, Any]
    while True:
        try:
            request = receive(connection)
        except (EOFError, ConnectionError):
            return
        try:
            if handler is None:
                file, sys.path[:], niceness = request
                os.nice(niceness)
                handler = load_handler(file)
                reply = ANSWER, None
            else:
                reply = ANSWER, handler(request)
        except BaseException as problem:  # also SystemExit: a request must not end the process
            reply = FAILED, (type(problem).__name__, str(problem))
        send(connection, reply)


def _end_with(lifeline: int) -> None:
    signal.signal(signal.SIGIO, signal.SIG_DFL)  # which ends the process, without help from Python
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:  # closed before the signal was set up
        os._exit(0)


def main(connection: int, lifeline: int) -> None:
    for descriptor in (connection, lifeline):
        os.set_inheritable(descriptor, False)
    _end_with(lifeline)
    with socket.socket(fileno=connection) as ours:
        serve(ours)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
