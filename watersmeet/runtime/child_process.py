"""A child process that replies to requests, for code that may not return, crash, or take the interpreter's time.

It ends with this process, however that ends (see child_main.py). Its output goes to the standard error.

The time that a request may take is CPU time of the process, or time in which it does nothing. What a busy machine makes
it wait for a processor does not count, so that other work on the machine ends no request."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from watersmeet.runtime import child_main
from watersmeet.runtime.child_main import FAILED, NO_LIMIT, receive, send

TO_START = 60.0  # seconds, imports included
_TO_END = 30.0  # seconds until a process is gone that has closed its connection


class Ended(Exception):
    """The child process has ended; the text says how."""


class Failed(Exception):
    """The handler raised; the type and the text of that. The process is still there."""

    def __str__(self) -> str:
        return described(*self.args)


def described(kind: str, text: str) -> str:
    """An exception of the child in one line."""
    line = text.strip().split("\n", maxsplit=1)[0]
    return f"{kind}: {line}" if line else kind


class ChildProcess:
    """A child process and its connection, unusable after it raised `Ended`. `close` may be called by any thread."""

    def __init__(self, handler: str, niceness: int = 0) -> None:
        """`handler` is a Python file with a function `answer(request)`. Call `start` before the first request."""
        self._handler, self._niceness = handler, niceness
        self._connection, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-P", child_main.__file__, str(theirs.fileno()), str(lifeline)],
            pass_fds=(theirs.fileno(), lifeline),
            stdin=subprocess.DEVNULL,
            stdout=2,  # what is printed there is for people: our own output may belong to Spark
            start_new_session=True,  # what the child has started ends with it; Ctrl-C is for its parent
        )
        theirs.close()
        os.close(lifeline)
        self._asking = threading.RLock()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_there(self) -> bool:
        return self._process.poll() is None

    def start(self) -> None:
        """Return when the process is ready for requests."""
        try:
            self.ask((self._handler, sys.path, self._niceness), TO_START)
        except Failed as problem:
            self.close()
            raise Ended(f"it cannot be started: {problem}") from None

    def ask(self, request: Any, seconds: float) -> Any:
        with self._asking:
            try:
                send(self._connection, request, time.monotonic() + max(seconds, TO_START))
                self._wait_for_reply(seconds)
                kind, content = receive(self._connection, time.monotonic() + TO_START)
            except TimeoutError:
                self.close()
                raise Ended(f"it timed out after {seconds:g} seconds") from None
            except (EOFError, OSError):
                raise Ended(self._how_it_ended()) from None
        if kind == FAILED:
            raise Failed(*content)
        return content

    def _wait_for_reply(self, seconds: float) -> None:
        """Until it begins to come. Raises a TimeoutError."""
        used = _used(self.pid)[0]
        left = seconds
        while True:
            self._connection.settimeout(None if left == NO_LIMIT else left)
            try:
                self._connection.recv(1, socket.MSG_PEEK)
                return
            except TimeoutError:
                now, works = _used(self.pid)
                left = seconds - (now - used)
                if not works or left <= 0:
                    raise

    def _how_it_ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_TO_END)
        code = self._process.returncode
        self.close()
        if code is None:
            return "it closed the connection of its process"
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
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for an answer
        with self._asking:
            self._connection.close()
            if self._lifeline >= 0:
                os.close(self._lifeline)
                self._lifeline = -1


def _used(pid: int) -> tuple[float, bool]:
    """The CPU seconds that a process has used, and whether it would use more if it got a processor or what it reads
    from a disk. Where the system does not tell (macOS), it counts as doing nothing."""
    try:
        state, *numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0, False
    return (int(numbers[10]) + int(numbers[11])) / os.sysconf("SC_CLK_TCK"), state in "RD"
