"""The tick, without any I/O: what was committed and what tasks report goes in, orders and manifests come out.

    begin ──► GatherOrder ──(tasks)──► gathered ──► ProbeOrder ──(tasks)──► finished ──► Manifest, garbage

`spark.py` carries these out. Nothing here is visible to anybody until the manifest is committed, so a tick that
fails anywhere is simply begun again under another attempt name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from watersmeet.model import Query, Stream
from watersmeet.plan.ruleset import Ruleset
from watersmeet.runtime.orders import GatherOrder, GatherReport, ProbeOrder, ProbeReport, Slice
from watersmeet.store.bucket import BucketInfo
from watersmeet.store.manifest import Manifest
from watersmeet.store.merge import choose_merges
from watersmeet.store.retention import horizons, watermarks

MIN_SLICE = 4096  # fewer rows are not worth a task of their own


@dataclass(frozen=True)
class Tick:
    """One try at one tick."""

    home: str
    group: str
    batch: int
    attempt: str
    rules: Ruleset
    streams: tuple[Stream, ...]
    queries: tuple[Query, ...]
    before: Manifest

    @property
    def number(self) -> int:
        return self.before.tick + 1

    def begin(self) -> GatherOrder:
        marks = watermarks(self.streams, self.before.newest)
        return GatherOrder(self.home, self.number, self.attempt, self.rules, marks)

    def gathered(self, reports: Sequence[GatherReport], tasks: int) -> ProbeOrder:
        """Which task probes what: new rows split evenly, and merges of what was there before."""
        new = [bucket for report in reports for bucket in report.buckets]
        buckets: dict[str, list[BucketInfo]] = {}
        for bucket in (*self.before.buckets, *new):
            buckets.setdefault(bucket.store, []).append(bucket)
        stored = {rule.stream for rule in self.rules.stores}
        alive = horizons(self.queries, watermarks(self.streams, self.before.newest))
        old = [b for b in self.before.buckets if b.store in stored and b.tau_max >= alive.get(b.store, b.tau_max)]
        return ProbeOrder(
            self.home,
            self.number,
            self.attempt,
            self.rules,
            {store: tuple(infos) for store, infos in buckets.items()},
            split(new, tasks),
            tuple(choose_merges(old, alive)),
        )

    def finished(self, gathered: Sequence[GatherReport], probed: Sequence[ProbeReport]) -> tuple[Manifest, list[str]]:
        """The manifest that commits the tick, and the state files that nobody needs after it."""
        newest = dict(self.before.newest)
        for report in gathered:
            if report.newest is not None:
                newest[report.stream] = max(report.newest, newest.get(report.stream, report.newest))
        candidates = {bucket.file: bucket for bucket in self.before.buckets}
        for report in gathered:
            candidates.update({bucket.file: bucket for bucket in report.buckets})
        for job, merged in (pair for report in probed for pair in report.merged):
            for bucket in job.inputs:
                del candidates[bucket.file]
            if merged is not None:
                candidates[merged.file] = merged
        alive = horizons(self.queries, watermarks(self.streams, newest))
        kept = tuple(b for b in candidates.values() if b.store in alive and b.tau_max >= alive[b.store])
        written = [*self.before.buckets, *(b for report in gathered for b in report.buckets)]
        written += [merged for report in probed for _, merged in report.merged if merged is not None]
        named = {bucket.file for bucket in kept}
        totals = Counter(self.before.totals)
        if self.rules.version != self.before.plan:  # the numbers of steps mean nothing under another plan
            totals = Counter({name: count for name, count in totals.items() if not name.startswith("step_")})
        for counts in (*(report.counts for report in gathered), *(report.counts for report in probed)):
            totals.update(counts)
        manifest = replace(
            self.before,
            tick=self.number,
            batches={**self.before.batches, self.group: self.batch},
            newest=newest,
            buckets=kept,
            results=tuple(file for report in gathered for file in report.rejected)
            + tuple(file for report in probed for file in report.results),
            totals=dict(totals),
            plan=self.rules.version,
        )
        manifest.validate()
        return manifest, [bucket.file for bucket in written if bucket.file not in named]


def split(new: Iterable[BucketInfo], tasks: int) -> tuple[tuple[Slice, ...], ...]:
    """The new rows in about equal shares."""
    buckets = list(new)
    total = sum(bucket.rows for bucket in buckets)
    if not total:
        return ()
    shares = max(1, min(tasks, total // MIN_SLICE))
    size = -(-total // shares)
    work: list[list[Slice]] = [[]]
    room = size
    for bucket in buckets:
        begin = 0
        while begin < bucket.rows:
            if not room:
                work.append([])
                room = size
            end = min(bucket.rows, begin + room)
            work[-1].append(Slice(bucket, begin, end))
            room -= end - begin
            begin = end
    return tuple(tuple(share) for share in work)
