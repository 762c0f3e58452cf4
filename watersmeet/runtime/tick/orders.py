"""Orders of the driver to the tasks of a tick, and the reports of the tasks: plain values.

Each order has a number of tasks, which are numbered from 0 and may run anywhere and in parallel.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from watersmeet.errors import InputError, WatersmeetError
from watersmeet.home.counters import Counters
from watersmeet.home.manifest import BucketInfo, ResultFile, WaitingFile
from watersmeet.io.source import Piece
from watersmeet.model import KeyPart, Stream
from watersmeet.plan.ruleset import Ruleset, Start
from watersmeet.runtime.tick.absences import Absences
from watersmeet.store.merge import MergeJob
from watersmeet.store.placement import Store
from watersmeet.store.retention import LimitAhead
from watersmeet.store.sketch import Sketch

# Ticks before 0001-01-01 or after 9999-12-31 are typing mistakes, and arithmetic on them could overflow.
TAU_MIN = -62_135_596_800_000_000
TAU_MAX = 253_402_300_799_999_999


class Order(Protocol):
    """What tasks are to do; whoever executes it is found by its type (exec/worker.py)."""

    @property
    def tasks(self) -> int: ...


@dataclass(frozen=True)
class WritingOrder:
    """An order of a tick whose tasks write files. `attempt` makes every file name of this try its own."""

    home: str
    tick: int
    attempt: str
    rules: Ruleset
    # queries whose results do not wait; None: all
    at_once: frozenset[str] | None = field(default=frozenset(), kw_only=True)


@dataclass(frozen=True)
class GatherOrder(WritingOrder):
    """For the tasks that read sources."""

    watermarks: dict[str, int]
    streams: tuple[Stream, ...]
    sampled: dict[str, tuple[KeyPart, ...]] = field(default_factory=dict)  # by stream, the keys to report sketches of
    limits: dict[str, LimitAhead] = field(default_factory=dict)  # by stream
    work: tuple[tuple[Piece, ...], ...] = ()  # by task what to read; nothing where Spark hands rows over
    raised: dict[str, int] = field(default_factory=dict)  # by stream, the watermark to which silence has raised it
    without: frozenset[str] = frozenset()  # queries that a tick which is not committed is tried without

    @property
    def tasks(self) -> int:
        return len(self.work)


@dataclass
class GatherReport:
    stream: str
    buckets: list[BucketInfo] = field(default_factory=list)
    rejected: list[ResultFile] = field(default_factory=list)
    counts: Counters = field(default_factory=Counters)
    newest: int | None = None
    sketches: dict[KeyPart, Sketch] = field(default_factory=dict)
    examined: int = 0  # rows that filters were asked about,
    passing: Counter[str] = field(default_factory=Counter)  # and how many of them passed each, by its text
    rejected_files: list[tuple[Piece, InputError]] = field(default_factory=list)  # not files of this stream
    parts: list[tuple[Piece, InputError]] = field(default_factory=list)  # damaged: some of their rows were read
    failure: WatersmeetError | None = None  # told, not raised: another try would fail in the same way


@dataclass(frozen=True)
class RowRange:
    """Rows of a bucket of this tick that one task starts from."""

    bucket: BucketInfo
    begin: int
    end: int


@dataclass(frozen=True)
class ProbeOrder(WritingOrder):
    """For the tasks that probe: all buckets, by store, and what each task begins with.

    With one partition each task walks the whole plan with its share of the rows. With several there is a task for each
    partition; what has to take its next step elsewhere goes through an exchange (see exec/exchange.py)."""

    phase: int
    starts: tuple[Start, ...]
    buckets: dict[str, tuple[BucketInfo, ...]]
    work: tuple[tuple[RowRange, ...], ...]
    disabled: frozenset[str] = frozenset()  # registered predicates that are not called any more
    suspended: frozenset[str] = frozenset()  # queries of the plan that are not answered
    absences: Absences = field(default_factory=Absences)  # which of them the tick decides

    @property
    def tasks(self) -> int:
        if not self.work:
            return 0
        return len(self.work) if self.rules.partitions == 1 else self.rules.partitions

    @property
    def exchanges(self) -> int:
        """How often partial results have to move to another partition."""
        return 0 if self.rules.partitions == 1 else max(1, self.rules.depth(self.phase)) - 1

    def begins_with(self, task: int) -> Iterable[RowRange]:
        """The rows that a task looks at first. With several partitions that is all of them: it picks those it needs."""
        return self.work[task] if self.rules.partitions == 1 else itertools.chain(*self.work)

    def is_new(self, bucket: BucketInfo) -> bool:
        return bucket.first_tick == self.tick

    def begins(self, start: Start, bucket: BucketInfo) -> bool:
        """Whether a start begins with rows of a bucket: the new ones, or stored ones in phase 0 or that are due."""
        stored = bool(start.due) or not self.phase
        return start.stream == bucket.store and stored != self.is_new(bucket)


@dataclass
class Waiting:
    """A file of a tick in which results wait."""

    file: WaitingFile
    rows: dict[str, int]  # by query


@dataclass
class TaskReport:
    results: list[ResultFile] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    kept: list[BucketInfo] = field(default_factory=list)  # of materialized stores
    counts: Counters = field(default_factory=Counters)
    disabled: set[str] = field(default_factory=set)  # registered predicates that are not to be called any more
    suspended: dict[str, str] = field(default_factory=dict)  # queries that cannot be answered, and why
    left: dict[str, int] = field(default_factory=dict)  # by query, the first due window that is left to the next tick
    held: tuple[str, int] | None = None  # the worker, and the bytes that it keeps for windows of the next ticks
    for_spark: dict[str, list[int]] = field(default_factory=dict)  # by query, windows that are too large for a task
    failure: WatersmeetError | None = None


_DROPPED = " (dropped)"


def dropped_name(query: str) -> str:
    """How results of a query that is gone are named: they are not those of another one that has its name."""
    return query if query.endswith(_DROPPED) else query + _DROPPED


@dataclass(frozen=True)
class ReleaseOrder:
    """Results that have waited become files of their queries."""

    home: str
    tick: int
    attempt: str
    files: tuple[WaitingFile, ...]
    durable: bool = False  # as in the plan
    first: Mapping[str, int] = field(default_factory=dict)  # by query that has left some, its first tick

    def replaced(self, file: WaitingFile, query: str) -> int:
        """The first tick of the query that has taken over the name and the folder of one whose results are in the file;
        0: none has."""
        first = self.first.get(query, 0) if file.queries is not None else 0
        return first if first > file.tick else 0

    def owner(self, file: WaitingFile, query: str) -> str:
        """Whose results in the file these are."""
        return dropped_name(query) if self.replaced(file, query) else query

    @property
    def tasks(self) -> int:
        return 1 if self.files else 0


@dataclass(frozen=True)
class MergeOrder:
    """Merges of buckets that were there before the tick, a task each."""

    home: str
    tick: int
    attempt: str
    jobs: tuple[MergeJob, ...]
    stores: tuple[Store, ...]  # of each job
    durable: bool = False  # as in the plan

    @property
    def tasks(self) -> int:
        return len(self.jobs)


@dataclass
class MergeReport:
    job: MergeJob
    merged: BucketInfo | None = None  # None: all rows had expired
    failure: WatersmeetError | None = None


def raise_first(reports: Sequence[GatherReport | TaskReport | MergeReport]) -> None:
    for report in reports:
        if report.failure is not None:
            raise report.failure
