"""`changes.jsonl` in the home: every change of the queries that was activated while the engine ran.

A line is on the disk before the plan with the change is handed over, so a change that was active in any tick is in the
log. A last line that is cut short belongs to a change that was never active, and is removed. A long log is replaced by
a shorter one of the same meaning (`compaction.py`).
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from watersmeet.control.changes import Asked, Drop, Resume
from watersmeet.errors import StateError, WatersmeetError, restore_hint
from watersmeet.home import layout
from watersmeet.home.dependencies import FOLLOWS
from watersmeet.home.files import Version, append_durably, version_of, whole_lines
from watersmeet.home.manifest import Manifest, Suspension
from watersmeet.io.into import resolved_sink
from watersmeet.model import AnyQuery, Sink
from watersmeet.pipeline import Pipeline


@dataclass(frozen=True)
class Entry:
    at: float  # unix time at which it was activated
    tick: int  # the first tick in which it is active
    kind: str  # add, drop or resume
    name: str
    latency: float  # seconds from the request to that moment
    sql: str = ""
    sink: Sink = field(default_factory=Sink)
    backfill: bool = False
    addition: str = ""  # see Query
    resumed: str = ""  # the suspension that a query is resumed from


def entries_of(
    accepted: Sequence[Asked], after: Mapping[str, AnyQuery], resumed: Mapping[str, str], tick: int, now: float
) -> list[Entry]:
    """One entry for each change of a batch that is activated now; `after` has the queries as they will run, and
    `resumed` names the suspensions that queries are resumed from. `now` is monotonic, as the time of requests is."""
    entries = []
    at = time.time()
    for asked in accepted:
        for change in asked.changes:
            latency = round(now - asked.at, 6)
            if isinstance(change, Drop):
                entries.append(Entry(at, tick, "drop", change.name, latency))
            elif isinstance(change, Resume):
                entries.append(Entry(at, tick, "resume", change.name, latency, resumed=resumed.get(change.name, "")))
            else:
                query = after.get(change.query.name, change.query)
                parts = (query.sql, query.sink, query.backfill, query.addition)
                entries.append(Entry(at, tick, "add", query.name, latency, *parts))
    return entries


def append_entries(home: Path, entries: Sequence[Entry]) -> None:
    append_durably(home / layout.CHANGES, [asdict(entry) for entry in entries])


def read_entries(home: Path) -> list[Entry]:
    path = home / layout.CHANGES
    try:
        return entries_in(whole_lines(path))
    except (ValueError, KeyError, TypeError) as problem:
        raise StateError(
            f"{path} is damaged: {problem}",
            detail="It lists the queries that were added and dropped while the engine ran. Nothing was changed.",
            hint=restore_hint("it"),
        ) from None


def shown_entries(home: Path) -> tuple[Entry, ...]:
    """The same, for users who look often: the log is read again only when it has changed."""
    return _shown(home, version_of(home / layout.CHANGES))


@functools.lru_cache(maxsize=2)
def _shown(home: Path, version: Version | None) -> tuple[Entry, ...]:
    return tuple(read_entries(home))


def entries_in(lines: Iterable[bytes]) -> list[Entry]:
    found = [json.loads(line) for line in lines if line]
    return [_entry(raw) for raw in found if FOLLOWS not in raw]


def _entry(raw: Mapping[str, Any]) -> Entry:
    sink = raw["sink"]
    options = tuple((str(name), str(value)) for name, value in sink["options"])
    return Entry(**{**raw, "sink": Sink(sink["format"], sink["path"], options)})


def still_suspended(manifest: Manifest, entries: Iterable[Entry]) -> dict[str, Suspension]:
    """The queries that are suspended, but for those that the log resumes in a tick that is not committed yet."""
    resumed = {(entry.name, entry.resumed) for entry in entries if entry.kind == "resume"}
    return {name: one for name, one in manifest.suspended.items() if (name, one.id) not in resumed}


def recall(home: Path, declared: Pipeline) -> tuple[Pipeline, set[str]]:
    """The declared pipeline with all changes that were made while the engine ran, and the names that the log adds."""
    queries = dict(declared.queries)
    recalled: dict[str, Entry] = {}
    resumed: dict[str, str] = {}
    for entry in read_entries(home):
        if entry.kind == "resume":
            resumed[entry.name] = entry.resumed
            continue
        queries.pop(entry.name, None)
        recalled.pop(entry.name, None)
        resumed.pop(entry.name, None)
        if entry.kind == "add":
            recalled[entry.name] = entry
    for name, entry in recalled.items():
        try:
            query = declared.query(name, entry.sql, resolved_sink(entry.sink), entry.backfill)
            declared.check_executor(query)
        except WatersmeetError as problem:
            raise StateError(
                f"query {name}, which was added while the engine ran, is no longer valid: {problem.problem}",
                detail=problem.detail,
                hint=f"declare its streams as before; {home / layout.CHANGES} has the query",
            ) from None
        # Older versions gave additions no name; the time of one is as good.
        queries[name] = replace(query, since=entry.tick, addition=entry.addition or f"{entry.at:.6f}")
    for name in queries.keys() & resumed.keys():
        queries[name] = replace(queries[name], resumed=resumed[name])
    return replace(declared, queries=queries), set(recalled)
