"""Walking the probe trees: new rows in, complete results out. Knows buckets and rules, but not Spark.

Between steps a partial result is only row references, two scalars for the window test and the codes that
later steps look up. Rows go through in chunks of bounded size, depth first, so the memory of a task does
not grow with the tick or with the number of matches.

A walk goes as far as it can in the partition of its task. A partial result whose next step is in another partition
departs: the executor brings it there, and another walk continues with it. With one partition nothing ever departs.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import thread_time_ns
from typing import Protocol

import numpy as np

from watersmeet.home.counters import Counters
from watersmeet.home.manifest import BucketInfo
from watersmeet.plan.ruleset import Emit, LeafCheck, Materialize, Start, Step
from watersmeet.runtime.probe.counting import MatchCounter, ProductCounter, counted_end, divided, lists_of
from watersmeet.runtime.probe.first_partners import Region, one_for_each_key
from watersmeet.runtime.probe.leaf_checks import LeafStep
from watersmeet.runtime.probe.matches import Matches, SetTest
from watersmeet.runtime.probe.open_buckets import TickBuckets
from watersmeet.runtime.probe.partial_results import PartialResults, ProbePath, Refs
from watersmeet.runtime.probe.partitions import Departure, OnlyPartition
from watersmeet.runtime.probe.predicates import Tester
from watersmeet.runtime.probe.probers import ByHash, Prober, make_prober
from watersmeet.runtime.probe.pruning import Pruning, Suspended
from watersmeet.runtime.probe.window_kinds import WindowKinds
from watersmeet.runtime.tick.orders import ProbeOrder, RowRange
from watersmeet.runtime.tick.overload import out_of_memory
from watersmeet.runtime.udf.predicate_calls import Calls
from watersmeet.store.bucket import Bucket
from watersmeet.store.filters import Words
from watersmeet.store.guard import OUT_OF_MEMORY
from watersmeet.store.kernels import I64

ROWS_IN = 1 << 16


class Ends(Protocol):
    """Takes what has reached the end of a path: results of a query, or rows of a materialized store."""

    def emit(self, end: Emit, partial: PartialResults, path: ProbePath) -> None: ...

    def materialize(self, end: Materialize, partial: PartialResults, path: ProbePath) -> None: ...

    def only_counts(self, emit: Emit) -> bool:
        """Whether nothing but numbers is wanted by any query of an end."""

    def count(self, emit: Emit, counts: I64) -> None:
        """Take the matches of each query of a group, by bit."""


class Walk:
    """One task's walk."""

    def __init__(
        self,
        order: ProbeOrder,
        stores: TickBuckets,
        ends: Ends,
        partition: OnlyPartition,
        suspended: Suspended | None = None,
    ) -> None:
        """`suspended` grows while the walk goes: steps that only such queries need are not taken."""
        self.order = order
        self._pruning = Pruning(order, suspended)
        self.stores = stores
        self.ends = ends
        self.partition = partition
        self.counts = Counters()
        self.calls = Calls(disabled=set(order.disabled))
        self._number = {info.file: at for infos in order.buckets.values() for at, info in enumerate(infos)}
        self._paths = paths_of_steps(order.starts)
        self._region: Region | None = None  # of the rows that the walk has begun with, if they stand for each other
        self._counted: dict[int, tuple[Emit, WindowKinds] | None] = {}  # by step, of those whose matches are counted

    def begin(self, piece: RowRange) -> Iterator[Departure]:
        """Everything that begins with these new rows and concerns this partition."""
        for start in self.order.starts:
            if not self.order.begins(start, piece.bucket):
                continue
            own = self.partition.owns(piece.bucket)
            staying = [step for step in start.steps if step.leaf or self.partition.stays(start, step, piece.bucket)]
            leaving = [step for step in start.steps if step not in staying]
            if not (leaving or (own and (staying or start.emits))):
                continue
            for partial in self._arrivals(start, piece):
                self._pruning.look()
                if own:
                    for emit in start.emits:
                        self.ends.emit(emit, partial, ProbePath(start.relation, (start.stream,)))
                    for step in staying:
                        yield from self.resume(step, partial)
                for step in leaving:  # every partition reads the rows, and picks those that find their partners there
                    here, _ = self.partition.divide(step, partial)
                    if here is not None:
                        yield from self.resume(step, here)

    def resume(self, step: Step, partial: PartialResults) -> Iterator[Departure]:
        """Take a step with partial results, and all the steps behind it that happen in this partition."""
        try:
            yield from self._resume(step, partial)
        except OUT_OF_MEMORY as problem:
            raise out_of_memory(self.order.rules.queries_of(step)) from problem

    def _resume(self, step: Step, partial: PartialResults) -> Iterator[Departure]:
        if self._pruning.has_pruned(step):
            return
        self.counts.step_in[step.id] += len(partial)
        began = thread_time_ns()  # without the ends and the steps below
        path = self._paths[step.id]
        if step.leaf is not None:
            self._check_leaf(step, step.leaf, partial, path)
            self._spent(step, began)
            return
        counted = self._counted_end(step)
        if counted is not None:
            self._count(step, partial, *counted)
            self._spent(step, began)
            return
        tester = Tester(self.stores, path.stores, self.calls)
        prober = make_prober(step, partial, tester)
        for pairs in self._probe(step, prober):
            tests = prober.left_over()
            found = tester.passing(tests, pairs) if tests else pairs
            self.counts.step_out[step.id] += len(found)
            self._pruning.found(step, self.counts.step_out[step.id], found)
            self._spent(step, began)
            if self._pruning.has_pruned(step):
                break
            if not len(found):
                began = thread_time_ns()
                continue
            self._end(step, found, path)
            for below in step.steps:
                if below.leaf is not None:
                    yield from self.resume(below, found)
                    continue
                here, elsewhere = self.partition.divide(below, found)
                yield from elsewhere
                if here is not None:
                    yield from self.resume(below, here)
            began = thread_time_ns()
        self._spent(step, began)
        self._count_failures(step, tester)

    def _count_failures(self, step: Step, tester: Tester) -> None:
        for failed in tester.failures.values():
            for query in self.order.rules.queries_of(step):
                self.counts.failed_values[query] += failed

    def _check_leaf(self, step: Step, check: LeafCheck, partial: PartialResults, path: ProbePath) -> None:
        tester = Tester(self.stores, path.stores, self.calls)
        leaf = LeafStep(step, check, self.order, self.stores, stored_in=path.stores, region=self._region)
        asking = leaf.candidates(partial)
        found = leaf.passing(asking, self._buckets(step, asking), tester)
        self.counts.step_out[step.id] += len(found)
        self._pruning.found(step, self.counts.step_out[step.id], found)
        if len(found) and not self._pruning.has_pruned(step):
            self._end(step, found, path)
        self._count_failures(step, tester)

    def _end(self, step: Step, found: PartialResults, path: ProbePath) -> None:
        for emit in step.emits:
            self.ends.emit(emit, found, path)
        for keep in step.materialized:
            self.ends.materialize(keep, found, path)

    def _spent(self, step: Step, began: int) -> None:
        self.counts.step_micros[step.id] += (thread_time_ns() - began) // 1000

    def _arrivals(self, start: Start, piece: RowRange) -> Iterator[PartialResults]:
        """New rows as partial results of one member, in chunks."""
        bucket = self.stores.bucket(piece.bucket)
        blocks = {ask.group: bucket.words(ask.block) for ask in start.groups if ask.block}
        choosy = len(blocks) == len(start.groups)  # otherwise some group wants every row
        due = self.order.absences.due_times(start) if start.due else None
        number = self._number[piece.bucket.file]
        for at in range(piece.begin, piece.end, ROWS_IN):
            end = min(at + ROWS_IN, piece.end)
            wanted = _wanted(bucket.tau[at:end], due, [words[at:end] for words in blocks.values()] if choosy else [])
            rows = np.arange(at, end, dtype=np.int32)
            chosen: slice | np.ndarray = slice(at, end)  # most often all rows: then nothing is copied
            if wanted is not None:
                chosen = rows = rows[wanted]
            if not len(rows):
                continue
            tau = bucket.tau[chosen]
            refs = Refs(np.full(len(rows), number, np.int32), rows)
            codes = {lookup: bucket.codes((lookup[1],)).at(chosen) for lookup in start.carry}
            sets = {group: words[chosen] for group, words in blocks.items()}
            partial = PartialResults((refs,), tau, tau + start.window, codes, sets)
            if start.by_key is not None:
                self._region = Region(number, at, end)
                partial = one_for_each_key(partial, start.by_key)
            yield partial
            self._region = None

    def _probe(self, step: Step, prober: Prober) -> Iterator[PartialResults]:
        partial = prober.partial
        test = SetTest(step, partial)
        found = Matches(test.sets.dtype)
        for number, bucket in self._buckets(step, partial):
            look = prober.open(bucket, test.sets, test.stored(bucket))
            row, at = 0, -1
            while row < len(partial):
                row, at = found.fill(number, bucket, look, row, at)
                if found.is_full:
                    yield self._expand(step, partial, found, test)
                    found = Matches(test.sets.dtype)
        if found.count:
            yield self._expand(step, partial, found, test)

    def _buckets(self, step: Step, partial: PartialResults) -> Iterator[tuple[int, Bucket]]:
        """The buckets that may have matches of partial results, with their numbers."""
        if not len(partial):
            return
        earliest, last = int(partial.latest.min()) - step.window, int(partial.deadline.max())
        for number, info in enumerate(self.stores.infos.get(step.store, ())):
            if info.tau_max < earliest or info.tau_min > last:
                continue
            if (step.leaf or self.partition.holds(number, info)) and self._sees(step, info):
                yield number, self.stores.bucket(info)

    def _counted_end(self, step: Step) -> tuple[Emit, WindowKinds] | None:
        if step.id not in self._counted:
            emit = counted_end(step, self.ends.only_counts)
            self._counted[step.id] = None if emit is None else (emit, WindowKinds.of(emit))
        return self._counted[step.id]

    def _count(self, step: Step, partial: PartialResults, emit: Emit, kinds: WindowKinds) -> None:
        """Take a last step whose matches are only counted."""
        if len(kinds):  # a list would have other times for each kind of windows
            self._count_matches(step, ByHash(step, partial), emit, kinds)
            return
        first, others = divided(partial)
        found = self._count_matches(step, ByHash(step, first), emit, kinds) / max(1, len(first))
        if not len(others) or self._pruning.has_pruned(step):
            return
        prober = ByHash(step, others)
        test = SetTest(step, prober.partial)
        lists = lists_of(prober, test.sets, found)
        if lists is None:
            self._count_matches(step, prober, emit, kinds)
            return
        # How many pairs some query wants is not known of products; statistics have what the first ones tell.
        self.counts.step_out[step.id] += round(found * len(others))
        counter = ProductCounter(step, emit, lists)
        for _, bucket in self._buckets(step, prober.partial):
            count, at = counter.open(bucket, test.stored(bucket)), 0
            while at < len(lists) and not self._pruning.has_pruned(step):
                _, at = count(at)
                self._counted_so_far(step, emit, 0, counter.counts)

    def _count_matches(self, step: Step, prober: ByHash, emit: Emit, kinds: WindowKinds) -> int:
        partial = prober.partial
        counter = MatchCounter(self.stores, self._paths[step.id].stores, prober, emit, kinds)
        test = SetTest(step, partial)
        total = 0
        for _, bucket in self._buckets(step, partial):
            count, row = counter.open(bucket, test.sets, test.stored(bucket)), 0
            while row < len(partial) and not self._pruning.has_pruned(step):
                found, row = count(row)
                total += found
                self._counted_so_far(step, emit, found, counter.counts)
        return total

    def _counted_so_far(self, step: Step, emit: Emit, found: int, counts: I64) -> None:
        self.counts.step_out[step.id] += found
        self.ends.count(emit, counts)
        counts[:] = 0
        self._pruning.found(step, self.counts.step_out[step.id])

    def _sees(self, step: Step, info: BucketInfo) -> bool:
        """Whether a step probes a bucket: all those of earlier ticks, and of this one what its relation comes after."""
        return not self.order.is_new(info) or (info.made_by in step.sees if info.made_by else bool(step.sees))

    def _expand(self, step: Step, partial: PartialResults, found: Matches, test: SetTest) -> PartialResults:
        left, row = found.left[: found.count], found.row[: found.count]
        numbers = np.empty(found.count, np.int32)
        for begin, end, number, _ in found.segments:
            numbers[begin:end] = number
        new = len(partial.members)
        codes = {
            lookup: partial.codes[lookup].take(left) if lookup[0] < new else found.codes(lookup)
            for lookup in step.carry
        }
        return PartialResults(
            (*(refs.take(left) for refs in partial.members), Refs(numbers, row)),
            found.latest[: found.count],
            found.deadline[: found.count],
            codes,
            test.after(partial, found),
        )


def _wanted(tau: I64, due: tuple[int, int] | None, words: list[Words]) -> np.ndarray | None:
    """Which rows are due, and wanted by some group; None: all of them."""
    wanted = np.ones(len(tau), bool) if due is None else (tau >= due[0]) & (tau < due[1])
    if words:
        wanted &= np.any([each != 0 for each in words], axis=0)
    return None if wanted.all() else wanted


def paths_of_steps(starts: tuple[Start, ...]) -> dict[int, ProbePath]:
    """For each step the path up to and with the position that it adds."""
    found: dict[int, ProbePath] = {}

    def visit(steps: tuple[Step, ...], above: ProbePath) -> None:
        for step in steps:
            found[step.id] = ProbePath(above.relation, (*above.stores, step.store))
            visit(step.steps, found[step.id])

    for start in starts:
        visit(start.steps, ProbePath(start.relation, (start.stream,)))
    return found
