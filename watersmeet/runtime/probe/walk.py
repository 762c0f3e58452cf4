"""Walking the probe trees: new rows in, complete results out. Knows buckets and rules, but not Spark.

Between steps a partial result is only row references, two scalars for the window test and the codes that
later steps look up. Rows go through in chunks of bounded size, depth first, so the memory of a task does
not grow with the tick or with the number of matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from watersmeet.home.counters import Counters
from watersmeet.home.manifest import BucketInfo
from watersmeet.plan.ruleset import Emit, Keep, Lookup, Start, Step
from watersmeet.runtime.probe.predicates import Tester
from watersmeet.runtime.probe.probers import Look, Prober, make_prober
from watersmeet.runtime.tick.orders import ProbeOrder
from watersmeet.runtime.udf.predicate_calls import Calls
from watersmeet.store.bucket import Bucket, Derived
from watersmeet.store.codes import EVERY_ROW, Codes
from watersmeet.store.filters import Block, Words, all_bits, fold, word_type
from watersmeet.store.kernels import I32, I64, partition_of

ROWS_IN = 1 << 16
ROWS_OUT = 1 << 17


@dataclass(frozen=True)
class Refs:
    """Rows of one store: for each, the number of its bucket in the tick's list and its place in there."""

    bucket: I32
    row: I32

    def take(self, rows: np.ndarray) -> Refs:
        return Refs(self.bucket[rows], self.row[rows])


@dataclass(frozen=True)
class Partial:
    members: tuple[Refs, ...]
    latest: I64
    deadline: I64
    codes: dict[Lookup, Codes]
    sets: dict[str, Words]  # by group; one that is not here has all its bits

    def __len__(self) -> int:
        return len(self.latest)

    def take(self, rows: np.ndarray) -> Partial:
        return Partial(
            tuple(refs.take(rows) for refs in self.members),
            self.latest[rows],
            self.deadline[rows],
            {lookup: codes.take(rows) for lookup, codes in self.codes.items()},
            {group: words[rows] for group, words in self.sets.items()},
        )


class Ends(Protocol):
    """Takes what has reached the end of a path: results of a query, or rows of a materialized store."""

    def __call__(self, end: Emit | Keep, partial: Partial, start: Start) -> None: ...


class OpenBuckets:
    """The open buckets of one engine in one process: opened when first touched, kept for the ticks that follow."""

    def __init__(self) -> None:
        self._open: dict[str, Bucket] = {}
        self._version = ""  # of the plan that they were used for

    def begin(self, order: ProbeOrder) -> None:
        """Close what no tick names any more, and what another plan has derived and this one does not ask for."""
        named = {info.file for infos in order.buckets.values() for info in infos}
        for file in [file for file in self._open if file not in named]:
            del self._open[file]
        if self._version != order.rules.version:
            self._version = order.rules.version
            rules = {rule.name: rule for rule in order.rules.stores}
            for info in (info for infos in order.buckets.values() for info in infos if info.file in self._open):
                rule = rules[info.store]
                self._open[info.file].forget(Derived(rule.keys, rule.blocks, rule.sorted_by))

    def get(self, home: Path, info: BucketInfo) -> Bucket:
        found = self._open.get(info.file)
        if found is None:
            found = self._open[info.file] = Bucket.open(home, info)
        return found


class Stores:
    """The buckets of a tick, by store."""

    def __init__(self, order: ProbeOrder, opened: OpenBuckets) -> None:
        self.home = Path(order.home)
        self.infos = order.buckets
        self._opened = opened
        opened.begin(order)

    def bucket(self, info: BucketInfo) -> Bucket:
        return self._opened.get(self.home, info)

    def at(self, store: str, number: int) -> Bucket:
        return self.bucket(self.infos[store][number])

    def gather(self, store: str, refs: Refs, read: Callable[[Bucket], np.ndarray], dtype: type) -> np.ndarray:
        """One value for each reference, from the array that `read` finds in a bucket."""
        out: np.ndarray = np.empty(len(refs.row), dtype)
        for number in np.flatnonzero(np.bincount(refs.bucket)):
            chosen = refs.bucket == number
            out[chosen] = read(self.at(store, int(number)))[refs.row[chosen]]
        return out


