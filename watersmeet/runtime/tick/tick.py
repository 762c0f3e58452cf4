"""The tick, without any I/O: what was committed and what tasks report goes in, orders and manifests come out.

    begin ► GatherOrder ─(tasks)─► for each phase: probe_order ► ProbeOrder ─(tasks)─► committed ► Manifest, garbage
                                   in parallel:    merge_order ► MergeOrder ─(tasks)─►

`loop.py` has these executed. Nothing here is visible outside until the manifest is committed, so a tick that fails
anywhere is repeated under another attempt name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from watersmeet import points
from watersmeet.home.counters import Counters
from watersmeet.home.manifest import BucketInfo, Manifest
from watersmeet.model import KeyPart, Query, Stream
from watersmeet.plan.ruleset import Ruleset, Start, all_steps
from watersmeet.runtime.tick.absences import Absences, absences_of
from watersmeet.runtime.tick.orders import (
    GatherOrder,
    GatherReport,
    MergeOrder,
    ProbeOrder,
    ReleaseOrder,
    RowRange,
    TaskReport,
    raise_first,
)
from watersmeet.runtime.tick.suspension import is_new, suspended_names
from watersmeet.store.merge import MergeJob, choose_merges
from watersmeet.store.retention import horizons, limits_ahead, materialized_horizons, watermarks
from watersmeet.windows.closing import Closing
from watersmeet.windows.life import WindowLife

MIN_ROWS = 4096  # fewer rows are not worth a task of their own
LARGE_MERGE = 4 << 20  # bytes of merges that take so long that no tick should wait for them


@dataclass(frozen=True)
class Tick:
    """One attempt at one tick. A tick without a batch has no group: it only does what a change of the plan needs."""

    home: str
    group: str
    batch: int
    attempt: str
    rules: Ruleset
    streams: tuple[Stream, ...]
    queries: tuple[Query, ...]
    before: Manifest
    disabled: frozenset[str] = frozenset()  # registered predicates that are not called any more
    now: int | None = None  # the clock, in microseconds; None: rows may be as far ahead as they like
    suspended: tuple[Query, ...] = ()  # the plan has no rules for them, but their streams are stored
    suspending: Mapping[str, str] = field(default_factory=dict)  # queries that this tick suspends for a known reason
    replaced: tuple[BucketInfo, ...] = ()  # buckets that this tick has written again with columns that Spark computed
    silent: frozenset[str] = frozenset()  # streams that do not hold back windows
    flush: bool = False  # close all windows, decide all absences
    careful: bool = False  # memory was short: windows are made with little of it, for each query by itself
    without: frozenset[str] = frozenset()  # queries that it is tried without, to find those at fault; not committed
    at_once: frozenset[str] | None = frozenset()  # queries whose results do not wait; None: all
    release: bool = False  # results that wait since earlier ticks become files

    @property
    def number(self) -> int:
        return self.before.tick + 1

    def begin(self) -> GatherOrder:
        marks = watermarks(self.streams, self.before.newest)
        keys = joined_keys(self.computed)
        limits = limits_ahead(self.streams, self.before.newest, self.now) if self.now is not None else {}
        return GatherOrder(
            self.home,
            self.number,
            self.attempt,
            self.rules,
            watermarks=marks,
            streams=self.streams,
            sampled=keys,
            limits=limits,
            raised=dict(self.before.silent),
            without=self.without,
        )

    def phases(self) -> list[int]:
        """The phases to run: 0 only where a store is new and has to be filled, or a query to be backfilled."""
        return [0, *self.rules.phases()] if self._new_stores() or self.backfills() else self.rules.phases()

    def backfills(self) -> set[str]:
        """The queries that are new in this tick and want the results among stored rows."""
        new = {q.name for q in self.queries if q.backfill and not q.is_windowed and self.is_new(q)}
        return new - set(self.suspending)

    def unanswered(self, probed: Sequence[TaskReport] = ()) -> frozenset[str]:
        """The queries of the plan that get no results: they are suspended, or this tick suspends them."""
        suspended = suspended_names(self.queries, self.before)
        return suspended.union(self.suspending, self.without, *(report.suspended for report in probed))

    @property
    def computed(self) -> tuple[Query, ...]:
        """Its queries; one that changes its form comes twice, in both."""
        return self.queries + tuple(rule.query for rule in self.rules.leaving.values())

    @cached_property
    def windowed(self) -> tuple[Query, ...]:
        return tuple(query for query in self.queries if query.is_windowed)

    @property
    def known(self) -> tuple[Query, ...]:
        return (*self.queries, *self.suspended)

    @cached_property
    def windows(self) -> WindowLife:
        known = tuple(query for query in self.known if query.is_windowed)
        return WindowLife(known, self.streams, self.rules, self.before, silent=self.silent, flush=self.flush)

    def is_new(self, query: Query) -> bool:
        return is_new(query, self.before)

    def _new_stores(self) -> set[str]:
        return set(self.rules.materialized) - set(self.before.materialized)

    def probe_order(
        self, phase: int, gathered: Sequence[GatherReport], probed: Sequence[TaskReport], tasks: int
    ) -> ProbeOrder:
        """Which task probes what: new rows split evenly, in phase 0 the stored ones."""
        new = [bucket for report in gathered for bucket in report.buckets]
        kept = [bucket for report in probed for bucket in report.kept]
        buckets: dict[str, list[BucketInfo]] = {}
        read = {store.name for store in self.rules.probed}
        for bucket in (*self.standing(), *new, *kept):
            if bucket.store in read:
                buckets.setdefault(bucket.store, []).append(bucket)
        starts = tuple(start for start in self.rules.starts if start.phase == phase)
        if phase == 0:
            starts = tuple(start for start in starts if self._is_due(start))
        order = ProbeOrder(
            home=self.home,
            tick=self.number,
            attempt=self.attempt,
            rules=self.rules,
            phase=phase,
            starts=starts,
            buckets={store: tuple(infos) for store, infos in buckets.items()},
            work=(),
            disabled=self.disabled.union(*(report.disabled for report in probed)),
            suspended=self.unanswered(probed),
            absences=self.absences(gathered),
            at_once=self.at_once,
        )
        source = [bucket for bucket in (*self.standing(), *new) if any(_begins(order, s, bucket) for s in starts)]
        return replace(order, work=split(source, tasks))

    def absences(self, gathered: Sequence[GatherReport]) -> Absences:
        newest = self.newest(gathered)
        marks = self.windows.marks(newest, spoke(gathered))
        return absences_of(self.streams, self.before, marks, newest, self.flush)

    def _is_due(self, start: Start) -> bool:
        """Whether a start of phase 0 has to run."""
        if start.backfills:
            return start.backfills in self.backfills()
        return {keep.store for step in all_steps(start.steps) for keep in step.materialized} <= self._new_stores()

    def standing(self) -> list[BucketInfo]:
        """The buckets of earlier ticks that the plan still has a store for."""
        known = {store.name for store in self.rules.stores} - self._new_stores()
        return [bucket for bucket in self.before.buckets if bucket.store in known]

    def merge_orders(self, running: Iterable[MergeJob] = ()) -> tuple[MergeOrder, MergeOrder]:
        """The merges worth doing now, but for those that run already: to be done in this tick, and beside the ticks."""
        alive = self.horizons_after(self.before.newest, self.before.silent, self.windows.opened)
        taken = {bucket.file for job in running for bucket in job.inputs}
        free = [b for b in self.standing() if b.alive_until >= alive[b.store] and b.file not in taken]
        small: list[MergeJob] = []
        large: list[MergeJob] = []
        total = 0
        unprobed = {store.name for store in self.rules.stores if not store.is_probed}
        jobs = [] if self.careful else choose_merges(free, alive, unprobed)
        for job in sorted(jobs, key=lambda job: job.bytes):
            total += job.bytes
            (small if total < LARGE_MERGE else large).append(job)
        return self._merge_order(small), self._merge_order(large)

    def _merge_order(self, jobs: list[MergeJob]) -> MergeOrder:
        by_name = {store.name: store for store in self.rules.stores}
        stores = tuple(by_name[job.inputs[0].store] for job in jobs)
        return MergeOrder(self.home, self.number, self.attempt, tuple(jobs), stores, durable=self.rules.durable)

    def release_order(self) -> ReleaseOrder:
        files, before = self.before.waiting if self.release else (), self.before
        first = {query: before.queries.get(query, 0) for file in files for query in file.queries or ()}
        # Those that take over the name in this tick, of a query that has left results because it was suspended.
        new = {query.name for query in self.known if query.name in first and self.is_new(query)}
        first |= {name: self.number for name in new if name in before.suspended or name not in before.queries}
        return ReleaseOrder(self.home, self.number, self.attempt, files, self.rules.durable, first)

    def horizons_after(
        self, newest: Mapping[str, int], raised: Mapping[str, int], first_open: Mapping[str, int]
    ) -> dict[str, int]:
        marks = watermarks(self.streams, newest, raised)
        outside = {store.name: store.outside for store in self.rules.join_stores.values()}
        joins = [query.join for query in (*self.computed, *self.suspended) if query.join is not None]
        kept = {**horizons(joins, self.streams, marks), **materialized_horizons(outside, marks)}
        for store, horizon in self.windows.horizons(first_open).items():
            kept[store] = min(kept.get(store, horizon), horizon)
        return kept

    def newest(self, gathered: Sequence[GatherReport]) -> dict[str, int]:
        newest = dict(self.before.newest)
        for report in gathered:
            if report.newest is not None:
                newest[report.stream] = max(report.newest, newest.get(report.stream, report.newest))
        return newest

    def foreseen(self, gathered: Sequence[GatherReport]) -> Manifest:
        """What the next tick needs of this one's manifest to be gathered: its number, and watermarks."""
        newest = self.newest(gathered)
        return replace(
            self.before, tick=self.number, newest=newest, silent=self.windows.raised(newest, spoke(gathered))
        )

    # Windows -------------------------------------------------------------------------------------

    def closing(self, gathered: Sequence[GatherReport], probed: Sequence[TaskReport] = ()) -> Closing:
        """What this tick does about windows."""
        unanswered = self.unanswered(probed)
        new = [bucket for report in gathered for bucket in report.buckets]
        return Closing(
            self.home,
            self.number,
            self.attempt,
            self.windows,
            answered={query.name: query for query in self.windowed if query.name not in unanswered},
            buckets=(*self.standing(), *new, *(bucket for report in probed for bucket in report.kept)),
            newest=self.newest(gathered),
            spoke=frozenset(spoke(gathered)),
            careful=self.careful,
            at_once=self.at_once,
        )

    def lightened(self) -> Tick:
        """The tick without what only the commit needs, for a task that executes it."""
        return replace(
            self, before=replace(self.before, totals=Counters(), results=(), waiting=(), batches={}, outbox=())
        )


