"""What the driver tells the tasks of a tick, and what they report back: plain values that travel."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from watersmeet.errors import InputError, WatersmeetError
from watersmeet.model import KeyPart
from watersmeet.plan.ruleset import Ruleset, Start
from watersmeet.store.bucket import BucketInfo
from watersmeet.store.manifest import ResultFile
from watersmeet.store.merge import MergeJob
from watersmeet.store.sketch import Sketch

# Ticks before 0001-01-01 or after 9999-12-31 are typing mistakes, and arithmetic on them could overflow.
TAU_MIN = -62_135_596_800_000_000
TAU_MAX = 253_402_300_799_999_999


@dataclass(frozen=True)
class GatherOrder:
    """For the tasks that read sources. `attempt` makes every file name of this try its own."""

    home: str
    tick: int
    attempt: str
    rules: Ruleset
    watermarks: dict[str, int]
    sampled: dict[str, tuple[KeyPart, ...]] = field(default_factory=dict)  # by stream, the keys to report sketches of


@dataclass
class GatherReport:
    stream: str
    buckets: list[BucketInfo] = field(default_factory=list)
    rejected: list[ResultFile] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)  # named as in Manifest.totals
    newest: int | None = None
    sketches: dict[KeyPart, Sketch] = field(default_factory=dict)
    refused: list[tuple[str, InputError]] = field(default_factory=list)  # files that are not of this stream, and why
    failure: WatersmeetError | None = None


@dataclass(frozen=True)
class Slice:
    """Rows of a bucket of this tick that one task starts from."""

    bucket: BucketInfo
    begin: int
    end: int


@dataclass(frozen=True)
class ProbeOrder:
    """For the tasks that probe: all buckets, by store, and what each task begins with."""

    home: str
    tick: int
    attempt: str
    rules: Ruleset
    phase: int
    starts: tuple[Start, ...]
    buckets: dict[str, tuple[BucketInfo, ...]]
    work: tuple[tuple[Slice, ...], ...]
    merges: tuple[MergeJob, ...]
    off: frozenset[str] = frozenset()  # registered predicates that are not called any more

    def is_new(self, bucket: BucketInfo) -> bool:
        return bucket.first_tick == self.tick


@dataclass
class ProbeReport:
    results: list[ResultFile] = field(default_factory=list)
    kept: list[BucketInfo] = field(default_factory=list)  # of materialized stores
    counts: Counter[str] = field(default_factory=Counter)
    merged: list[tuple[MergeJob, BucketInfo | None]] = field(default_factory=list)
    off: set[str] = field(default_factory=set)  # registered predicates that are not to be called any more
    failure: WatersmeetError | None = None  # told, not raised: Spark would try the task again in vain
