"""The process in which registered predicates run: `python child.py CONNECTION LIFELINE`, two open file descriptors.

It imports nothing else of Watersmeet, because a tick waits while it starts. Messages are plain values, pickled, with
their length in front. After "ready" each request has one answer:

    LOAD, digest, code, where to look for modules   what keeps the function from being loaded, or ""
    CALL, digest, by_row, arguments                 the parts of an Answer

The lifeline is the end of a pipe to which nothing is ever written. When the other end is closed, because the process
that started this one has ended in whatever way, the operating system sends a signal that ends this one too. It does so
also while code of a user runs that never comes back to Python.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

_LENGTH = 8
NO_LIMIT = float("inf")

LOAD, CALL = "load", "call"


class Answer(NamedTuple):
    passed: bytes  # one byte a row, 0 or 1; empty where no row has an answer
    failed: int  # rows
    complaint: str  # about the first failure


def send(connection: socket.socket, message: Any, end: float = NO_LIMIT) -> None:
    """Raises a TimeoutError at the (monotonic) time `end`."""
    content = pickle.dumps(message, protocol=5)
    for part in (len(content).to_bytes(_LENGTH, "little"), content):
        _limit(connection, end)
        connection.sendall(part)


def receive(connection: socket.socket, end: float = NO_LIMIT) -> Any:
    """Raises a TimeoutError at the (monotonic) time `end`, and an EOFError when nobody is there to send any more."""
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


def described(problem: BaseException) -> str:
    text = str(problem).strip().split("\n", maxsplit=1)[0]
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__


def call_at_once(function: Callable[..., Any], arguments: Sequence[Any]) -> Answer:
    rows = len(arguments[0])
    try:
        answer = np.asarray(function(*arguments))
        if answer.dtype != np.bool_ or answer.shape != (rows,):
            raise TypeError(f"it answered with {answer.dtype} of shape {answer.shape} instead of {rows} booleans")
        return Answer(answer.tobytes(), 0, "")
    except BaseException as problem:  # also SystemExit: a call must not end the process
        return Answer(b"", rows, described(problem))


def call_by_row(function: Callable[..., Any], arguments: Sequence[Any]) -> Answer:
    boolean = bool | np.bool_
    passed, failed, complaint = bytearray(len(arguments[0])), 0, ""
    for row, values in enumerate(zip(*arguments, strict=True)):
        try:
            found = function(*values)
            if not isinstance(found, boolean):
                raise TypeError(f"it answered with {type(found).__name__} instead of bool")
            passed[row] = bool(found)
        except BaseException as problem:
            complaint = complaint or described(problem)
            failed += 1
    return Answer(bytes(passed), failed, complaint)


def serve(connection: socket.socket) -> None:
    functions: dict[str, Callable[..., Any]] = {}
    while True:
        try:
            kind, digest, *rest = receive(connection)
        except (EOFError, ConnectionError):
            return
        if kind == LOAD:
            code, sys.path[:] = rest
            send(connection, _load(functions, digest, code))
        else:
            by_row, arguments = rest
            call = call_by_row if by_row else call_at_once
            send(connection, tuple(call(functions[digest], arguments)))


def _load(functions: dict[str, Callable[..., Any]], digest: str, code: bytes) -> str:
    try:
        functions[digest] = pickle.loads(code)
        return ""
    except BaseException as problem:
        return described(problem)


def _end_with(lifeline: int) -> None:
    signal.signal(signal.SIGIO, signal.SIG_DFL)  # which ends the process, without help from Python
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:  # closed before anybody was to be told
        os._exit(0)


def main(connection: int, lifeline: int) -> None:
    for descriptor in (connection, lifeline):
        os.set_inheritable(descriptor, False)
    _end_with(lifeline)
    with socket.socket(fileno=connection) as ours:
        send(ours, "ready")
        serve(ours)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
