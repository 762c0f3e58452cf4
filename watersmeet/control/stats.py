"""The statistics of an engine: one value for Python, the live view, and the commands that read a home."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from watersmeet.control.change_log import ADD, DROP, LoggedChange, shown_entries, still_suspended
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
    """What has arrived of a stream.

    Attributes:
        name: its name.
        rows: the number of rows that were taken.
        set_aside: by reason, the number of rows or files that were set aside.
        newest: the newest event time, in microseconds.
    """

    name: str
    rows: int
    set_aside: Mapping[str, int]
    newest: int | None


@dataclass(frozen=True)
class StoreStats:
    """The state of a store.

    Attributes:
        name: a stream, or the streams of a materialized intermediate result.
        rows: the number of rows in it.
        bytes: the size of its files.
        buckets: the number of its files.
    """

    name: str
    rows: int
    bytes: int
    buckets: int


@dataclass(frozen=True)
class OutboxStats:
    """Results that wait to be delivered.

    Attributes:
        target: where they go.
        ticks: the number of ticks that wait.
        rows: the number of their rows.
        tries: how many tries have failed in a row.
        reason: the last failure.
    """

    target: str
    ticks: int
    rows: int
    tries: int
    reason: str


@dataclass(frozen=True)
class QueryStats:
    """What a query has done.

    Attributes:
        name: its name.
        since: its first tick; where that is not committed yet, the tick that was promised.
        in_force: whether it is active: its first tick is committed.
        results: the number of its results.
        joins: the streams that it joins, as a text.
        sql: its text.
        folder: where its results go.
        backfill: whether its first tick returned the results among stored rows.
        latency: the seconds from the request to its activation; None if it was declared before the start.
        failed_values: the number of values and conditions that could not be computed.
        suspended: why it is not answered, and since which tick; None if it is.
        outbox: the results that wait to be delivered to a target.
    """

    name: str
    since: int
    in_force: bool
    results: int
    joins: str
    sql: str
    folder: str
    backfill: bool
    latency: float | None
    failed_values: int
    suspended: Suspension | None = None
    outbox: OutboxStats | None = None


@dataclass(frozen=True)
class Stats:
    """The statistics of an engine: what `Engine.stats` returns.

    Attributes:
        running: whether an engine runs on the home.
        tick: the last committed tick.
        plan: the version of its plan.
        streams: what has arrived.
        stores: the state.
        queries: what the queries have done.
        predicates: for each registered predicate that has failed, its last failure.
        ticks: the times of recent ticks, the oldest first.
        deployments: for each change, the seconds from the request to its activation.
        failure: what has ended the ticks of an engine in this process.
    """

    running: bool
    tick: int
    plan: str
    streams: tuple[StreamStats, ...]
    stores: tuple[StoreStats, ...]
    queries: tuple[QueryStats, ...]
    predicates: Mapping[str, str]
    ticks: tuple[TickTimes, ...] = field(repr=False)  # too many to be shown in a cell of a notebook,
    deployments: tuple[float, ...] = field(repr=False)  # as are these
    failure: str = ""

    @property
    def state_bytes(self) -> int:
        """The size of all stores, in bytes.

        Example:
            >>> engine.run_once().stats().state_bytes > 0
            True
        """
        return sum(store.bytes for store in self.stores)

    @property
    def memory_bytes(self) -> int:
        """The memory that tasks keep from tick to tick for the windows of queries, in bytes.

        Example:
            >>> engine.run_once().stats().memory_bytes
            0
        """
        return self.ticks[-1].held if self.running and self.ticks else 0

    def as_json(self) -> dict[str, Any]:
        """The statistics as `watersmeet stats --format json` prints them.

        Returns:
            A dictionary that `json.dumps` takes.

        Raises:
            Nothing.

        Example:
            >>> engine.run_once().stats().as_json()["queries"]
            {'rises': 1}
        """
        return {
            "running": self.running,
            "tick": self.tick,
            "plan": self.plan,
            "streams": [{**asdict(stream), "late": stream.set_aside.get(Reason.LATE, 0)} for stream in self.streams],
            "stores": [asdict(store) for store in self.stores],
            "state_bytes": self.state_bytes,
            "memory_bytes": self.memory_bytes,
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
    return collect_stats(home, manifest, sorted(streams), queries, ticks, running=is_running(home))


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
        running=running,
        tick=manifest.tick,
        plan=manifest.plan,
        streams=tuple(_stream(manifest, name) for name in streams),
        stores=tuple(_stores(manifest)),
        queries=tuple(_queries(manifest, queries, entries, _outboxes(manifest, read_states(home)))),
        predicates=complaints_in(home),
        ticks=tuple(ticks),
        deployments=tuple(entry.latency for entry in entries if entry.kind in (ADD, DROP) and not entry.declared),
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
    """What waits to be delivered, by query. The manifest may name what was delivered since."""
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
    entries: Sequence[LoggedChange],
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
            name=name,
            since=manifest.queries[name] if in_force else promised or manifest.tick + 1,
            in_force=in_force,
            results=manifest.totals.results[name] if in_force else 0,  # until then, those of another query of that name
            joins=query.joins,
            sql=query.sql,
            folder=query.folder,
            backfill=query.backfill,
            latency=asked.latency if asked and not asked.declared else None,
            failed_values=manifest.totals.failed_values[name] if in_force else 0,
            suspended=suspended.get(name) if in_force else None,
            outbox=outboxes.get(name),
        )
