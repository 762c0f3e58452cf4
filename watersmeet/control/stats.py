"""The figures of an engine, as one value for Python, the command line and the live view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from watersmeet.home.manifest import Manifest
from watersmeet.home.tick_log import TickTimes
from watersmeet.model import Stream


@dataclass(frozen=True)
class StreamStats:
    name: str
    rows: int
    set_aside: dict[str, int]  # reason -> rows (or files)
    newest: int | None


@dataclass(frozen=True)
class StoreStats:
    name: str
    rows: int
    bytes: int
    buckets: int


@dataclass(frozen=True)
class QueryStats:
    name: str
    results: int
    failed_values: int


@dataclass(frozen=True)
class Stats:
    tick: int
    plan: str
    streams: tuple[StreamStats, ...]
    stores: tuple[StoreStats, ...]
    queries: tuple[QueryStats, ...]
    ticks: tuple[TickTimes, ...] = field(default=())

    @property
    def state_bytes(self) -> int:
        return sum(store.bytes for store in self.stores)


_REASONS = (
    "unreadable",
    "no event time",
    "event time out of range",
    "late",
    "unreadable files",
    "failed_filters",
)


def collect_stats(
    manifest: Manifest, streams: Sequence[Stream], queries: Sequence[str], ticks: Sequence[TickTimes]
) -> Stats:
    totals = manifest.totals
    return Stats(
        manifest.tick,
        manifest.plan,
        tuple(
            StreamStats(
                stream.name,
                totals.get(f"rows/{stream.name}", 0),
                {
                    reason: totals[f"{reason}/{stream.name}"]
                    for reason in _REASONS
                    if f"{reason}/{stream.name}" in totals
                },
                manifest.newest.get(stream.name),
            )
            for stream in streams
        ),
        tuple(
            StoreStats(
                name,
                sum(bucket.rows for bucket in manifest.buckets if bucket.store == name),
                sum(bucket.bytes for bucket in manifest.buckets if bucket.store == name),
                sum(bucket.store == name for bucket in manifest.buckets),
            )
            for name in sorted({bucket.store for bucket in manifest.buckets})
        ),
        tuple(
            QueryStats(name, totals.get(f"results/{name}", 0), totals.get(f"failed_values/{name}", 0))
            for name in queries
        ),
        tuple(ticks),
    )
