"""Calls registered predicates in a child process, which starts with the first call."""

from __future__ import annotations

import atexit
import sys
import threading
from typing import Any

from watersmeet.errors import RunError
from watersmeet.model import Registered
from watersmeet.runtime.child_process import TO_START, ChildProcess, Ended, Failed
from watersmeet.runtime.udf import predicate_child
from watersmeet.runtime.udf.predicate_child import CALL, LOAD, PredicateReply


class PredicateProcess:
    """The child process that calls registered predicates. Not to be used again once it has raised."""

    def __init__(self) -> None:
        self.child = ChildProcess(predicate_child.__file__)
        self._loaded: dict[str, tuple[str, str] | None] = {}  # by digest, what was wrong with it
        try:
            self.child.start()
        except Ended as problem:
            raise RunError("the process for registered predicates cannot be started", detail=str(problem)) from None

    def call(self, function: Registered, arguments: list[Any]) -> PredicateReply:
        if function.digest not in self._loaded:
            self._loaded[function.digest] = self._load(function)
        problem = self._loaded[function.digest]
        if problem is None:
            try:
                request = CALL, function.digest, function.by_row, arguments
                return PredicateReply(*self.child.ask(request, function.seconds))
            except Failed as raised:
                problem = raised.args
        return PredicateReply(b"", len(arguments[0]), problem)

    def _load(self, function: Registered) -> tuple[str, str] | None:
        try:
            self.child.ask((LOAD, function.digest, function.code, sys.path), TO_START)
            return None
        except Failed as raised:
            return raised.args


_process: PredicateProcess | None = None
_turn = threading.Lock()  # two embedded engines may call at the same time


def call_outside(function: Registered, arguments: list[Any]) -> PredicateReply:
    """Call a function in the child process, which is started if it does not run."""
    global _process
    with _turn:
        if _process is None or not _process.child.is_there:
            end_predicate_process()
            _process = PredicateProcess()
        return _process.call(function, arguments)


@atexit.register
def end_predicate_process() -> None:
    if _process is not None:
        _process.child.close()
