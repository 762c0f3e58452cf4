"""Requests of other processes to a running engine, and its replies: small files in `control/` of the home.

A file is written under another name and then renamed, so no process reads half of it. The engine holds the home's lock
as long as it runs; clients check the lock to know whether an engine will reply.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from watersmeet import errors
from watersmeet.errors import Place, RunError, WatersmeetError
from watersmeet.home import layout
from watersmeet.home.files import write_whole
from watersmeet.home.lock import is_running

POLL = 0.05  # seconds
NO_ENGINE = "start one: watersmeet run PIPELINE.SQL --home DIR; `list` and `stats` work without an engine"


@dataclass(frozen=True)
class Request:
    kind: str  # change, resume or explain
    script: str = ""  # statements; the names of queries to resume
    file: str = ""  # of the script, for messages
    folder: str = ""  # relative paths in the script are relative to it
    format: str = ""  # of the plan
    at: float = field(default_factory=time.time)
    id: str = field(default_factory=lambda: f"{time.time_ns():020d}-{secrets.token_hex(4)}")


@dataclass(frozen=True)
class Answer:
    """An error, or the tick from which the request is active, or the requested text."""

    tick: int = 0
    latency: float = 0.0
    text: str = ""
    error: dict[str, Any] | None = None


class Mailbox:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.inbox, self.answers = home / layout.INBOX, home / layout.ANSWERS

    # The engine's side ---------------------------------------------------------------------------

    def open(self, began: float) -> None:
        """Make the folders, and remove requests that are older than this engine: they were for the previous run."""
        for folder in (self.inbox, self.answers):
            folder.mkdir(parents=True, exist_ok=True)
            for path in folder.iterdir():
                with contextlib.suppress(FileNotFoundError):
                    if path.stat().st_mtime < began:
                        path.unlink()

    def take(self) -> Iterator[Request]:
        """The requests that wait, oldest first. One that cannot be read is removed; its sender gets no reply."""
        for path in sorted(self.inbox.glob(layout.JSON_FILES)):
            request: Request | None
            try:
                request = replace(Request(**json.loads(path.read_text())), id=path.stem)
            except (OSError, ValueError, TypeError):
                request = None
            path.unlink(missing_ok=True)
            if request is not None:
                yield request

    def answer(self, request: Request, answer: Answer) -> None:
        write_whole(layout.message(self.answers, request.id), json.dumps(asdict(answer)))

    # The other side ------------------------------------------------------------------------------

    def ask(self, request: Request, timeout: float) -> Answer:
        """Send a request and wait for the reply; raises the error for which the engine rejected it."""
        if not is_running(self.home) or not self.inbox.exists():
            raise RunError(f"no engine is running on the home {self.home}", hint=NO_ENGINE)
        sent = self.send(request)
        end = time.monotonic() + timeout
        while (answer := self.hear(request)) is None:
            over = time.monotonic() > end
            if over or not is_running(self.home):
                why = f"did not reply within {timeout:g} seconds" if over else "has stopped"
                raise _unanswered(f"the engine on {self.home} {why}", sent)
            time.sleep(POLL / 2)
        if answer.error is not None:
            raise error_from(answer.error)
        return answer

    def send(self, request: Request) -> Path:
        sent = layout.message(self.inbox, request.id)
        try:
            write_whole(sent, json.dumps(asdict(request)))
        except OSError as problem:
            raise RunError(f"the request cannot be written into {self.inbox}", detail=str(problem)) from None
        return sent

    def hear(self, request: Request) -> Answer | None:
        """The answer, if it is there."""
        found = layout.message(self.answers, request.id)
        if not found.exists():
            return None
        answer = Answer(**json.loads(found.read_text()))
        found.unlink(missing_ok=True)
        return answer


def _unanswered(problem: str, sent: Path) -> RunError:
    try:
        sent.unlink()
    except FileNotFoundError:
        return RunError(
            problem, detail="It had accepted the request.", hint="run `watersmeet list` to see whether it is active"
        )
    return RunError(problem, detail="The request is withdrawn; nothing was changed.", hint="use a longer --timeout")


def error_of(problem: WatersmeetError) -> dict[str, Any]:
    """An error as it travels between processes."""
    place = asdict(problem.place) if problem.place else None
    parts = {"problem": problem.problem, "detail": problem.detail, "hint": problem.hint, "place": place}
    return {"kind": type(problem).__name__, **parts}


def error_from(parts: dict[str, Any]) -> WatersmeetError:
    kind = getattr(errors, parts["kind"], WatersmeetError)
    place = Place(**parts["place"]) if parts["place"] else None
    error: WatersmeetError = kind(parts["problem"], detail=parts["detail"], hint=parts["hint"], place=place)
    return error
