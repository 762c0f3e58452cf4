"""The control thread of a running engine: replies to requests, and activates changes where no data arrives."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from typing import Protocol

from watersmeet.control.changes import Asked, Change, InForce, Resume, Verdict
from watersmeet.control.checker import Checker
from watersmeet.control.mailbox import POLL, Answer, Mailbox, Request, error_of
from watersmeet.errors import RunError, WatersmeetError
from watersmeet.pipeline import Pipeline
from watersmeet.plan.formats import plan_text
from watersmeet.plan.render import RenderedPlan

SETTLED = 3.0  # seconds after which an engine is likely to run for longer, and to get requests
IDLE = 1.0  # seconds that a change waits for a tick of the sources before it gets a tick of its own


class Controlled(Protocol):
    """The engine, as far as other processes control it."""

    @property
    def pipeline(self) -> Pipeline: ...

    def plan(self) -> RenderedPlan: ...

    def apply(self, requests: Sequence[Asked]) -> list[Verdict]: ...

    def settle(self, idle: float) -> None: ...


class ControlServer:
    def __init__(self, engine: Controlled, mailbox: Mailbox) -> None:
        self._engine = engine
        self._mailbox = mailbox
        self._checker = Checker()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="watersmeet-control", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Answer what was taken, then end."""
        self._over.set()
        self._checker.close()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _serve(self) -> None:
        began: float | None = time.monotonic()
        while not self._over.wait(POLL):
            if began is not None and time.monotonic() - began > SETTLED:
                began = None
                self._checker.start()
            with contextlib.suppress(OSError):  # a full disk: whoever asked hears nothing, and later ones may
                requests = list(self._mailbox.take())
                if requests:
                    self._decide(requests)
            self._engine.settle(IDLE)

    def _decide(self, requests: Sequence[Request]) -> None:
        """All changes that wait are one batch: planned once, and active from the same tick."""
        accepted: list[tuple[Request, Asked]] = []
        for request in requests:
            try:
                if request.kind == "explain":
                    self._mailbox.answer(request, Answer(text=plan_text(self._engine.plan(), request.format)))
                    continue
                changes = self._changes(request)
                accepted.append((request, Asked(min(request.at, time.time()), changes)))
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
            if isinstance(verdict, InForce):
                self._mailbox.answer(request, Answer(verdict.tick, verdict.latency, verdict.text))
            else:
                self._reject(request, verdict)

    def _changes(self, request: Request) -> tuple[Change, ...]:
        if request.kind == "resume":
            return tuple(Resume(name) for name in request.script.split())
        return self._checker.read_changes(request.script, request.file, request.folder, self._engine.pipeline)

    def _reject(self, request: Request, problem: Exception) -> None:
        if not isinstance(problem, WatersmeetError):
            problem = RunError(f"the engine could not execute the request: {type(problem).__name__}: {problem}")
        self._mailbox.answer(request, Answer(error=error_of(problem)))
