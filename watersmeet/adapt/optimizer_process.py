"""The optimizer in a process of its own: no tick waits for it, and it takes no interpreter time from the engine.

Requests and proposals travel pickled through the process's standard input and output. The process is started when it is
first asked, and again if it died; a request that it died on has no answer.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
from dataclasses import dataclass

from watersmeet.adapt.proposal import Proposal, Request


@dataclass(frozen=True)
class Answer:
    number: int  # of the request
    proposal: Proposal | None
    failure: str = ""


class OptimizerProcess:
    """At most one request at a time. `ask` and `answer` return at once."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._answer: Answer | None = None
        self._change = threading.Lock()
        self._closed = False

    @property
    def busy(self) -> bool:
        return self._thread is not None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def ask(self, number: int, request: Request) -> None:
        assert not self.busy, "the optimizer has not answered yet"
        self._answer = None
        self._thread = threading.Thread(target=self._exchange, args=(number, request), daemon=True)
        self._thread.start()

    def answer(self) -> Answer | None:
        """What the optimizer said since the last time, once."""
        if self._thread is None or self._thread.is_alive():
            return None
        self._thread = None
        return self._answer

    def wait(self, seconds: float | None = None) -> None:
        """Until the answer is there: for tests and for those who have nothing else to do."""
        if self._thread is not None:
            self._thread.join(seconds)

    def close(self) -> None:
        """Ends the process, for good."""
        with self._change:
            self._closed = True
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            _close_pipes(process)

    def _running(self) -> subprocess.Popen[bytes]:
        with self._change:
            if self._closed:
                raise EOFError("it was closed")
            if self._process is None or self._process.poll() is not None:
                self._end()
                self._process = _start()
            return self._process

    def _exchange(self, number: int, request: Request) -> None:
        try:
            process = self._running()
            assert process.stdin is not None and process.stdout is not None
            pickle.dump(request, process.stdin)
            process.stdin.flush()
            outcome = pickle.load(process.stdout)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError) as problem:
            self._answer = Answer(number, None, f"the optimizer's process ended: {problem or type(problem).__name__}")
            return
        if isinstance(outcome, Proposal):
            self._answer = Answer(number, outcome)
        else:
            self._answer = Answer(number, None, str(outcome))


def _start() -> subprocess.Popen[bytes]:
    folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join(part for part in (folder, os.environ.get("PYTHONPATH", "")) if part)
    return subprocess.Popen(
        [sys.executable, "-m", "watersmeet.adapt.optimizer_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,  # Ctrl-C is for the engine, which then ends this one
    )


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