def spoke(gathered: Iterable[GatherReport]) -> set[str]:
    """The streams that had rows in a tick."""
    return {report.stream for report in gathered if report.newest is not None}


def too_many_matches(limit: int) -> str:
    return f"it has more than {limit:,} matches in a tick (option max_matches)"


def walk_phases(
    tick: Tick, gathered: Sequence[GatherReport], tasks: int, probe: Callable[[ProbeOrder], list[TaskReport]]
) -> list[TaskReport]:
    """All probes of a tick, one phase after the other; `probe` executes an order."""
    probed: list[TaskReport] = []
    for phase in tick.phases():
        points.reach("phase.between" if probed else "gather.after")
        order = tick.probe_order(phase, gathered, probed, tasks)
        if order.tasks:
            probed += probe(order)
            raise_first(probed)
    return probed


def _begins(order: ProbeOrder, start: Start, bucket: BucketInfo) -> bool:
    if not order.begins(start, bucket):
        return False
    if not start.due:
        return True
    first, end = order.absences.due_times(start)
    return bucket.tau_max >= first and bucket.tau_min < end


def joined_keys(queries: Iterable[Query]) -> dict[str, tuple[KeyPart, ...]]:
    """For each stream the keys that some query joins it by, or would in another form."""
    found: dict[str, dict[KeyPart, None]] = {}
    for join in (join for query in queries for join in query.joins):
        for equality in join.equalities:
            for alias, part in ((equality.left, equality.left_key), (equality.right, equality.right_key)):
                found.setdefault(join.by_name[alias].stream, {})[part] = None
    return {stream: tuple(sorted(parts, key=lambda part: part.sort_key)) for stream, parts in found.items()}


def split(new: Iterable[BucketInfo], tasks: int) -> tuple[tuple[RowRange, ...], ...]:
    """The new rows in about equal shares."""
    buckets = list(new)
    total = sum(bucket.rows for bucket in buckets)
    if not total:
        return ()
    shares = max(1, min(tasks, total // MIN_ROWS))
    size = -(-total // shares)
    work: list[list[RowRange]] = [[]]
    room = size
    for bucket in buckets:
        begin = 0
        while begin < bucket.rows:
            if not room:
                work.append([])
                room = size
            end = min(bucket.rows, begin + room)
            work[-1].append(RowRange(bucket, begin, end))
            room -= end - begin
            begin = end
    return tuple(tuple(share) for share in work)
