"""Calling registered predicates: code of users, which may raise, answer nonsense or never return.

None of that may disturb other queries. Where a call raises or does not answer with booleans, the predicate is false and
the rows are counted. A call that takes longer than the predicate may is interrupted; then the predicate is false until
the task ends, or every block would wait as long again. The first complaint about each predicate is kept, for people.
"""

from __future__ import annotations

import json
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.model import Registered

COMPLAINTS = "predicates.jsonl"  # in the home
_AGAIN = 0.5  # seconds after which code that does not let itself be interrupted is interrupted again


class _RanAway(BaseException):
    """Not an Exception: code that catches those is interrupted all the same."""


@dataclass(frozen=True)
class Called:
    passed: np.ndarray
    failed: int  # rows


@dataclass
class Calls:
    """The calls of one task."""

    complaints: dict[str, str] = field(default_factory=dict)  # by predicate, what went wrong first
    stopped: set[str] = field(default_factory=set)

    def call(self, function: Registered, arguments: list[pa.Array]) -> Called:
        """Whether the predicate is true of each row. A NULL among the arguments makes it not true, without a call."""
        rows = len(arguments[0])
        passed, known = np.zeros(rows, bool), np.ones(rows, bool)
        for argument in arguments:
            known &= np.asarray(argument.is_valid())
        asked = np.flatnonzero(known)
        if function.name in self.stopped:
            return Called(passed, len(asked))
        if not len(asked):
            return Called(passed, 0)
        chosen = [argument.take(pa.array(asked)) for argument in arguments]
        try:
            with _time_limit(function.seconds):
                answer, failed = (
                    self._by_row(function, chosen) if function.by_row else (self._at_once(function, chosen), 0)
                )
        except _RanAway:
            self.stopped.add(function.name)
            self._complain(function, f"it took more than {function.seconds:g} seconds for {len(asked):,} rows")
            return Called(passed, len(asked))
        except (Exception, SystemExit) as problem:
            self._complain(function, _described(problem))
            return Called(passed, len(asked))
        passed[asked] = answer
        return Called(passed, failed)

    def _at_once(self, function: Registered, arguments: list[pa.Array]) -> np.ndarray:
        answer = np.asarray(_loaded(function.code)(*(_as_numpy(argument) for argument in arguments)))
        if answer.dtype != np.bool_ or answer.shape != (len(arguments[0]),):
            raise TypeError(
                f"it answered with {answer.dtype} of shape {answer.shape} instead of {len(arguments[0])} booleans"
            )
        return answer

    def _by_row(self, function: Registered, arguments: list[pa.Array]) -> tuple[np.ndarray, int]:
        answer, failed = np.zeros(len(arguments[0]), bool), 0
        called = _loaded(function.code)
        for row, values in enumerate(zip(*(argument.to_pylist() for argument in arguments), strict=True)):
            try:
                found = called(*values)
                if not isinstance(found, bool | np.bool_):
                    raise TypeError(f"it answered with {type(found).__name__} instead of bool")
                answer[row] = found
            except (Exception, SystemExit) as problem:
                self._complain(function, _described(problem))
                failed += 1
        return answer, failed

    def tell(self, home: Path, tick: int) -> None:
        """Write down what went wrong, where `complaints_in` finds it."""
        if self.complaints:
            lines = [
                json.dumps({"tick": tick, "predicate": name, "problem": problem}) + "\n"
                for name, problem in self.complaints.items()
            ]
            with (home / COMPLAINTS).open("a", encoding="utf-8") as file:
                file.write("".join(lines))  # short enough to be appended in one piece

    def _complain(self, function: Registered, problem: str) -> None:
        self.complaints.setdefault(function.name, problem)


def complaints_in(home: Path) -> dict[str, str]:
    """For each predicate that failed what was last said of it, with the tick."""
    found = {}
    path = home / COMPLAINTS
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            raw = json.loads(line)
            found[str(raw["predicate"])] = f"{raw['problem']} (tick {raw['tick']})"
        except (ValueError, KeyError, TypeError):
            continue  # a line that a dying worker left half written
    return found


def _as_numpy(argument: pa.Array) -> np.ndarray:
    return np.asarray(argument.to_numpy(zero_copy_only=False))


@lru_cache(maxsize=256)
def _loaded(code: bytes) -> Callable[..., Any]:
    loaded: Callable[..., Any] = pickle.loads(code)
    return loaded


def _described(problem: BaseException) -> str:
    text = str(problem).strip().split("\n", maxsplit=1)[0]
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Interrupts what runs inside after some time. Signals reach the main thread only, where tasks run."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise _RanAway

    def disarm() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        try:
            yield
        finally:
            disarm()
    finally:
        disarm()  # the first one may have been interrupted itself; the next signal is far away
