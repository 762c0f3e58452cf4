"""The counters of ticks: tasks report them, the manifest has their sums, and the statistics are made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from time import thread_time_ns

# Stages of tasks, and what they do
GATHER, RESULTS, KEEPING = "gather", "results", "keeping"
SLICING, WINDOWS, SPARK_WINDOWS, TASK_WINDOWS = "slicing", "windows", "windows by Spark", "windows from rows"
ROWS, INDEX_ENTRIES, FILTER_BITS = "rows", "index entries", "filter bits"
RESULT_ROWS, RESULT_BYTES, RESULT_FILES = "result rows", "result bytes", "result files"
KEPT_ROWS, KEPT_ENTRIES, KEPT_FILES = "kept rows", "kept index entries", "kept files"
SLICED_ROWS, SLICED_VALUES = "sliced rows", "sliced values"  # values: those of keys and parts
SLICE_VALUES, SLICE_CALLS = "slice values", "slice calls"
READINGS, READ_VALUES = "readings of slices", "values of windows"
WINDOW_JOBS, WINDOW_ROWS = "windows by Spark", "rows of windows by Spark"
TASK_JOBS, TASK_ROWS = "windows from rows", "rows of windows"


class Reason(StrEnum):
    """Why rows of a stream, or files, were set aside."""

    UNREADABLE = "unreadable"
    NO_TIME = "no event time"
    TIME_OUT_OF_RANGE = "event time out of range"
    LATE = "late"
    SILENT = "after silence"  # its stream was silent for so long that windows were closed without it
    TOO_FAR_AHEAD = "too far ahead"  # of the rows before it and of the clock
    INVALID_TEXT = "invalid UTF-8"
    UNREADABLE_FILE = "unreadable files"
    REWRITTEN_FILE = "rewritten files"  # they were read before, and are not read again
    FORGOTTEN_FILE = "old files"  # of unknown names, not newer than files whose names were forgotten
    LOST = "lost messages"  # gone from a topic before they were read
    FAILED_FILTER = "failed_filters"  # stored, but it passes no filter that could not be computed


# The fields of `Counters` that count by name: of a stream, a query, a stage or a slice store
BY_NAME = ("rows", "unwanted", "results", "failed_values", "spent", "done", "sliced", "windows_read", "keys_read")
BY_STEP = ("step_in", "step_out", "step_micros")  # and by the number of a step


@dataclass
class Counters:
    """What ticks have done, in numbers: of one task, of a tick, or of all ticks of a home."""

    rows: Counter[str] = field(default_factory=Counter)  # that arrived, by stream
    set_aside: Counter[tuple[Reason, str]] = field(default_factory=Counter)  # by reason and stream
    unwanted: Counter[str] = field(default_factory=Counter)  # rows that no query wants, by stream
    results: Counter[str] = field(default_factory=Counter)  # by query
    failed_values: Counter[str] = field(default_factory=Counter)  # that could not be computed, by query
    step_in: Counter[int] = field(default_factory=Counter)  # partial results, by step of the plan
    step_out: Counter[int] = field(default_factory=Counter)
    step_micros: Counter[int] = field(default_factory=Counter)  # of CPU time
    spent: Counter[str] = field(default_factory=Counter)  # microseconds of CPU time, by stage
    done: Counter[str] = field(default_factory=Counter)  # what was done in them
    sliced: Counter[str] = field(default_factory=Counter)  # rows that are in slices, by slice store
    windows_read: Counter[str] = field(default_factory=Counter)  # windows of each partition, by slice store,
    keys_read: Counter[str] = field(default_factory=Counter)  # and the keys in them
    hash_collisions: int = 0
    _inside: int = field(default=0, init=False, repr=False, compare=False)  # ns of stages inside of a timed one

    def forget_steps(self) -> None:
        """Delete the counts by step: their numbers mean nothing under another plan."""
        for kind in BY_STEP:
            getattr(self, kind).clear()

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Count the CPU time of a block of code, without what other threads do beside it, and without that of stages
        which are timed inside of it."""
        before, self._inside = self._inside, 0
        began = thread_time_ns()
        try:
            yield
        finally:
            spent = thread_time_ns() - began
            self.spent[stage] += (spent - self._inside) // 1000
            self._inside = before + spent

    def forget_others(self, queries: Collection[str], slices: Collection[str]) -> None:
        """Delete the counts of queries and slice stores that no longer exist: they would pile up."""
        for counter, known in (
            *((counter, queries) for counter in (self.results, self.failed_values)),
            *((counter, slices) for counter in (self.sliced, self.windows_read, self.keys_read)),
        ):
            for name in counter.keys() - known:
                del counter[name]

    def add(self, more: Counters) -> None:
        for kind in (*BY_NAME, *BY_STEP):
            getattr(self, kind).update(getattr(more, kind))
        self.set_aside.update(more.set_aside)
        self.hash_collisions += more.hash_collisions
