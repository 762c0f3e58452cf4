"""The statistics of an engine: one value for Python, the live view, and the commands that read a home."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from watersmeet.control.change_log import ADD, DROP, Entry, shown_entries, still_suspended
from watersmeet.control.description import Described, read_description
from watersmeet.errors import StateError
from watersmeet.home import layout
from watersmeet.home.counters import Reason
from watersmeet.home.lock import is_running
from watersmeet.home.manifest import Manifest, Suspension, load_newest
from watersmeet.home.outbox import LaneState, read_states
from watersmeet.home.tick_log import TickTimes, recent_ticks
from watersmeet.io.connectors.protocol import shown
from watersmeet.runtime.udf.predicate_calls import complaints_in


@dataclass(frozen=True)
class StreamStats:
    name: str
    rows: int
    set_aside: Mapping[str, int]  # reason -> rows (or files)
    newest: int | None


@dataclass(frozen=True)
class StoreStats:
    name: str
    rows: int
    bytes: int
    buckets: int


@dataclass(frozen=True)
class OutboxStats:
    """Results that wait to be delivered."""

    target: str
    ticks: int
    rows: int
    tries: int  # that failed in a row
    reason: str  # of the last failure


@dataclass(frozen=True)
class QueryStats:
    name: str
    since: int  # its first tick; where that is not committed yet, the tick that was promised
    in_force: bool  # whether a committed tick has obeyed it
    results: int
    joins: str
    sql: str
    folder: str
    backfill: bool
    latency: float | None  # seconds from the request to its activation; None if it came with the pipeline
    failed_values: int  # values and conditions that could not be computed
    suspended: Suspension | None = None  # why it is not answered, and since which tick
    outbox: OutboxStats | None = None  # of a query whose results are delivered to a target


@dataclass(frozen=True)
class Stats:
    running: bool
    tick: int
    plan: str
    streams: tuple[StreamStats, ...]
    stores: tuple[StoreStats, ...]
    queries: tuple[QueryStats, ...]
    predicates: Mapping[str, str]  # registered predicate -> its last failure
    ticks: tuple[TickTimes, ...]  # recent ones, the oldest first
    deployments: tuple[float, ...]  # for each change, the seconds from the request to its activation
    failure: str = ""  # of an engine in this process: what has ended its ticks

    @property
    def state_bytes(self) -> int:
        return sum(store.bytes for store in self.stores)

    def as_json(self) -> dict[str, Any]:
        return {
            "running": self.running,
            "tick": self.tick,
            "plan": self.plan,
            "streams": [{**asdict(stream), "late": stream.set_aside.get(Reason.LATE, 0)} for stream in self.streams],
            "stores": [asdict(store) for store in self.stores],
            "state_bytes": self.state_bytes,
            "queries": {query.name: query.results for query in self.queries},
            "failed_values": {query.name: query.failed_values for query in self.queries if query.failed_values},
            "suspended": {query.name: asdict(query.suspended) for query in self.queries if query.suspended},
            "outbox": {query.name: asdict(query.outbox) for query in self.queries if query.outbox},
            "predicates": dict(self.predicates),
            "ticks": spread([tick.total for tick in self.ticks]),
            "deployments": spread(self.deployments),
        }


def spread(seconds: Sequence[float]) -> dict[str, float] | None:
    """How long something took."""
    if not seconds:
        return None
    middle = statistics.median(seconds)
    return {"count": len(seconds), "last": seconds[-1], "median": middle, "longest": max(seconds)}


def check_home(home: Path) -> None:
    if not (home / layout.LOCK).exists():
        raise StateError(
            f"{home} is not the home of an engine", hint="name the folder that `watersmeet run` uses as --home"
        )


def stats_of_home(home: Path) -> Stats:
    """The figures of a home, whether an engine runs on it or not."""
    check_home(home)
    manifest = load_newest(home)
    streams = {*manifest.totals.rows, *(stream for _, stream in manifest.totals.set_aside)}
    queries, ticks = read_description(home), recent_ticks(home)
    return collect_stats(home, manifest, sorted(streams), queries, ticks, is_running(home))


def collect_stats(
    home: Path,
    manifest: Manifest,
    streams: Iterable[str],
    queries: Mapping[str, Described],
    ticks: Sequence[TickTimes],
    running: bool,
) -> Stats:
    entries = shown_entries(home)
    return Stats(
        running,
        manifest.tick,
        manifest.plan,
        tuple(_stream(manifest, name) for name in streams),
        tuple(_stores(manifest)),
        tuple(_queries(manifest, queries, entries, _outboxes(manifest, read_states(home)))),
        complaints_in(home),
        tuple(ticks),
        tuple(entry.latency for entry in entries if entry.kind in (ADD, DROP) and not entry.declared),
    )


def _stream(manifest: Manifest, name: str) -> StreamStats:
    counted = manifest.totals.set_aside
    set_aside = {reason.value: counted[reason, name] for reason in Reason if counted[reason, name]}
    return StreamStats(name, manifest.totals.rows[name], set_aside, manifest.newest.get(name))


def _stores(manifest: Manifest) -> Iterator[StoreStats]:
    for name in sorted({bucket.store for bucket in manifest.buckets}):
        buckets = [bucket for bucket in manifest.buckets if bucket.store == name]
        rows, size = sum(bucket.rows for bucket in buckets), sum(bucket.bytes for bucket in buckets)
        yield StoreStats(name, rows, size, len(buckets))


def _outboxes(manifest: Manifest, states: Sequence[LaneState]) -> dict[str, OutboxStats]:
    """By query. The manifest may name what was delivered since."""
    known = {(state.query, state.target): state for state in states}
    found: dict[str, OutboxStats] = {}
    for lane in manifest.outbox:
        state = known.get((lane.query, shown(lane.sink)), LaneState(lane.query, shown(lane.sink)))
        waiting = [parcel for parcel in lane.parcels if parcel.tick > state.delivered]
        rows = sum(parcel.rows for parcel in waiting)
        if waiting:
            found[lane.query] = OutboxStats(state.target, len(waiting), rows, state.tries, state.reason)
    return found


def _queries(
    manifest: Manifest,
    queries: Mapping[str, Described],
    entries: Sequence[Entry],
    outboxes: Mapping[str, OutboxStats],
) -> Iterator[QueryStats]:
    newest = {entry.name: entry for entry in entries if entry.kind in (ADD, DROP)}
    suspended = still_suspended(manifest, entries)
    for name, query in queries.items():
        entry = newest.get(name)
        asked = entry if entry and entry.kind == ADD else None
        promised = asked.tick if asked else 0
        in_force = name in manifest.queries and manifest.tick >= promised
        yield QueryStats(
            name,
            manifest.queries[name] if in_force else promised or manifest.tick + 1,
            in_force,
            manifest.totals.results[name],
            query.joins,
            query.sql,
            query.folder,
            query.backfill,
            asked.latency if asked and not asked.declared else None,
            manifest.totals.failed_values[name],
            suspended.get(name) if in_force else None,
            outboxes.get(name),
        )
