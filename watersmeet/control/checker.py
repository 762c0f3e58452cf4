"""Requests of other processes are checked in a process of its own, within a bounded time and memory.

So a query that takes for ever to check, or all memory, is rejected and nobody else notices. The process is started when
it is first needed, and again if it was ended.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from watersmeet.control import check_child
from watersmeet.control.changes import Change
from watersmeet.errors import RunError, SqlError, WatersmeetError
from watersmeet.pipeline import Pipeline
from watersmeet.runtime.child_process import ChildProcess, Ended, Failed


class Checker:
    """The child process that checks requests, started with the first one."""

    def __init__(self) -> None:
        self._child: ChildProcess | None = None
        self._turn = threading.Lock()
        self._closed = False

    def start(self) -> None:
        """Have the process ready before the first request comes."""
        threading.Thread(target=self._ready, name="watersmeet checker", daemon=True).start()

    def read_changes(self, script: str, file: str, folder: str, pipeline: Pipeline) -> tuple[Change, ...]:
        """`changes.read_changes`, in the child process."""
        seconds = pipeline.options.check_seconds
        if len(script) > 16 * pipeline.options.max_query_length:
            raise SqlError(f"the request has {len(script):,} characters", hint="send the queries one by one")
        declared = replace(pipeline, queries={})  # what the queries are does not matter here, and is much
        with self._turn:
            try:
                found = self._ready_child().ask((script, file, folder, declared), seconds)
            except Ended as problem:
                self._child = None
                raise RunError(
                    "the request was rejected: its check did not end",
                    detail=f"The process that checks requests: {problem}.",
                    hint="make the query simpler, or raise the option check_seconds",
                ) from None
            except Failed as problem:
                raise RunError(f"the request cannot be checked: {problem}") from None
        if isinstance(found, WatersmeetError):
            raise found
        changes: tuple[Change, ...] = found
        return changes

    def _ready(self) -> None:
        with self._turn:
            try:
                self._ready_child()
            except Ended:
                self._child = None

    def _ready_child(self) -> ChildProcess:
        if self._closed:
            raise Ended("the engine stops")
        if self._child is None or not self._child.is_there:
            self._child = ChildProcess(check_child.__file__)
            self._child.start()
        return self._child

    def close(self) -> None:
        self._closed = True
        child = self._child
        if child is not None:
            child.close()
        with self._turn:  # one that was being started
            if self._child is not None:
                self._child.close()
