"""The commit of a tick: the manifest that makes its results and its state known, of what its tasks report."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from watersmeet.home.counters import Counters
from watersmeet.home.manifest import BucketInfo, Manifest, ResultFile, Suspension, WaitingFile
from watersmeet.home.outbox import Lanes, Posted, posted
from watersmeet.runtime.tick.orders import GatherReport, MergeReport, ReleaseOrder, TaskReport, dropped_name
from watersmeet.runtime.tick.suspension import idle_stores, is_suspended
from watersmeet.runtime.tick.tick import Tick, spoke, too_many_matches


def committed(
    tick: Tick,
    gathered: Sequence[GatherReport],
    probed: Sequence[TaskReport],
    merged: Sequence[MergeReport] = (),
    released: Sequence[TaskReport] = (),
) -> tuple[Manifest, list[str]]:
    """The manifest that commits the tick, and the state files that are unused after it."""
    return _Commit(tick, gathered, probed, released).manifest(merged)


def only_released(
    order: ReleaseOrder, before: Manifest, released: Sequence[TaskReport], resumed: Collection[str]
) -> tuple[Manifest, list[str]]:
    """The manifest of a tick in which nothing happens but that results leave, and the files that are unused after it.
    Of the queries that were resumed, those of which that fails are suspended anew."""
    failed = {name: why for name, why in _not_released(released).items() if name in before.queries}
    manifest = replace(
        before,
        tick=order.tick,
        results=_released_files(released, before.queries),
        waiting=_still_waiting(order, released),
        suspended={
            **_suspensions(failed, order.tick, order.attempt),
            **{name: each for name, each in before.suspended.items() if name not in failed or name not in resumed},
        },
    )
    manifest.validate()
    return manifest, _no_longer(order.files, manifest)


@dataclass(frozen=True)
class _Commit:
    tick: Tick
    gathered: Sequence[GatherReport]
    probed: Sequence[TaskReport]
    released: Sequence[TaskReport] = ()

    def manifest(self, merged: Sequence[MergeReport]) -> tuple[Manifest, list[str]]:
        tick, before = self.tick, self.tick.before
        newest, arrived, absences = tick.newest(self.gathered), spoke(self.gathered), tick.absences(self.gathered)
        failed = self._suspended_now()
        left = {name: start for report in self.probed for name, start in report.left.items() if name not in failed}
        first_open, raised = tick.windows.after(newest, arrived) | left, tick.windows.raised(newest, arrived)
        idle = idle_stores(tick.rules, tick.unanswered(self.probed).union(failed))
        alive = tick.horizons_after(newest, raised, first_open)
        alive = {store: horizon for store, horizon in alive.items() if store not in idle}
        candidates, written = self._buckets(merged)
        kept = tuple(b for b in candidates if b.store in alive and b.alive_until >= alive[b.store])
        files = [file for report in self.probed for file in report.results]
        published = tuple(file for file in files if file.query not in failed)
        standing = {q.name: before.suspended[q.name] for q in tick.known if is_suspended(q, before)}
        manifest = replace(
            before,
            tick=tick.number,
            batches={**before.batches, tick.group: tick.batch} if tick.group else before.batches,
            newest=newest,
            buckets=kept,
            results=(
                *(file for report in self.gathered for file in report.rejected),
                *published,
                *_released_files(self.released, {q.name for q in tick.known if not tick.is_new(q)}),
            ),
            waiting=self._waiting(failed),
            totals=self._totals(files, failed),
            plan=tick.rules.version,
            materialized=tuple(store for store in tick.rules.materialized if store not in idle),
            queries={q.name: tick.number if tick.is_new(q) else before.queries[q.name] for q in tick.known},
            additions={query.name: query.addition for query in tick.known if query.addition},
            outbox=self._outbox(published),
            marks={**before.marks, **{stream: after for stream, (_, after) in absences.marks.items()}},
            flushed=dict(absences.flushed[1]),
            suspended={**standing, **_suspensions(failed, tick.number, tick.attempt)},
            windows=first_open,
            complete=tick.windows.complete(newest, alive),
            silent=raised,
        )
        manifest.validate()
        named = {bucket.file for bucket in kept}
        unused = [bucket.file for bucket in written if bucket.file not in named]
        new = [waiting.file for report in self.probed for waiting in report.waiting]
        return manifest, unused + _no_longer([*before.waiting, *new], manifest)

    def _waiting(self, failed: Collection[str]) -> tuple[WaitingFile, ...]:
        """What waits after the tick."""
        before = self.tick.before.waiting
        left = list(_still_waiting(self.tick.release_order(), self.released) if self.tick.release else before)
        for report in self.probed:
            for new in report.waiting:
                wanted = tuple(query for query in new.rows if query not in failed)
                if wanted:
                    left.append(new.file if len(wanted) == len(new.rows) else replace(new.file, queries=wanted))
        return tuple(left)

    def _buckets(self, merged: Sequence[MergeReport]) -> tuple[list[BucketInfo], list[BucketInfo]]:
        """Those that may be part of the state after the tick, and all that there were and are.

        A merge that took several ticks counts only if all that it read is still part of the state."""
        added = [bucket for report in self.gathered for bucket in report.buckets]
        added += [bucket for report in self.probed for bucket in report.kept]
        candidates = {bucket.file: bucket for bucket in (*self.tick.standing(), *added)}
        for merge in merged:
            if merge.merged is not None:
                added.append(merge.merged)
            if all(bucket.file in candidates for bucket in merge.job.inputs):
                for bucket in merge.job.inputs:
                    del candidates[bucket.file]
                if merge.merged is not None:
                    candidates[merge.merged.file] = merge.merged
        return list(candidates.values()), [*self.tick.before.buckets, *self.tick.replaced, *added]

    def _totals(self, files: Iterable[ResultFile], failed: Collection[str]) -> Counters:
        tick, totals = self.tick, Counters()
        totals.add(tick.before.totals)
        # Nor is anything counted of another query that had the name of a new one.
        known = {query.name for query in tick.known if not tick.is_new(query)}
        totals.forget_others(known, tick.rules.window_stores)
        if tick.rules.version != tick.before.plan:
            totals.forget_steps()
        for gathering in self.gathered:
            totals.add(gathering.counts)
        for report in (*self.probed, *self.released):
            totals.add(report.counts)
        found = [(file.query, file.rows) for file in files]
        found += [each for report in self.probed for new in report.waiting for each in new.rows.items()]
        for query, rows in found:
            if query in failed:
                totals.results[query] -= rows
        return totals

    def _outbox(self, files: Iterable[ResultFile]) -> Lanes:
        tick = self.tick
        sinks = {query.name: query.sink for query in tick.known if query.sink.is_delivered}
        if not sinks:
            return tick.before.outbox
        names = (Posted(f.query, f.rows, os.path.relpath(f.final, tick.home), f.bytes) for f in files)
        return posted(tick.before.outbox, sinks, names, tick.number)

    def _suspended_now(self) -> dict[str, str]:
        """The queries that this tick suspends, and why: known before, reported by a task, or found by adding up."""
        tick = self.tick
        # One that is suspended already stays so, under the same name.
        known = {query.name for query in tick.known if not is_suspended(query, tick.before)}
        failed = {name: why for name, why in tick.suspending.items() if name in known}
        for report in self.probed:
            failed.update(report.suspended)
        failed.update({name: why for name, why in _not_released(self.released).items() if name in known})
        limit = tick.rules.limits.matches
        found = Counter[str]()
        for report in self.probed if limit else ():
            found.update(report.counts.results)
        for name, matches in found.items():
            if matches > limit:
                failed.setdefault(name, too_many_matches(limit))
        return failed


# Results that have waited ------------------------------------------------------------------------


def _not_released(released: Iterable[TaskReport]) -> dict[str, str]:
    """The queries whose files could not be written, and why."""
    return {query: why for report in released for query, why in report.suspended.items()}


def _released_files(released: Iterable[TaskReport], standing: Collection[str]) -> tuple[ResultFile, ...]:
    """The results of a query that is gone are not those of a new one with its name."""
    files = [file for report in released for file in report.results if file.query not in report.suspended]
    return tuple(f if f.query in standing else replace(f, query=dropped_name(f.query)) for f in files)


def _still_waiting(order: ReleaseOrder, released: Sequence[TaskReport]) -> tuple[WaitingFile, ...]:
    """The results of queries whose files could not be written go on waiting, where they are."""
    failed = _not_released(released)
    left = []
    for file in order.files:
        names = failed if file.queries is None else file.queries
        queries = tuple(sorted(query for query in names if order.owner(file, query) in failed))
        if queries:
            left.append(replace(file, queries=queries))
    return tuple(left)


def _no_longer(files: Iterable[WaitingFile], manifest: Manifest) -> list[str]:
    """The files that the manifest does not name any more."""
    named = {waiting.file for waiting in manifest.waiting}
    return [file.file for file in files if file.file not in named]


def _suspensions(reasons: Mapping[str, str], tick: int, attempt: str) -> dict[str, Suspension]:
    return {name: Suspension(tick, why, f"{tick}-{attempt}") for name, why in reasons.items()}
