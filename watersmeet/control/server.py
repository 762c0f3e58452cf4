"""The control threads of a running engine: one replies to requests, the other activates changes where no data arrives.

They are two, so that a request has a reply, and the engine can be stopped, while a tick without data takes long."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Sequence
from typing import Protocol

from watersmeet.control.changes import Activated, Change, ChangeRequest, Resume, Verdict
from watersmeet.control.checker import Checker
from watersmeet.control.mailbox import POLL, Mailbox, Reply, Request, error_of
from watersmeet.errors import RunError, WatersmeetError
from watersmeet.pipeline import Pipeline
from watersmeet.plan.formats import plan_text
from watersmeet.plan.rendered import RenderedPlan

SETTLED = 3.0  # seconds after which an engine is likely to run for longer, and to get requests
IDLE = 1.0  # seconds that a change waits for a tick of the sources before it gets a tick of its own
_log = logging.getLogger("watersmeet")


class Controlled(Protocol):
    """The engine, as far as other processes control it."""

    @property
    def pipeline(self) -> Pipeline: ...

    def plan(self) -> RenderedPlan: ...

    def apply(self, requests: Sequence[ChangeRequest]) -> list[Verdict]: ...

    def settle(self, idle: float) -> None: ...


class ControlServer:
    """The threads that handle the mailbox of a running engine."""

    def __init__(self, engine: Controlled, mailbox: Mailbox) -> None:
        self._engine = engine
        self._mailbox = mailbox
        self._checker = Checker()
        self._over = threading.Event()
        self._looked = time.monotonic()  # when the inbox was last looked into
        self._thread = threading.Thread(target=self._serve, name="watersmeet-control", daemon=True)
        self._settling = threading.Thread(target=self._settle, name="watersmeet-settling", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._settling.start()

    def stop(self) -> None:
        """Reply to what was taken, then end. A tick that runs is the engine's to end."""
        self._over.set()
        self._checker.close()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _serve(self) -> None:
        began: float | None = time.monotonic()
        while not self._over.wait(POLL):
            try:
                if began is not None and time.monotonic() - began > SETTLED:
                    began = None
                    self._checker.start()
                with contextlib.suppress(OSError):  # a full disk: these clients get no reply, later ones may
                    self._look()
            except Exception:  # the thread must live on: without it no request would get a reply
                _log.exception("a request of another process failed")

    def _settle(self) -> None:
        while not self._over.wait(POLL):
            try:
                self._engine.settle(IDLE)
            except Exception:  # the thread must live on: a later change may succeed
                _log.exception("a tick without data failed")

    def _look(self) -> None:
        before, self._looked = self._looked, time.monotonic()
        requests = list(self._mailbox.take())
        if requests:
            self._decide(requests, before)

    def _decide(self, requests: Sequence[Request], before: float) -> None:
        """All changes that wait are one batch: planned once, and active from the same tick.

        All of them came after `before`, when the inbox was last looked into."""
        accepted: list[tuple[Request, ChangeRequest]] = []
        for request in requests:
            try:
                if request.kind == "explain":
                    self._mailbox.answer(request, Reply(text=plan_text(self._engine.plan(), request.format)))
                    continue
                changes = self._changes(request)
                accepted.append((request, ChangeRequest(asked_at(request.at, before), changes)))
            except Exception as problem:
                self._reject(request, problem)
        if not accepted:
            return
        try:
            verdicts = self._engine.apply([asked for _, asked in accepted])
        except Exception as problem:  # the thread must continue, and the clients must get a reply
            for request, _ in accepted:
                self._reject(request, problem)
            return
        for (request, _), verdict in zip(accepted, verdicts, strict=True):
            if isinstance(verdict, Activated):
                self._mailbox.answer(request, Reply(verdict.tick, verdict.latency, verdict.text))
            else:
                self._reject(request, verdict)

    def _changes(self, request: Request) -> tuple[Change, ...]:
        if request.kind == "resume":
            return tuple(Resume(name) for name in request.script.split())
        return self._checker.read_changes(request.script, request.file, request.folder, self._engine.pipeline)

    def _reject(self, request: Request, problem: Exception) -> None:
        if not isinstance(problem, WatersmeetError):
            problem = RunError(f"the engine could not execute the request: {type(problem).__name__}: {problem}")
        self._mailbox.answer(request, Reply(error=error_of(problem)))


def asked_at(sent: float, before: float) -> float:
    """The monotonic time of a request that its sender dates by the wall clock, which may have been set since: not
    earlier than the last look at which it was not there yet, nor later than now."""
    now = time.monotonic()
    return min(now, max(before, now - (time.time() - sent)))
