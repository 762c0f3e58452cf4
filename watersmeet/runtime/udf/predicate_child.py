"""The handler of the process in which registered predicates run, for `runtime/child_main.py`.

It imports nothing of Watersmeet, because a tick waits while it starts. Requests are plain values:

    LOAD, digest, code, where to look for modules   nothing
    CALL, digest, by_row, arguments                 the parts of an PredicateReply
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

LOAD, CALL = "load", "call"

_functions: dict[str, Callable[..., Any]] = {}  # by digest


class PredicateReply(NamedTuple):
    """Which rows a predicate is true for."""

    passed: bytes  # one byte per row, 0 or 1; empty where all rows failed
    failed: int = 0  # rows
    problem: tuple[str, str] | None = None  # type and text of the first exception


def answer(request: tuple[Any, ...]) -> tuple[Any, ...]:
    kind, digest, *rest = request
    if kind == LOAD:
        code, sys.path[:] = rest
        _functions[digest] = pickle.loads(code)
        return ()
    by_row, arguments = rest
    call = call_by_row if by_row else call_at_once
    return tuple(call(_functions[digest], arguments))


def call_at_once(function: Callable[..., Any], arguments: Sequence[Any]) -> PredicateReply:
    rows = len(arguments[0])
    found = np.asarray(function(*arguments))
    if found.dtype != np.bool_ or found.shape != (rows,):
        raise TypeError(f"it returned {found.dtype} of shape {found.shape} instead of {rows} booleans")
    return PredicateReply(found.tobytes())


def call_by_row(function: Callable[..., Any], arguments: Sequence[Any]) -> PredicateReply:
    boolean = bool | np.bool_
    passed, failed, first = bytearray(len(arguments[0])), 0, None
    for row, values in enumerate(zip(*arguments, strict=True)):
        try:
            found = function(*values)
            if not isinstance(found, boolean):
                raise TypeError(f"it returned {type(found).__name__} instead of bool")
            passed[row] = bool(found)
        except BaseException as problem:  # also SystemExit: a call must not end the process
            first = first or (type(problem).__name__, str(problem))
            failed += 1
    return PredicateReply(bytes(passed), failed, first)
