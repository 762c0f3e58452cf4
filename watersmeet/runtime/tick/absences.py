"""Which absences a tick decides: results without a partner, of LEFT and ANTI joins.

A result is decided once no partner can come any more: when the watermark of the leaf's stream has passed its deadline,
or when a flush has said that the input ends. A flush decides the results whose rows are all not newer than the newest
row of their stream at that time. Both only ever grow, and nothing is between the end of one tick and the begin of the
next, so each result is decided in exactly one tick.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from watersmeet.home.manifest import Manifest
from watersmeet.model import Stream
from watersmeet.plan.ruleset import Start
from watersmeet.store.kernels import I64
from watersmeet.store.retention import KEEP_ALL, watermarks

Bools = npt.NDArray[np.bool_]
Times = Mapping[str, int]  # by stream


@dataclass(frozen=True)
class Absences:
    marks: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # watermarks before and after the tick
    flushed: tuple[Times, Times] = ({}, {})  # the newest rows at the last flush: before the tick, and after it

    def due_times(self, start: Start) -> tuple[int, int]:
        """The event times of the stored rows whose deadline may be decided in this tick: from one on, below the
        other."""
        before, after = self.marks[start.due]
        end = after - start.window
        if self.flushed[0] != self.flushed[1]:
            end = max(end, self.flushed[1].get(start.stream, KEEP_ALL) + 1)
        return before - start.window, end

    def decided(self, leaf: str, deadline: I64, members: Sequence[tuple[str, I64]], before: bool) -> Bools:
        """Whether this tick or an earlier one, or only earlier ones (`before`), have decided results with these
        deadlines; `members` are their streams and times."""
        at = 0 if before else 1
        return (deadline < self.marks[leaf][at]) | _flushed(self.flushed[at], members)


def _flushed(newest: Times, members: Sequence[tuple[str, I64]]) -> Bools | np.bool_:
    if not all(stream in newest for stream, _ in members):
        return np.False_
    ended: Bools = np.logical_and.reduce([times <= newest[stream] for stream, times in members])
    return ended


def absences_of(streams: tuple[Stream, ...], before: Manifest, marks: Times, newest: Times, flush: bool) -> Absences:
    """What a tick decides that ends with these watermarks and newest rows. A watermark never goes back, also if
    LATENESS is not what it was."""
    known = {**watermarks(streams, before.newest, before.silent), **before.marks}
    return Absences(
        {stream: (known[stream], max(known[stream], mark)) for stream, mark in marks.items()},
        (before.flushed, {**before.flushed, **newest} if flush else before.flushed),
    )
