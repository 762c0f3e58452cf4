"""`changes.jsonl` in the home: every change of the queries, whether a start has found it in the pipeline or it was
requested since.

A line is on the disk before the plan with the change is handed over, so a change that was active in any tick is in the
log. A last line that is cut short belongs to a change that was never active, and is removed. A long log is replaced by
a shorter one of the same meaning.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from watersmeet.control.changes import ChangeRequest, Drop, Resume
from watersmeet.errors import StateError, restore_hint
from watersmeet.home import layout
from watersmeet.home.dependencies import FOLLOWS, fits
from watersmeet.home.files import Version, append_durably, line, replace_durably, version_of, whole_lines
from watersmeet.home.manifest import LogMark, Manifest, Suspension
from watersmeet.model import Query, Sink

ADD, DROP, RESUME, STREAM = "add", "drop", "resume", "stream"
LONGEST_LOG = 256 << 10  # bytes


@dataclass(frozen=True)
class LoggedChange:
    """One line of the log of changes."""

    at: float  # unix time at which it was activated
    tick: int  # the first tick in which it is active
    kind: str  # add, drop or resume a query; stream: a stream is declared like this
    name: str
    latency: float  # seconds from the request to that moment
    sql: str = ""
    sink: Sink = field(default_factory=Sink)  # of a stream: its source
    backfill: bool = False
    addition: str = ""  # see Query
    resumed: str = ""  # the suspension that a query is resumed from
    declared: bool = False  # whether a start has found this in the pipeline, and nobody has requested it
    beside: str = ""  # the path of the sink as seen from the home: both may be moved together


def entries_of(
    accepted: Sequence[ChangeRequest], after: Mapping[str, Query], resumed: Mapping[str, str], tick: int, now: float
) -> list[LoggedChange]:
    """One entry for each change of a batch that is activated now; `after` has the queries as they will run, and
    `resumed` names the suspensions that queries are resumed from. `now` is monotonic, as the time of requests is."""
    entries = []
    at = time.time()
    for asked in accepted:
        for change in asked.changes:
            latency = round(now - asked.at, 6)
            if isinstance(change, Drop):
                entries.append(LoggedChange(at, tick, DROP, change.name, latency))
            elif isinstance(change, Resume):
                entries.append(
                    LoggedChange(at, tick, RESUME, change.name, latency, resumed=resumed.get(change.name, ""))
                )
            else:
                entries.append(added(after.get(change.query.name, change.query), at, tick, latency))
    return entries


def added(query: Query, at: float = 0.0, tick: int = 0, latency: float = 0.0) -> LoggedChange:
    """The addition of a query; without a time and a tick until a start has fixed them."""
    return LoggedChange(
        at=at,
        tick=tick,
        kind=ADD,
        name=query.name,
        latency=latency,
        sql=query.sql,
        sink=query.sink,
        backfill=query.backfill,
        addition=query.addition,
    )


def append_entries(home: Path, entries: Sequence[LoggedChange]) -> None:
    append_durably(home / layout.CHANGES, [asdict(entry) for entry in entries])


def read_entries(home: Path) -> list[LoggedChange]:
    path = home / layout.CHANGES
    try:
        return entries_in(whole_lines(path))
    except (ValueError, KeyError, TypeError) as problem:
        raise StateError(
            f"{path} is damaged: {problem}",
            detail="It lists the queries that were added and dropped while the engine ran. Nothing was changed.",
            hint=restore_hint("it"),
        ) from None


def shown_entries(home: Path) -> tuple[LoggedChange, ...]:
    """The entries of the log, for frequent readers: it is read again only when it has changed."""
    return _shown(home, version_of(home / layout.CHANGES))


@functools.lru_cache(maxsize=2)
def _shown(home: Path, version: Version | None) -> tuple[LoggedChange, ...]:
    return tuple(read_entries(home))


def entries_in(lines: Iterable[bytes]) -> list[LoggedChange]:
    found = [json.loads(each) for each in lines if each]
    return [_entry(raw) for raw in found if FOLLOWS not in raw]


def _entry(raw: Mapping[str, Any]) -> LoggedChange:
    sink = raw["sink"]
    options = tuple((str(name), str(value)) for name, value in sink["options"])
    return LoggedChange(**{**raw, "sink": Sink(sink["format"], sink["path"], options)})


def still_suspended(manifest: Manifest, entries: Iterable[LoggedChange]) -> dict[str, Suspension]:
    """The queries that are suspended, but for those that the log resumes in a tick that is not committed yet."""
    resumed = {(entry.name, entry.resumed) for entry in entries if entry.kind == RESUME}
    return {name: one for name, one in manifest.suspended.items() if (name, one.id) not in resumed}


@dataclass
class Folded:
    """The state that a log of changes describes, by name."""

    active: dict[str, LoggedChange] = field(default_factory=dict)  # the additions of the queries that are active
    declared: dict[str, LoggedChange] = field(default_factory=dict)  # queries of the pipeline at the last start,
    streams: dict[str, LoggedChange] = field(default_factory=dict)  # and its streams
    resumed: dict[str, str] = field(default_factory=dict)  # the suspensions that active queries were resumed from


def folded(entries: Iterable[LoggedChange]) -> Folded:
    found = Folded()
    for entry in entries:
        if entry.kind == STREAM:
            found.streams[entry.name] = entry
        elif entry.kind == RESUME:
            found.resumed[entry.name] = entry.resumed
        else:
            found.resumed.pop(entry.name, None)
            found.active.pop(entry.name, None)
            if entry.declared:
                found.declared.pop(entry.name, None)
            if entry.kind == ADD:
                found.active[entry.name] = entry
                found.declared |= {entry.name: entry} if entry.declared else {}
    return found


class Compaction:
    """Entries that later ones have made irrelevant are removed now and then.

    The log is replaced as a whole, and the one before is kept beside it. The first line of the new one has the mark of
    the one before: a manifest that was committed before the replacement names that one (`home/dependencies.py`). So the
    log is replaced again only after a tick was committed with the new one."""

    def __init__(self, home: Path) -> None:
        self._log = home / layout.CHANGES
        self._due = LONGEST_LOG

    def run(self, committed: LogMark | None) -> None:
        """Shorten the log if it is long. No line is being written meanwhile; `committed` is the newest manifest's."""
        with contextlib.suppress(OSError):  # it is tried again after the next change
            if self._log.stat().st_size <= self._due:
                return
            content = self._log.read_bytes()
            if committed is None or not committed.bytes or not fits(content, committed):
                return
            short = _content(shortened(entries_in(content.splitlines())), content)
            if 2 * len(short) <= len(content):
                _keep(self._log)
                replace_durably(self._log, short)
            self._due = max(LONGEST_LOG, 2 * len(short))


def shortened(entries: Sequence[LoggedChange]) -> list[LoggedChange]:
    """The entries without which the log would describe another state, in their order.

    That is the last addition of each query that is active and its last resumption, what the pipeline has declared, and
    the drop of a query that it declares: or it would be back after the next start."""
    found = folded(entries)
    last = {(entry.name, entry.kind == RESUME): at for at, entry in enumerate(entries) if entry.kind != STREAM}
    kept = {last[name, True] for name in found.resumed}
    kept |= {last[name, False] for name in {**found.active, **found.declared}}
    named = {id(entry) for entry in (*found.declared.values(), *found.streams.values())}
    return [entry for at, entry in enumerate(entries) if at in kept or id(entry) in named]


def _content(entries: Iterable[LoggedChange], before: bytes) -> bytes:
    head = {FOLLOWS: asdict(LogMark(len(before), zlib.crc32(before)))}
    return line(head) + b"".join(line(asdict(entry)) for entry in entries)


def _keep(log: Path) -> None:
    """Give the log a second name, which the one before has had so far."""
    draft = layout.draft(layout.rotated(log))
    draft.unlink(missing_ok=True)
    os.link(log, draft)
    draft.replace(layout.rotated(log))
