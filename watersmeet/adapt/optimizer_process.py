"""The optimizer in a process of its own: no tick waits for it, and it takes no interpreter time from the engine.

The process starts with the first request, and again if it died; a request during which it died has no reply.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from watersmeet.adapt import optimizer_child
from watersmeet.plan.proposals import PlanRequest, Proposal
from watersmeet.runtime.child_process import ChildProcess, Ended, Failed

NICENESS = 5  # ticks come first
_SLACK, _TIMES = 60.0, 20.0  # a request may take so many seconds, and so many times the time of its search


@dataclass(frozen=True)
class OptimizerReply:
    proposal: Proposal | None
    seconds: float  # that it took
    failure: str = ""


class OptimizerProcess:
    """The process of the optimizer, with at most one request at a time. `ask` and `answer` return at once."""

    def __init__(self) -> None:
        self._child: ChildProcess | None = None
        self._thread: threading.Thread | None = None
        self._answer: OptimizerReply | None = None
        self._change = threading.Lock()
        self._closed = False

    @property
    def busy(self) -> bool:
        return self._thread is not None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def ask(self, request: PlanRequest) -> None:
        assert not self.busy, "the optimizer has not replied yet"
        self._answer = None
        self._thread = threading.Thread(target=self._exchange, args=(request,), daemon=True)
        self._thread.start()

    def answer(self) -> OptimizerReply | None:
        """What the optimizer said since the last time, once."""
        if self._thread is None or self._thread.is_alive():
            return None
        self._thread = None
        return self._answer

    def wait(self, seconds: float | None = None) -> None:
        """Wait for the reply; ticks do not."""
        if self._thread is not None:
            self._thread.join(seconds)

    def close(self) -> None:
        """Ends the process, for good."""
        with self._change:
            self._closed = True
            if self._child is not None:
                self._child.close()

    def _exchange(self, request: PlanRequest) -> None:
        began, proposal, failure = time.monotonic(), None, ""
        try:
            child = self._running()
            began = time.monotonic()
            proposal = child.ask(request, _SLACK + _TIMES * request.options.plan_seconds)
        except Failed as problem:
            failure = str(problem)
        except (Ended, OSError) as problem:
            failure = f"the optimizer's process ended: {problem}"
        self._answer = OptimizerReply(proposal, time.monotonic() - began, failure)

    def _running(self) -> ChildProcess:
        child = self._child
        if child is not None and child.is_there:
            return child
        with self._change:
            if self._closed:
                raise Ended("it is closed")
            if child is not None:
                child.close()
            self._child = child = ChildProcess(optimizer_child.__file__, NICENESS)
        child.start()
        return child
