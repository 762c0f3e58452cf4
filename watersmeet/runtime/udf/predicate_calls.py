"""Calls of registered predicates: user code, which may raise, return other values than booleans, hang, or crash.

None of that may disturb other queries, so the calls are made in another process (see predicate_process.py). Where a
call raises or does not return booleans, the predicate is false and the rows are counted. Where one times out, or ends
the process, the predicate is disabled: false without being called. The tasks report that to the driver, which notifies
the tasks of the following ticks. The first failure of each predicate is recorded for the user.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from watersmeet.home import layout
from watersmeet.home.files import Version, advice_in, append_advice, version_of
from watersmeet.model import Registered
from watersmeet.runtime.child_process import Ended, described
from watersmeet.runtime.udf.predicate_process import call_outside

_LONGEST_LOG = 1 << 20  # bytes


@dataclass(frozen=True)
class Called:
    passed: np.ndarray
    failed: int  # rows


@dataclass
class Calls:
    """The calls of one task."""

    complaints: dict[str, str] = field(default_factory=dict)  # by predicate, its first failure, or why it is disabled
    disabled: set[str] = field(default_factory=set)  # predicates that are disabled

    def call(self, function: Registered, arguments: list[pa.Array]) -> Called:
        """Whether the predicate is true of each row. A NULL among the arguments makes it not true, without a call."""
        rows = len(arguments[0])
        passed, known = np.zeros(rows, bool), np.ones(rows, bool)
        for argument in arguments:
            known &= np.asarray(argument.is_valid())
        asked = np.flatnonzero(known)
        if not len(asked):
            return Called(passed, 0)
        if function.name in self.disabled:
            return Called(passed, len(asked))
        chosen = [argument.take(pa.array(asked)) for argument in arguments]
        values = [
            argument.to_pylist() if function.by_row else argument.to_numpy(zero_copy_only=False) for argument in chosen
        ]
        try:
            answer = call_outside(function, values)
        except Ended as problem:
            self.disabled.add(function.name)
            self.complaints[function.name] = f"{problem} ({len(asked):,} rows); it is disabled now"
            return Called(passed, len(asked))
        if answer.problem:
            self.complaints.setdefault(function.name, described(*answer.problem))
        if answer.passed:
            passed[asked] = np.frombuffer(answer.passed, bool)
        return Called(passed, answer.failed)

    def tell(self, home: Path, tick: int) -> None:
        """Record the failures, for `complaints_in`."""
        if self.complaints:
            told = [{"tick": tick, "predicate": name, "problem": why} for name, why in self.complaints.items()]
            append_advice(home / layout.PREDICATES, told, _LONGEST_LOG)


def complaints_in(home: Path) -> dict[str, str]:
    """For each predicate that failed, its last failure with the tick."""
    return dict(_complaints(home, version_of(home / layout.PREDICATES)))


@functools.lru_cache(maxsize=2)
def _complaints(home: Path, version: Version | None) -> dict[str, str]:
    """The failures in the log, which is read again only when it has changed."""
    found = {}
    log = home / layout.PREDICATES
    for told in (*advice_in(layout.rotated(log)), *advice_in(log)):
        with contextlib.suppress(KeyError, TypeError):  # a part of a line that happens to be JSON
            found[str(told["predicate"])] = f"{told['problem']} (tick {told['tick']})"
    return found
