"""The commit of a tick: the manifest that makes its results and its state known, of what its tasks report."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from watersmeet.home.counters import Counters
from watersmeet.home.manifest import BucketInfo, Manifest, ResultFile, Suspension
from watersmeet.home.outbox import Lanes, Posted, posted
from watersmeet.runtime.tick.orders import GatherReport, MergeReport, TaskReport
from watersmeet.runtime.tick.suspension import idle_stores, is_suspended
from watersmeet.runtime.tick.tick import Tick, spoke, too_many_matches


def committed(
    tick: Tick,
    gathered: Sequence[GatherReport],
    probed: Sequence[TaskReport],
    merged: Sequence[MergeReport] = (),
) -> tuple[Manifest, list[str]]:
    """The manifest that commits the tick, and the state files that are unused after it."""
    return _Commit(tick, gathered, probed).manifest(merged)


@dataclass(frozen=True)
class _Commit:
    tick: Tick
    gathered: Sequence[GatherReport]
    probed: Sequence[TaskReport]

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
            results=tuple(file for report in self.gathered for file in report.rejected) + published,
            totals=self._totals([file for file in files if file.query in failed]),
            plan=tick.rules.version,
            materialized=tuple(store for store in tick.rules.materialized if store not in idle),
            queries={q.name: tick.number if tick.is_new(q) else before.queries[q.name] for q in tick.known},
            additions={query.name: query.addition for query in tick.known if query.addition},
            outbox=self._outbox(published),
            marks={**before.marks, **{stream: after for stream, (_, after) in absences.marks.items()}},
            flushed=dict(absences.flushed[1]),
            suspended={
                **standing,
                **{n: Suspension(tick.number, why, f"{tick.number}-{tick.attempt}") for n, why in failed.items()},
            },
            windows=first_open,
            complete=tick.windows.complete(newest, alive),
            silent=raised,
        )
        manifest.validate()
        named = {bucket.file for bucket in kept}
        return manifest, [bucket.file for bucket in written if bucket.file not in named]

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

    def _totals(self, withdrawn: Iterable[ResultFile]) -> Counters:
        tick, totals = self.tick, Counters()
        totals.add(tick.before.totals)
        # Nor is anything counted of another query that had the name of a new one.
        known = {query.name for query in tick.known if not tick.is_new(query)}
        totals.forget_others(known, tick.rules.window_stores)
        if tick.rules.version != tick.before.plan:
            totals.forget_steps()
        for counts in (*(report.counts for report in self.gathered), *(report.counts for report in self.probed)):
            totals.add(counts)
        for file in withdrawn:
            totals.results[file.query] -= file.rows
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
        limit = tick.rules.limits.matches
        found = Counter[str]()
        for report in self.probed if limit else ():
            found.update(report.counts.results)
        for name, matches in found.items():
            if matches > limit:
                failed.setdefault(name, too_many_matches(limit))
        return failed
