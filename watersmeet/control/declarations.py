"""What a pipeline declares, compared with what it declared at the last start on the same home.

A query whose text or target is another one is a change like any other: the log drops the old query and adds the new
one, which has its own first tick. Since nobody has requested it by name, a start has to be told to accept it. Comments
and white space are no change, nor is BACKFILL, which is about the first tick only.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import secrets
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from watersmeet.control.change_log import ADD, DROP, STREAM, Folded, LoggedChange, added, folded, read_entries
from watersmeet.control.description import Described, read_description
from watersmeet.errors import StateError, WatersmeetError
from watersmeet.home import layout
from watersmeet.home.location import local_path
from watersmeet.home.manifest import Manifest
from watersmeet.io.locations import resolved_sink
from watersmeet.io.sources import options_of_rows
from watersmeet.model import Query, Sink, Stream
from watersmeet.model.secrets import masked
from watersmeet.pipeline import Pipeline
from watersmeet.sql import same_text

ADDED, DROPPED, CHANGED = "added", "dropped", "changed"


@dataclass(frozen=True)
class Edit:
    """A difference between what a pipeline declares and what it declared before."""

    kind: str
    what: str  # "query hot"
    diff: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join((f"{self.kind}: {self.what}", *(f"  {line}" for line in self.diff)))


@dataclass(frozen=True)
class Recalled:
    """The queries of a start."""

    pipeline: Pipeline
    by_log: set[str]  # the queries that were requested, and not declared
    entries: list[LoggedChange]  # to be logged before the first tick
    edits: list[Edit]

    def check_accepted(self) -> None:
        """Reject a start that would answer another query under the name of one that has results."""
        changed = [edit for edit in self.edits if edit.kind == CHANGED]
        if changed:
            names = ", ".join(edit.what for edit in changed)
            raise StateError(
                f"{names}: declared differently than at the last start on the home {self.pipeline.home}",
                detail="\n".join(map(str, self.edits)),
                hint="start with --accept (in Python: start(accept=True)) to run it as it is declared now, from the "
                "next tick on; or declare it as before, or choose another name",
            )


def recall(home: Path, declared: Pipeline, manifest: Manifest, dropped: Collection[str] = ()) -> Recalled:
    """The declared pipeline with all changes that were requested since, and what a start has to log.

    `dropped` are queries that were requested, and that this program has dropped since its engine stopped."""
    compared = _Comparison(home, declared, manifest)
    for query in declared.queries.values():
        compared.see(query)
    for name in dict.fromkeys((*compared.before.declared, *dropped)):
        if name not in declared.queries:
            compared.miss(name)
    for stream in declared.streams.values():
        compared.see_stream(stream)
    return compared.recalled()


class _Comparison:
    def __init__(self, home: Path, declared: Pipeline, manifest: Manifest) -> None:
        logged = read_entries(home)
        self.before, self._entries = _before(home, declared, manifest, logged)
        self._is_first = not logged and not manifest.tick
        self._home, self._declared = home, declared
        self._tick, self._at = manifest.tick + 1, time.time()
        self._requested = dict(self.before.active)  # additions that go on, though the pipeline does not have them
        self._queries: dict[str, Query] = {}
        self._edits: list[Edit] = []

    def see(self, query: Query) -> None:
        """Compare a query of the pipeline with the log."""
        name = query.name
        known, active = self.before.declared.get(name), self.before.active.get(name)
        if known is not None and _same(self._home, known, query):
            if active is known:  # otherwise it was dropped, or replaced by another, while the engine ran
                self._goes_on(query, known)
        elif active is not None and _same(self._home, active, query):  # what was added is now declared too
            self._goes_on(query, active)
            self._entries.append(replace(_declaring(self._home, self._queries[name]), at=active.at, tick=active.tick))
        else:
            self._begin(query, active or known)

    def _goes_on(self, query: Query, entry: LoggedChange) -> None:
        addition = _addition(entry)
        self._queries[query.name] = replace(query, since=entry.tick if addition else 0, addition=addition)
        self._requested.pop(query.name)

    def _begin(self, query: Query, earlier: LoggedChange | None) -> None:
        since, addition = (0, "") if self._is_first else (self._tick, secrets.token_hex(8))
        query = self._queries[query.name] = replace(query, since=since, addition=addition)
        now = replace(_declaring(self._home, query), at=self._at, tick=self._tick)
        self._requested.pop(query.name, None)
        if earlier is not None:
            self._drop(query.name)
            self._edits.append(Edit(CHANGED, f"query {query.name}", _diff(earlier, now)))
        elif not self._is_first:
            self._edits.append(Edit(ADDED, f"query {query.name}"))
        self._entries.append(now)

    def _drop(self, name: str) -> None:
        self._entries.append(LoggedChange(self._at, self._tick, DROP, name, 0.0, declared=True))

    def miss(self, name: str) -> None:
        """Handle a query that the pipeline had before, or that this program has dropped."""
        known, active = self.before.declared.get(name), self.before.active.get(name)
        if known is None and active is None:
            return
        self._drop(name)
        if known is not None and active is not None and active is not known:
            self._entries.append(active)  # it was added while the engine ran, and goes on
            return
        if active is not None:
            self._edits.append(Edit(DROPPED, f"query {name}"))
        self._requested.pop(name, None)

    def see_stream(self, stream: Stream) -> None:
        """Compare a stream with the log, apart from columns and event times: the state (`Groups`) fixes these."""
        known, now = self.before.streams.get(stream.name), _of_stream(self._home, stream)
        if known is not None and known.sql == now.sql and _same_target(self._home, known, now.sink):
            return
        self._entries.append(replace(now, at=self._at, tick=self._tick))
        if known is not None:
            self._edits.append(Edit(CHANGED, f"stream {stream.name}", _diff(known, now)))
        elif self.before.streams:
            self._edits.append(Edit(ADDED, f"stream {stream.name}"))

    def recalled(self) -> Recalled:
        queries = self._queries
        for name, entry in self._requested.items():
            queries[name] = _requested(self._home, self._declared, entry)
        for name in queries.keys() & self.before.resumed.keys():
            queries[name] = replace(queries[name], resumed=self.before.resumed[name])
        pipeline = replace(self._declared, queries=queries)
        return Recalled(pipeline, set(self._requested), self._entries, self._edits)


def _before(
    home: Path, declared: Pipeline, manifest: Manifest, logged: Sequence[LoggedChange]
) -> tuple[Folded, list[LoggedChange]]:
    """What the log describes. The log of an earlier version has no declarations: with those of its queries, as far as
    the home has them, which are to be logged."""
    found = folded(logged)
    if found.streams or not (logged or manifest.tick):
        return found, []
    unlogged = list(_of_an_earlier_version(home, declared, manifest, logged))
    return folded((*logged, *unlogged)), unlogged


def _of_an_earlier_version(
    home: Path, declared: Pipeline, manifest: Manifest, logged: Sequence[LoggedChange]
) -> Iterator[LoggedChange]:
    described: dict[str, Described] = {}
    with contextlib.suppress(StateError):  # it is only for those who look from outside
        described = read_description(home)
    last = {entry.name: entry for entry in logged if entry.kind in (ADD, DROP)}
    for name in {**declared.queries, **manifest.queries}:
        query = declared.queries.get(name)
        text = described[name].sql if name in described else query.sql if query else ""
        sink = query.sink if query else Sink()
        tick, addition = manifest.queries.get(name, 0), (manifest.additions or {}).get(name, "")
        known = LoggedChange(
            at=time.time(),
            tick=tick,
            kind=ADD,
            name=name,
            latency=0.0,
            sql=text,
            sink=sink,
            addition=addition,
            declared=True,
        )
        if name not in last and name in manifest.queries:
            yield known
        elif name in last and last[name].kind == DROP and query is not None:
            yield from (replace(known, sql=query.sql), last[name])


def _declaring(home: Path, query: Query) -> LoggedChange:
    return replace(added(query), declared=True, beside=_beside(home, query.sink.path))


def _addition(entry: LoggedChange) -> str:
    # Older versions gave additions no name; the time of one is as good.
    return entry.addition or ("" if entry.declared else f"{entry.at:.6f}")


def _requested(home: Path, declared: Pipeline, entry: LoggedChange) -> Query:
    try:
        query = declared.query(entry.name, entry.sql, resolved_sink(entry.sink), entry.backfill)
        query = declared.for_executor(query)
    except WatersmeetError as problem:
        raise StateError(
            f"query {entry.name}, which was added while the engine ran, is no longer valid: {problem.problem}",
            detail=problem.detail,
            hint=f"declare its streams as before; {home / layout.CHANGES} has the query",
        ) from None
    return replace(query, since=entry.tick, addition=_addition(entry))


def _of_stream(home: Path, stream: Stream) -> LoggedChange:
    limits: Mapping[str, int | None] = {
        "LATENESS": stream.lateness,
        "AHEAD": stream.ahead,
        "RETAIN": stream.retain,
        "IDLE AFTER": stream.idle,
    }
    text = "\n".join(f"{name} {_length(micros)}" for name, micros in limits.items())
    source = Sink("dataframe")
    if stream.source is not None:
        source = Sink(stream.source.format, stream.source.path, options_of_rows(stream.source))
    beside = _beside(home, source.path)
    return LoggedChange(
        at=0.0, tick=0, kind=STREAM, name=stream.name, latency=0.0, sql=text, sink=source, declared=True, beside=beside
    )


def _length(micros: int | None) -> str:
    if micros is None:
        return "UNBOUNDED"
    seconds, rest = divmod(micros, 1_000_000)
    return f"{micros} MICROSECONDS" if rest else f"{seconds} SECONDS"


def _same(home: Path, entry: LoggedChange, query: Query) -> bool:
    return same_text(entry.sql, query.sql) and _same_target(home, entry, query.sink)


def _same_target(home: Path, entry: LoggedChange, now: Sink) -> bool:
    before = entry.sink
    if (before.format, sorted(before.options)) != (now.format, sorted(now.options)):
        return False
    if before.path == now.path or (entry.beside and entry.beside == _beside(home, now.path)):
        return True
    # The folder of a sink is what a link led to at that time.
    return bool(entry.beside and before.path) and os.path.realpath(before.path or "") == now.path


def _beside(home: Path, path: str | None) -> str:
    """A path as seen from the home, so that a folder with both can be moved."""
    local = local_path(path) if path else None
    return os.path.relpath(local, home) if local and os.path.isabs(local) else ""


def _diff(before: LoggedChange, after: LoggedChange) -> tuple[str, ...]:
    old, new = ([*entry.sql.splitlines(), _target(entry)] for entry in (before, after))
    found = list(difflib.unified_diff(old, new, lineterm="", n=1))[2:]
    return tuple(f"{line[0]} {line[1:]}" for line in found if not line.startswith("@@"))


def _target(entry: LoggedChange) -> str:
    word = "FROM" if entry.kind == STREAM else "INTO"
    sink = entry.sink
    options = ", ".join(f"{name} = {value!r}" for name, value in sink.options)
    text = f"{word} {sink.format}{f' {sink.path!r}' if sink.path else ''}{f' WITH ({options})' if options else ''}"
    return masked(text)
