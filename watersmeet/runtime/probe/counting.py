"""Last steps whose matches are only counted: nothing is made of a match but a number for each query.

Partial results with the same key find the same stored rows. Where there are many of both, they are two lists, and the
number of matches is the product of their lengths for each query: the lists are not multiplied out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from watersmeet.plan.ruleset import Emit, Step
from watersmeet.runtime.probe.open_buckets import TickBuckets
from watersmeet.runtime.probe.partial_results import PartialResults
from watersmeet.runtime.probe.probers import ByHash
from watersmeet.runtime.probe.window_kinds import WindowKinds
from watersmeet.store.bucket import Bucket, key_text
from watersmeet.store.counting import bits_of_lists, count_matches, count_products, slots_of_one_key
from watersmeet.store.filters import Words
from watersmeet.store.kernels import GOLDEN, I64, U8

Count = Callable[[int], tuple[int, int]]  # from a row on: matches found, and the row to continue with

SAMPLE = 1024  # partial results whose matches tell whether products pay for the others of a chunk
LONG = 4  # partial results for each key,
MANY = 32  # and stored rows for each partial result, from which on they do
_count_matches: Callable[..., tuple[int, int]] = count_matches
_count_products: Callable[..., tuple[int, int]] = count_products
BUDGET = 1 << 24  # stored rows that are read before the walk looks whether it is still wanted


def counted_end(step: Step, only_counts: Callable[[Emit], bool]) -> Emit | None:
    """The end of a step whose matches are only counted and need no further test; there is no other below it.

    `only_counts` says whether nothing but numbers is wanted by any query of an end."""
    if not step.key or step.tests or step.steps or step.materialized or len(step.emits) != 1 or len(step.groups) != 1:
        return None
    end = step.emits[0]
    return end if not end.verify and only_counts(end) else None


@dataclass(frozen=True)
class Lists:
    """Partial results that look for the same key: list i is bounds[i] to bounds[i + 1]."""

    codes: I64
    bounds: I64
    latest: I64
    deadline: I64
    sets: Words  # empty: all queries want all

    def __len__(self) -> int:
        return len(self.codes)


def divided(partial: PartialResults) -> tuple[PartialResults, PartialResults]:
    """A sample of the partial results, whose matches are counted first, and the others."""
    rows = np.arange(len(partial))
    return (
        (partial, partial.take(rows[:0]))
        if len(partial) <= SAMPLE
        else (partial.take(rows[:SAMPLE]), partial.take(rows[SAMPLE:]))
    )


def lists_of(prober: ByHash, sets: Words, matches: float) -> Lists | None:
    """Partial results by key; None where there are not enough of them, or of `matches` of each, to pay."""
    codes, partial = prober.codes, prober.partial
    if matches < MANY or not len(codes):
        return None
    # All partial results of some keys tell how long lists are, and sorting is left out if they are short.
    some = codes[(codes.astype(np.uint64) * GOLDEN) >> np.uint64(58) == 0]
    if len(some) < LONG * len(np.unique(some)):
        return None
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    begins = np.append(0, np.flatnonzero(codes[1:] != codes[:-1]) + 1)
    return Lists(
        codes[begins],
        np.append(begins, len(order)),
        partial.latest[order],
        partial.deadline[order],
        sets[order] if len(sets) else sets,
    )


class ProductCounter:
    """Counts what a last step finds for lists of partial results."""

    def __init__(self, step: Step, emit: Emit, lists: Lists) -> None:
        self.step = step
        self.lists = lists
        self.counts = np.zeros(64, np.int64)
        self._queries = len(emit.queries)
        self._numbers = np.zeros((len(lists), 64), np.int64)
        if len(lists.sets):
            bits_of_lists(lists.bounds, lists.sets, self._numbers)
        else:
            self._numbers[:, : self._queries] = np.diff(lists.bounds)[:, None]

    def open(self, bucket: Bucket, stored_sets: Words) -> Count:
        index, lists = bucket.index(self.step.key), self.lists
        before: tuple[Any, ...] = (lists.codes, lists.bounds, lists.latest, lists.deadline, lists.sets, self._numbers)
        stored = (index.starts, index.order, index.codes.values, bucket.tau, bucket.deadline, stored_sets)
        after: tuple[Any, ...] = (*stored, self.step.window, np.uint64((1 << self._queries) - 1))

        def count(at: int) -> tuple[int, int]:
            return _count_products(*before, at, BUDGET, *after, self.counts)

        return count


class MatchCounter:
    """Counts the matches of a chunk of partial results, bucket after bucket."""

    def __init__(
        self, stores: TickBuckets, stored_in: tuple[str, ...], prober: ByHash, emit: Emit, kinds: WindowKinds
    ) -> None:
        self.step = prober.step
        self.prober = prober
        self.kinds = kinds
        self.counts = np.zeros(64, np.int64)
        self._everyone = np.uint64((1 << len(emit.queries)) - 1)
        partial, last = prober.partial, len(stored_in) - 1
        earlier = [at for at, (position, _) in enumerate(emit.members) if position != last]
        self._inner = [(at, prefix) for at, (position, prefix) in enumerate(emit.members) if position == last]
        times = []
        for position, prefix in (emit.members[at] for at in earlier) if kinds.masks.size else ():
            alone = last == 1 and not prefix  # the row that arrived
            refs = partial.members[position]
            times.append(partial.latest if alone else stores.times(stored_in[position], refs, prefix))
        self._deadlines = kinds.deadlines(earlier if times else [], times, len(partial))
        # A step reads one store: its rows are one member, or those of a materialized row.
        self._windows = np.ascontiguousarray(kinds.windows[:, self._inner[0][0]])

    def open(self, bucket: Bucket, sets: Words, stored_sets: Words) -> Count:
        index = bucket.index_for(self.step.key, self.prober.codes)

        def of_one_key() -> U8:
            return slots_of_one_key(index.starts, index.order, index.codes.values)

        whole = bucket.has_index(self.step.key)  # otherwise it is of the rows that are looked for now
        name = f"slots of one key {key_text(self.step.key)}"
        pure = bucket.computed(name, of_one_key) if whole else of_one_key()
        partial = self.prober.partial
        before: tuple[Any, ...] = (self.prober.codes, partial.latest, partial.deadline, self._deadlines, sets)
        stored = (index.starts, index.order, pure, index.codes.values, bucket.tau, bucket.deadline)
        behind = (self._stored_deadlines(bucket), stored_sets, self.step.window, self._windows, self.kinds.masks)
        after: tuple[Any, ...] = (*stored, *behind, self._everyone)

        def count(row: int) -> tuple[int, int]:
            return _count_matches(*before, row, BUDGET, *after, self.counts)

        return count

    def _stored_deadlines(self, bucket: Bucket) -> I64:
        if not len(bucket.deadline) or not len(self.kinds):
            return np.empty((len(self.kinds), 0), np.int64)
        members = [member for member, _ in self._inner]

        def compute() -> I64:
            return self.kinds.deadlines(members, [bucket.times(prefix) for _, prefix in self._inner], len(bucket))

        return bucket.computed(f"deadlines {self._inner!r} {self.kinds.text}", compute)
