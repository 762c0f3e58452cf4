"""A home looked at from outside: its queries and figures, whether an engine runs on it or not."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from watersmeet.control.change_log import Entry, read_entries
from watersmeet.control.description import Described, read_description
from watersmeet.control.mailbox import is_running
from watersmeet.control.stats import Stats, collect_stats
from watersmeet.errors import StateError
from watersmeet.home.manifest import Manifest, load_newest
from watersmeet.home.tick_log import TICK_LOG, TickTimes
from watersmeet.runtime.udf.predicate_calls import complaints_in

RECENT_TICKS = 1000


@dataclass(frozen=True)
class ListedQuery:
    name: str
    since: int  # its first tick; where that is not committed yet, the tick that was promised
    in_force: bool  # whether a committed tick has obeyed it
    results: int
    joins: str
    sql: str
    folder: str
    backfill: bool
    latency: float | None  # seconds from the request to when it was put in force; None if it came with the pipeline


@dataclass(frozen=True)
class Spread:
    """How long something took, in seconds."""

    count: int
    last: float
    median: float
    longest: float


@dataclass(frozen=True)
class Figures:
    running: bool
    tick: int
    plan: str
    streams: tuple[dict[str, object], ...]
    stores: tuple[dict[str, object], ...]
    state_bytes: int
    queries: dict[str, int]  # name -> results
    failed_values: dict[str, int]  # query -> values and conditions that could not be computed, where there are any
    predicates: dict[str, str]  # registered predicate -> what it did wrong last
    ticks: Spread | None
    deployments: Spread | None  # from a request to when it was put in force


def list_queries(home: Path) -> list[ListedQuery]:
    manifest, described = _known(home)
    added: dict[str, Entry] = {}
    for entry in read_entries(home):
        added.pop(entry.name, None)
        if entry.kind == "add":
            added[entry.name] = entry
    listed = []
    for name, query in described.items():
        asked = added.get(name)
        promised = asked.tick if asked else 0
        in_force = name in manifest.queries and manifest.tick >= promised
        listed.append(
            ListedQuery(
                name,
                manifest.queries[name] if in_force else promised or manifest.tick + 1,
                in_force,
                manifest.totals.get(f"results/{name}", 0),
                query.joins,
                query.sql,
                query.folder,
                query.backfill,
                asked.latency if asked else None,
            )
        )
    return listed


def figures(home: Path) -> Figures:
    manifest, described = _known(home)
    stats = _stats(manifest, tuple(described))
    seen = [name.removeprefix("rows/") for name in manifest.totals if name.startswith("rows/")]
    return Figures(
        is_running(home),
        stats.tick,
        stats.plan,
        tuple(
            {
                "name": name,
                "rows": manifest.totals[f"rows/{name}"],
                "late": manifest.totals.get(f"late/{name}", 0),
                "newest": manifest.newest.get(name),
            }
            for name in sorted(seen)
        ),
        tuple({"name": s.name, "rows": s.rows, "bytes": s.bytes, "buckets": s.buckets} for s in stats.stores),
        stats.state_bytes,
        {query.name: query.results for query in stats.queries},
        {query.name: query.failed_values for query in stats.queries if query.failed_values},
        complaints_in(home),
        spread([times.total for times in recent_ticks(home)]),
        spread([entry.latency for entry in read_entries(home)]),
    )


def spread(seconds: Sequence[float]) -> Spread | None:
    if not seconds:
        return None
    return Spread(len(seconds), seconds[-1], statistics.median(seconds), max(seconds))


def recent_ticks(home: Path) -> list[TickTimes]:
    path = home / TICK_LOG
    lines = path.read_text().splitlines()[-RECENT_TICKS:] if path.exists() else []
    found = []
    for line in lines:
        try:
            found.append(TickTimes(**json.loads(line)))
        except (ValueError, TypeError):  # a line that is being written, or of another version
            continue
    return found


def _stats(manifest: Manifest, queries: tuple[str, ...]) -> Stats:
    return collect_stats(manifest, (), queries, ())


def _known(home: Path) -> tuple[Manifest, dict[str, Described]]:
    if not (home / "lock").exists():
        raise StateError(
            f"{home} is not a home of an engine", hint="give the folder that `watersmeet run` has with --home"
        )
    return load_newest(home), read_description(home)