class Walk:
    """One task's walk. `place` limits it to the buckets of one partition; None sees them all."""

    def __init__(self, order: ProbeOrder, stores: Stores, ends: Ends, place: int | None = None) -> None:
        self.order = order
        self.stores = stores
        self.ends = ends
        self.place = place
        self.counts = Counters()
        self.number = {info.file: at for infos in order.buckets.values() for at, info in enumerate(infos)}
        self.calls = Calls(off=set(order.off))
        self._stored_in = stores_of_steps(order.starts)
        # Stores with buckets from an earlier layout: their rows may be in any place, so probes go to all.
        self._mixed = {
            rule.name
            for rule in order.rules.stores
            if any(not self._placed(info) for info in order.buckets.get(rule.name, ()))
        }

    def arrivals(self, start: Start, info: BucketInfo, begin: int, end: int) -> Iterator[Partial]:
        """The rows of a new bucket as partial results of one member, in chunks."""
        bucket = self.stores.bucket(info)
        blocks = {ask.group: bucket.words(ask.block) for ask in start.groups if ask.block}
        choosy = len(blocks) == len(start.groups)  # otherwise some group wants every row
        for at in range(begin, end, ROWS_IN):
            rows = np.arange(at, min(at + ROWS_IN, end), dtype=np.int32)
            if choosy:
                wanted = np.zeros(len(rows), bool)
                for words in blocks.values():
                    wanted |= words[rows] != 0
                rows = rows[wanted]
            if not len(rows):
                continue
            tau = bucket.tau[rows]
            refs = Refs(np.full(len(rows), self.number[info.file], np.int32), rows)
            codes = {lookup: bucket.codes((lookup[1],)).take(rows) for lookup in start.carry}
            sets = {group: words[rows] for group, words in blocks.items()}
            yield Partial((refs,), tau, tau + start.window, codes, sets)

    def follow(self, start: Start, partial: Partial) -> None:
        """Everything that begins with these rows, to the end. Only where all stores are in reach (P = 1)."""
        for emit in start.emits:
            self.ends(emit, partial, start)
        for step in start.steps:
            self.descend(step, partial, start)

    def descend(self, step: Step, partial: Partial, start: Start) -> None:
        for found in self.step(step, partial):
            for end in step.ends:
                self.ends(end, found, start)
            for below in step.steps:
                self.descend(below, found, start)

    def targets(self, step: Step, partial: Partial) -> list[np.ndarray] | None:
        """For each place the rows that must go there; None where each row must go to all."""
        rule = self.order.rules.store(step.store)
        layout = rule.layout
        everywhere = layout not in step.key if layout else len(rule.places) == self.order.rules.partitions
        if everywhere or step.store in self._mixed:
            return None
        if layout is None:
            every, none = np.arange(len(partial)), np.empty(0, np.int64)
            return [every if place in rule.places else none for place in range(self.order.rules.partitions)]
        codes = partial.codes[step.sources[step.key.index(layout)]]
        place = partition_of(np.ascontiguousarray(codes.values), self.order.rules.partitions)
        if len(codes.valid):
            place[codes.valid == 0] = -1
        return [np.flatnonzero(place == number) for number in range(self.order.rules.partitions)]

    def stays(self, start: Start, step: Step, info: BucketInfo) -> bool:
        """Whether all rows of a bucket find their partners of a first step in the place where they are stored."""
        own, layout = self.order.rules.store(start.stream).layout, self.order.rules.store(step.store).layout
        if own is None or layout is None or layout not in step.key or step.store in self._mixed:
            return False
        return self._placed(info) and step.sources[step.key.index(layout)] == (0, own)

    def step(self, step: Step, partial: Partial) -> Iterator[Partial]:
        """The partial results that one probe makes, in chunks."""
        self.counts.step_in[step.id] += len(partial)
        if not len(partial):
            return
        tester = Tester(self.stores, self._stored_in[step.id], self.calls)
        prober = make_prober(step, partial, tester)
        for pairs in self._probe(step, prober):
            tests = prober.left_over()
            found = tester.passing(tests, pairs) if tests else pairs
            self.counts.step_out[step.id] += len(found)
            if len(found):
                yield found
        for failed in tester.failures.values():
            for query in self.order.rules.queries_of(step):
                self.counts.failed_values[query] += failed

    def _probe(self, step: Step, prober: Prober) -> Iterator[Partial]:
        partial = prober.partial
        if not len(partial):
            return
        earliest, last = int(partial.latest.min()) - step.window, int(partial.deadline.max())
        test = _SetTest(step, partial)
        found = _Matches(test.sets.dtype)
        for number, info in enumerate(self.stores.infos.get(step.store, ())):
            if not self._reaches(step, number, info) or info.tau_max < earliest or info.tau_min > last:
                continue
            bucket = self.stores.bucket(info)
            look = prober.open(bucket, test.sets, test.stored(bucket))
            row, at = 0, -1
            while row < len(partial):
                row, at = found.fill(number, bucket, look, row, at)
                if found.is_full:
                    yield self._expand(step, partial, found, test)
                    found = _Matches(test.sets.dtype)
        if found.count:
            yield self._expand(step, partial, found, test)

    def _placed(self, info: BucketInfo) -> bool:
        return info.layout == self.order.rules.layout_text(info.store)

    def _reaches(self, step: Step, number: int, info: BucketInfo) -> bool:
        if self.place is not None:
            place = info.partition if self._placed(info) else number % self.order.rules.partitions
            if place != self.place:
                return False
        return not self.order.is_new(info) or (info.made_by in step.sees if info.made_by else bool(step.sees))

    def _expand(self, step: Step, partial: Partial, found: _Matches, test: _SetTest) -> Partial:
        left, row = found.left[: found.count], found.row[: found.count]
        numbers = np.empty(found.count, np.int32)
        for begin, end, number, _ in found.segments:
            numbers[begin:end] = number
        new = len(partial.members)
        codes = {
            lookup: partial.codes[lookup].take(left) if lookup[0] < new else found.codes(lookup)
            for lookup in step.carry
        }
        return Partial(
            (*(refs.take(left) for refs in partial.members), Refs(numbers, row)),
            found.latest[: found.count],
            found.deadline[: found.count],
            codes,
            test.after(partial, found),
        )


