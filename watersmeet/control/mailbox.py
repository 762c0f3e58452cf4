"""Requests of other processes to a running engine, and its replies: small files in `control/` of the home.

A file is written under another name and then renamed, so no process reads half of it. The engine holds the home's lock
as long as it runs; clients check the lock to know whether an engine will reply.

The engine continues whatever lies in the inbox. It opens only regular files of its own user and of limited size, and
rejects what is not a request of a known kind.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import math
import os
import secrets
import stat
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from watersmeet import errors
from watersmeet.errors import RunError, SourcePlace, WatersmeetError
from watersmeet.home import layout
from watersmeet.home.files import make_private, write_whole
from watersmeet.home.lock import is_running

POLL = 0.05  # seconds
KINDS = ("change", "resume", "explain")
_LARGEST = 4 << 20  # bytes of a request
_AT_ONCE = 1000  # requests that are taken together
NO_ENGINE = "start one: watersmeet run PIPELINE.SQL --home DIR; `list` and `stats` work without an engine"


@dataclass(frozen=True)
class Request:
    """A request of a client, one file in the inbox."""

    kind: str  # one of KINDS
    script: str = ""  # statements; the names of queries to resume
    file: str = ""  # of the script, for messages
    folder: str = ""  # relative paths in the script are relative to it
    format: str = ""  # of the plan
    at: float = field(default_factory=time.time)
    id: str = field(default_factory=lambda: f"{time.time_ns():020d}-{secrets.token_hex(4)}")


@dataclass(frozen=True)
class Reply:
    """An error, or the tick from which the request is active, or the requested text."""

    tick: int = 0
    latency: float = 0.0
    text: str = ""
    error: dict[str, Any] | None = None


class Mailbox:
    """The folder of requests and replies: both sides of it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.inbox, self.answers = home / layout.INBOX, home / layout.ANSWERS

    # The engine's side ---------------------------------------------------------------------------

    def open(self, began: float) -> None:
        """Make the folders, and remove requests that are older than this engine: they were for the previous run."""
        for folder in (self.inbox, self.answers):
            make_private(folder)
            for path in folder.iterdir():
                with contextlib.suppress(OSError):  # it is gone, or a folder
                    if path.lstat().st_mtime < began:
                        path.unlink()

    def take(self) -> Iterator[Request]:
        """The requests that wait, oldest first. One that is wrong is removed, and its sender gets the reason."""
        for path in self._waiting():
            try:
                request = _request(_content(path), path.stem)
            except FileNotFoundError:
                continue  # withdrawn
            except (OSError, ValueError, TypeError, RecursionError, MemoryError) as problem:
                request = None
                why = f"{type(problem).__name__}: {problem}"[:500]
            try:
                path.unlink()
            except OSError:
                continue  # withdrawn; or it would be taken again and again
            if request is not None:
                yield request
            else:
                rejected = RunError("the request cannot be read", detail=why)
                with contextlib.suppress(OSError):
                    self.answer(Request("", id=path.stem), Reply(error=error_of(rejected)))

    def _waiting(self) -> list[Path]:
        with os.scandir(self.inbox) as found:
            files = [each.path for each in found if not each.is_dir(follow_symlinks=False)]
        return [Path(path) for path in sorted(files) if fnmatch.fnmatch(path, layout.JSON_FILES)][:_AT_ONCE]

    def answer(self, request: Request, answer: Reply) -> None:
        write_whole(layout.message(self.answers, request.id), json.dumps(asdict(answer)))

    # The other side ------------------------------------------------------------------------------

    def ask(self, request: Request, timeout: float) -> Reply:
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

    def hear(self, request: Request) -> Reply | None:
        """The reply to a request, if it is there."""
        found = layout.message(self.answers, request.id)
        if not found.exists():
            return None
        answer = Reply(**json.loads(found.read_text()))
        found.unlink(missing_ok=True)
        return answer


def _content(path: Path) -> bytes:
    """The content of a small regular file of this user; a pipe or a link is not even waited for."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is not a regular file")
        if found.st_uid != os.geteuid():
            raise ValueError("it belongs to another user")
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"it has more than {_LARGEST:,} bytes")
    return content


def _request(content: bytes, name: str) -> Request:
    request = replace(Request(**json.loads(content)), id=name)
    if request.kind not in KINDS:
        raise ValueError(f"its kind is {request.kind!r}; the kinds are {', '.join(KINDS)}")
    for part in (request.script, request.file, request.folder, request.format):
        if not isinstance(part, str):
            raise TypeError(f"text was expected, not {type(part).__name__}")
    if not isinstance(request.at, int | float) or not math.isfinite(request.at):
        raise ValueError("its time is not a number")
    return request


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
    place = SourcePlace(**parts["place"]) if parts["place"] else None
    error: WatersmeetError = kind(parts["problem"], detail=parts["detail"], hint=parts["hint"], place=place)
    return error
