"""The queries of an engine: declared before the start, changed while it runs, recalled after a restart.

All changes go one way, whatever process requests them: `apply` checks each request, plans all of them once, writes them
into the log, and hands the plan over to the tick loop. If planning or the log fails, nothing has changed.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from watersmeet.adapt.plan_keeper import PlanKeeper
from watersmeet.control.change_log import Compaction, append_entries, entries_of
from watersmeet.control.changes import (
    Activated,
    Add,
    Change,
    ChangeRequest,
    Drop,
    Resume,
    Verdict,
    changed,
    missed,
    not_written,
)
from watersmeet.control.declarations import Recalled, recall
from watersmeet.control.description import describe, write_description
from watersmeet.errors import ModelError, WatersmeetError
from watersmeet.home.disk import sync_written
from watersmeet.home.manifest import Manifest, keep_tag, load_readable, tag_of
from watersmeet.io.locations import resolved_sink
from watersmeet.io.ownership import Owner, check_owner, claim
from watersmeet.io.sinks import prepare_folder, put_aside
from watersmeet.model import Query
from watersmeet.pipeline import Pipeline
from watersmeet.runtime.emit.confine import reason_of
from watersmeet.runtime.tick.failure import is_full
from watersmeet.runtime.tick.suspension import is_new
from watersmeet.terminal import visible_lines

_log = logging.getLogger("watersmeet")


class ActiveQueries:
    """The pipeline of an engine as it is now, and its changes."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.changing = threading.RLock()  # held while the pipeline changes
        self._keeper: PlanKeeper | None = None  # while the engine runs
        self._declared: dict[str, Query] | None = None  # without what was requested; None before the first start
        self._recalled: set[str] = set()  # queries that the log brought back
        self._left: frozenset[str] = frozenset()  # the queries at the end of the last run
        self._unlogged: Recalled | None = None  # what a start has found, until it is logged
        self._compaction: Compaction  # of the log, once it was read,
        self._owner: Owner  # and whose folders of results are ours

    @property
    def queries(self) -> tuple[Query, ...]:
        return tuple(self.pipeline.queries.values())

    # The life of the engine ----------------------------------------------------------------------

    def recall(self, accept: bool = False) -> Manifest:
        """Bring the queries to what the pipeline declares and what was requested on this home since; raises if the
        pipeline declares something else than before, unless that is accepted. Writes nothing: see `log_edits`."""
        home, now = self.pipeline.home, self.pipeline.queries
        declared = now if self._declared is None else self._declared
        manifest = load_readable(home)
        gone = self._left - now.keys() - declared.keys()
        found = recall(home, replace(self.pipeline, queries=declared), manifest, sorted(gone))
        if not accept:
            found.check_accepted()
        # The tick that was promised may never have been committed, and then the next one is the first.
        following = manifest.tick + 1
        due = {n: replace(query, since=min(query.since, following)) for n, query in found.pipeline.queries.items()}
        self._compaction = Compaction(home)
        self._unlogged, self._recalled, self._declared = found, found.by_log, dict(declared)
        self.pipeline = replace(self.pipeline, queries=due)
        return manifest

    def log_edits(self) -> str:
        """Log what the pipeline declares, before it is active in a tick. Returns the tag of the home."""
        keep_tag(self.pipeline.home, self._owner.tag)
        if self._unlogged is not None and self._unlogged.entries:
            append_entries(self.pipeline.home, self._unlogged.entries)
            if self._unlogged.edits:
                edits = visible_lines("\n".join(map(str, self._unlogged.edits)))
                _log.warning("the pipeline was edited since the last start on %s:\n%s", self.pipeline.home, edits)
        self._unlogged = None
        return self._owner.tag

    def check_owners(self, manifest: Manifest) -> None:
        """Reject folders of results that another home writes into."""
        tag = tag_of(self.pipeline.home, manifest) or secrets.token_hex(4)
        self._owner = Owner(tag, self.pipeline.home)
        for query in self.queries:
            with contextlib.suppress(OSError):  # it will be suspended
                check_owner(query.name, self.pipeline.folder_of(query), query.sink, self._owner)

    def prepare(self, query: Query) -> list[Path]:
        """Make the folder of a query; returns what was written and is not forced to disk."""
        folder = self.pipeline.folder_of(query)
        written = prepare_folder(folder, query.sink, query.outputs)
        claim(query.name, folder, query.sink, self._owner)
        return written

    def prepare_all(self, manifest: Manifest) -> dict[str, str]:
        """Make the folders of all queries; for those of which that cannot be done, why: they are to be suspended.

        What a query of the same name has found is put aside if the pipeline declares another one now."""
        troubled, written = {}, []
        for query in self.queries:
            try:
                if query.addition and query.name in (self._declared or ()) and is_new(query, manifest):
                    put_aside(self.pipeline.home, self.pipeline.folder_of(query), query.sink, manifest)
                written += self.prepare(query)
            except OSError as problem:
                if is_full(problem):
                    raise
                troubled[query.name] = f"results cannot be written: {reason_of(problem)}"
        with contextlib.suppress(OSError):  # what is empty after a loss of power is written again
            sync_written(written)
        return troubled

    def run_on(self, keeper: PlanKeeper | None) -> None:
        """Connect to the plan of a running engine: changes take effect at ticks; with None, they are declarations."""
        self._left = frozenset(self.pipeline.queries) if keeper is None else frozenset()
        self._keeper = keeper
        if keeper is not None:
            write_description(self.pipeline.home, describe(self.pipeline.home, self.queries))

    # Changes -------------------------------------------------------------------------------------

    def add(self, query: Query) -> None:
        with self.changing:
            if query.name in self._recalled and query.name in self.pipeline.queries:
                # The same program ran before on this home and added it while running; now it does so again.
                present = self.pipeline.queries[query.name]
                given = replace(
                    query,
                    since=present.since,
                    addition=present.addition,
                    resumed=present.resumed,
                    sink=resolved_sink(query.sink),
                )
                if given == present:
                    self._recalled = self._recalled - {query.name}
                    return
            self._apply_one(Add(query))

    def drop(self, name: str) -> None:
        self._apply_one(Drop(name))

    def resume(self, names: Sequence[str]) -> Activated:
        return self._apply_one(*(Resume(name) for name in names))

    def _apply_one(self, *changes: Change) -> Activated:
        (verdict,) = self.apply([ChangeRequest(time.monotonic(), changes)])
        if isinstance(verdict, WatersmeetError):
            raise verdict
        return verdict

    def apply(self, requests: Sequence[ChangeRequest]) -> list[Verdict]:
        """Execute requests as one batch; for each, the tick from which it is active, or why it is rejected.

        An invalid request is rejected alone. The others are planned once and become active together, with the
        next tick that begins; if they have no plan together, each half is tried for itself. A rejected one changes
        nothing."""
        with self.changing:
            after = self.pipeline
            suspended = self._keeper.manifest.suspended if self._keeper is not None else {}
            verdicts: list[WatersmeetError | None] = []
            for asked in requests:
                try:
                    following = changed(after, asked.changes, self._keeper is not None, suspended)
                    if self._keeper is not None:
                        self._prepare(following)
                    after = following
                    verdicts.append(None)
                except WatersmeetError as problem:
                    verdicts.append(problem)
            accepted = [asked for asked, rejected in zip(requests, verdicts, strict=True) if rejected is None]
            tick, now = 0, time.monotonic()
            if accepted:
                try:
                    tick, now = self._activate(after, accepted)
                except WatersmeetError as problem:
                    if len(accepted) > 1:  # one of them is no reason to reject the others
                        half = len(requests) // 2
                        return [*self.apply(requests[:half]), *self.apply(requests[half:])]
                    verdicts = [rejected or problem for rejected in verdicts]
                except OSError as problem:
                    failed = not_written(after.home, problem)
                    verdicts = [rejected or failed for rejected in verdicts]
            return [
                bad or Activated(tick, now - asked.at, missed(asked.changes, suspended, tick))
                for asked, bad in zip(requests, verdicts, strict=True)
            ]

    def _prepare(self, after: Pipeline) -> None:
        """Make the folders of queries that are added or resumed, each request for itself: one that cannot be made is
        no reason to reject the others."""
        for name, query in after.queries.items():
            if query is not self.pipeline.queries.get(name):
                try:
                    check_owner(name, self.pipeline.folder_of(query), query.sink, self._owner)
                    sync_written(self.prepare(query))
                except OSError as problem:
                    raise ModelError(
                        f"query {name}: results cannot be written into {self.pipeline.folder_of(query)}",
                        detail=str(problem),
                        hint="give the query another INTO path, or make the folder writable",
                    ) from None

    def _activate(self, after: Pipeline, accepted: Sequence[ChangeRequest]) -> tuple[int, float]:
        """The first tick with the changes (0: declared only), and the monotonic time at which it was fixed."""
        keeper, tick, now = self._keeper, 0, time.monotonic()
        before = self.pipeline.queries
        if keeper is not None:
            fresh = {name for name, q in after.queries.items() if q is not before.get(name) and not q.resumed}
            since = keeper.next_tick
            added = {n: replace(after.queries[n], since=since, addition=secrets.token_hex(8)) for n in fresh}
            after = replace(after, queries={**after.queries, **added})
            plan = keeper.plan_for(tuple(after.streams.values()), after.queries.values())

            def record(tick: int) -> None:
                nonlocal now
                now = time.monotonic()
                resumed = {name: query.resumed for name, query in after.queries.items()}
                append_entries(after.home, entries_of(accepted, after.queries, resumed, tick, now))
                self._compaction.run(keeper.manifest.changes)

            tick = keeper.adopt(plan, record)
            due = {n: replace(query, since=tick) if n in fresh else query for n, query in after.queries.items()}
            after = replace(after, queries=due)
            with contextlib.suppress(OSError):  # only for users, and the change is active
                write_description(after.home, describe(after.home, after.queries.values()))
        elif self._declared is not None:  # the next start finds another pipeline
            new = {name: query for name, query in after.queries.items() if query is not before.get(name)}
            self._declared = {n: query for n, query in self._declared.items() if n in after.queries} | new
        self._recalled &= {name for name, query in after.queries.items() if query is before.get(name)}
        self.pipeline = after
        return tick, now
