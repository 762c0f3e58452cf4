"""The worker's side of the process that calls registered predicates (see child.py), started at the first call."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any

from watersmeet.errors import RunError
from watersmeet.model import Registered
from watersmeet.runtime.udf import child
from watersmeet.runtime.udf.child import CALL, LOAD, Answer, receive, send

_TO_START = 60.0  # seconds; also for what a function imports, which is no part of a call
_TO_END = 5.0  # seconds until a process is gone that has closed its connection


class Ended(Exception):
    """The process is gone, and the predicate is why; says how."""


class CallerProcess:
    """Not to be used again once it has raised."""

    def __init__(self) -> None:
        self._connection, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        command = [sys.executable, "-P", child.__file__, str(theirs.fileno()), str(lifeline)]
        self._process = subprocess.Popen(
            command,
            pass_fds=(theirs.fileno(), lifeline),
            stdin=subprocess.DEVNULL,
            stdout=2,  # what users print is for people: a worker's own output belongs to Spark
            start_new_session=True,  # so that what a predicate has started ends with it
        )
        theirs.close()
        os.close(lifeline)
        self._loaded: dict[str, str] = {}  # by digest, what was wrong with it
        try:
            self._ask(None, _TO_START)
        except Ended as problem:
            raise RunError("the process for registered predicates cannot be started", detail=str(problem)) from None

    @property
    def is_there(self) -> bool:
        return self._process.poll() is None

    def call(self, function: Registered, arguments: list[Any]) -> Answer:
        digest = function.digest
        if digest not in self._loaded:
            self._loaded[digest] = self._ask((LOAD, digest, function.code, sys.path), _TO_START)
        if self._loaded[digest]:
            return Answer(b"", len(arguments[0]), self._loaded[digest])
        return Answer(*self._ask((CALL, digest, function.by_row, arguments), function.seconds))

    def _ask(self, request: Any, seconds: float) -> Any:
        end = time.monotonic() + seconds
        try:
            if request is not None:
                send(self._connection, request, end)
            return receive(self._connection, end)
        except TimeoutError:
            self.close()
            raise Ended(f"it took more than {seconds:g} seconds") from None
        except (EOFError, ConnectionError):
            raise Ended(self._how_it_ended()) from None

    def _how_it_ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_TO_END)
        code = self._process.returncode
        self.close()
        if code is None:
            return "it broke off the connection of its process"
        return (
            f"its process was ended by signal {signal.Signals(-code).name}"
            if code < 0
            else f"it ended its process ({code})"
        )

    def close(self) -> None:
        if self.is_there:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._connection.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1


_process: CallerProcess | None = None
_turn = threading.Lock()  # two embedded engines may call at the same time


def call_outside(function: Registered, arguments: list[Any]) -> Answer:
    """Call a function in the process beside this one, which is started, or started again, if it is not there."""
    global _process
    with _turn:
        if _process is None or not _process.is_there:
            end_caller_process()
            _process = CallerProcess()
        return _process.call(function, arguments)


@atexit.register
def end_caller_process() -> None:
    if _process is not None:
        _process.close()