def stores_of_steps(starts: tuple[Start, ...]) -> dict[int, tuple[str, ...]]:
    """For each step the stores of the positions up to and with the one that it adds."""
    found: dict[int, tuple[str, ...]] = {}

    def visit(steps: tuple[Step, ...], above: tuple[str, ...]) -> None:
        for step in steps:
            found[step.id] = (*above, step.store)
            visit(step.steps, found[step.id])

    for start in starts:
        visit(start.steps, (start.stream,))
    return found


class _SetTest:
    """Which pairs of a partial result and a stored row some query wants: those whose query sets have a common bit.

    With one group below a step the words are compared as they are. With several it is compared which groups are left
    on both sides, and each group's word is cut after the probe."""

    def __init__(self, step: Step, partial: Partial) -> None:
        self.asks = step.groups
        self.concerned = [ask for ask in self.asks if ask.block or ask.group in partial.sets]
        self.single = len(self.asks) == 1
        # A group that neither side asks anything for wants every pair: there is nothing to test.
        self.used = len(self.concerned) == len(self.asks)
        self.sets: Words = EVERY_ROW
        if not self.used:
            return
        if self.single:
            (ask,) = self.asks
            self.sets = partial.sets[ask.group] if ask.group in partial.sets else _full(ask.block, len(partial))
        else:
            self.sets = fold([partial.sets.get(ask.group) for ask in self.asks], len(partial))

    def stored(self, bucket: Bucket) -> Words:
        if not self.used or not any(ask.block for ask in self.asks):
            return np.empty(0, self.sets.dtype)
        return bucket.words(self.asks[0].block) if self.single else bucket.folded(tuple(a.block for a in self.asks))

    def after(self, partial: Partial, found: _Matches) -> dict[str, Words]:
        """The words of the matches, by group."""
        if self.single and self.used:
            return {self.asks[0].group: found.sets[: found.count]}
        left = found.left[: found.count]
        sets = {}
        for ask in self.concerned:
            if not ask.block:
                sets[ask.group] = partial.sets[ask.group][left]
                continue
            stored = [bucket.words(ask.block)[found.row[begin:end]] for begin, end, _, bucket in found.segments]
            words = np.concatenate(stored)
            sets[ask.group] = words & partial.sets[ask.group][left] if ask.group in partial.sets else words
        return sets


def _full(block: Block, rows: int) -> Words:
    return np.full(rows, all_bits(block), word_type(block))


class _Matches:
    """Output arrays of the probe loop, filled bucket after bucket."""

    def __init__(self, word: np.dtype) -> None:
        self.sets = np.empty(ROWS_OUT, word)
        self.left, self.row = np.empty(ROWS_OUT, np.int32), np.empty(ROWS_OUT, np.int32)
        self.latest, self.deadline = np.empty(ROWS_OUT, np.int64), np.empty(ROWS_OUT, np.int64)
        self.count = 0
        self.segments: list[tuple[int, int, int, Bucket]] = []  # (begin, end, bucket number, bucket)

    @property
    def is_full(self) -> bool:
        return self.count == ROWS_OUT

    def fill(self, number: int, bucket: Bucket, look: Look, row: int, at: int) -> tuple[int, int]:
        outputs = (self.left, self.row, self.latest, self.deadline, self.sets)
        found, row, at = look(row, at, *(output[self.count :] for output in outputs))
        if found:
            self.segments.append((self.count, self.count + found, number, bucket))
            self.count += found
        return row, at

    def codes(self, lookup: Lookup) -> Codes:
        parts = [bucket.codes((lookup[1],)).take(self.row[begin:end]) for begin, end, _, bucket in self.segments]
        values = np.concatenate([part.values for part in parts])
        if not any(len(part.valid) for part in parts):
            return Codes(values)
        valid = [part.valid if len(part.valid) else np.ones(len(part.values), np.uint8) for part in parts]
        return Codes(values, np.concatenate(valid))
