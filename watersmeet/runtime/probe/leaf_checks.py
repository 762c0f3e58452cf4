"""Leaf checks: which partial results have a partner in a leaf, by the query sets of the queries that ask.

What is checked is whether there is one, so that a partial result is done with as soon as all of its queries have found
theirs. All buckets of the leaf are read, wherever its rows are placed: what is absent must be absent everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from watersmeet.optimize.joingraph import NO_KEY, stream_of
from watersmeet.plan.ruleset import LeafCheck, Lookup, Step
from watersmeet.runtime.probe.first_partners import Region
from watersmeet.runtime.probe.matches import Matches
from watersmeet.runtime.probe.open_buckets import TickBuckets
from watersmeet.runtime.probe.partial_results import PartialResults, Refs
from watersmeet.runtime.probe.predicates import Tester
from watersmeet.runtime.probe.probers import ByHash, Prober, make_prober
from watersmeet.runtime.probe.referenced_rows import equal_values, key_values
from watersmeet.runtime.tick.orders import ProbeOrder
from watersmeet.store.bucket import Bucket
from watersmeet.store.codes import Codes
from watersmeet.store.existence import clear_found
from watersmeet.store.filters import Words, full_words
from watersmeet.store.kernels import I64

_find: Callable[..., None] = clear_found
Buckets = Iterable[tuple[int, Bucket]]


@dataclass(frozen=True)
class LeafStep:
    """A leaf check, and what it needs to know of the tick."""

    step: Step
    check: LeafCheck
    order: ProbeOrder
    stores: TickBuckets
    stored_in: tuple[str, ...]  # the store of each position, the leaf's last
    region: Region | None = None  # of new rows of the leaf, one of which has to be the first partner

    def candidates(self, partial: PartialResults) -> PartialResults:
        """The partial results inside the windows of the queries that are to be decided in this tick."""
        check = self.check
        ends = [
            self.stores.times(self.stored_in[position], partial.members[position], prefix) + window
            for (position, prefix), window in zip(check.members, check.windows, strict=True)
        ]
        times = [end - window for end, window in zip(ends, check.windows, strict=True)]
        latest, deadline = np.max(times, axis=0), np.min(ends, axis=0)
        chosen = latest <= deadline
        if check.decided:
            absences = self.order.absences
            members = [
                (stream_of(prefix.removesuffix(".")) if prefix else self.stored_in[position], time)
                for (position, prefix), time in zip(check.members, times, strict=True)
            ]
            chosen &= absences.decided(check.decided, deadline, members, check.before)
            if check.first is not None:  # a stored row: what a flush has decided comes by its watermark again
                chosen &= ~absences.decided(check.decided, deadline, members, before=True)
            if check.behind is not None:
                chosen &= latest >= absences.marks[check.decided][0] - check.behind
        if check.first is not None:
            chosen &= np.argmin(ends, axis=0) == check.first
        return replace(partial, latest=latest, deadline=deadline).take(np.flatnonzero(chosen))

    def passing(self, partial: PartialResults, buckets: Buckets, tester: Tester) -> PartialResults:
        """The partial results that some query wants, with the query sets of those that do."""
        (ask,) = self.step.groups
        asked = partial.sets.get(ask.group)
        if asked is None:
            asked = full_words([query for emit in self.step.emits for query in emit.queries], len(partial))
        open_ones = asked.copy()  # of each query set the bits for which no partner is found yet
        numbered = replace(partial, codes={**partial.codes, _ROW: Codes(np.arange(len(partial), dtype=np.int64))})
        prober = make_prober(self.step, numbered, tester)
        rows = prober.partial.codes[_ROW].values
        words = np.ascontiguousarray(open_ones[rows])
        seen = False
        for number, bucket in buckets:
            if not words.any():
                break
            stored = bucket.words(ask.block) if ask.block else np.empty(0, words.dtype)
            if isinstance(prober, ByHash) and not (self.step.tests or self.check.verify):
                self._look_up(prober, bucket, stored, self._preceding(prober.partial, number), words)
                if self.region is not None and number == self.region.bucket:
                    without = words.copy()
                    self._look_up(prober, bucket, stored, np.full(len(words), self.region.end, np.int64), without)
                    words, seen = words ^ without, True
                    break
            else:
                self._search(prober, (number, bucket), stored, words, tester)
        if self.region is not None and not seen:
            words[:] = 0  # no row of the region is near in time
        open_ones[rows] = words
        wanted = asked ^ open_ones if self.check.wants_partner and not self.check.precedes else open_ones
        left = np.flatnonzero(wanted)
        return replace(partial, sets={ask.group: wanted}).take(left)

    def _look_up(self, prober: ByHash, bucket: Bucket, stored: Words, limits: I64, words: Words) -> None:
        """The compiled way: keys that prove what joins the leaf. Of the bucket only so many rows count as `limits` has
        for each partial result."""
        index, partial = bucket.index(self.step.key), prober.partial
        where = (index.starts, index.order, index.codes.values, bucket.tau, stored, self.step.window)
        _find(prober.codes, partial.latest, partial.deadline, limits, *where, words)

    def _preceding(self, partial: PartialResults, number: int) -> I64:
        """How many rows of a bucket precede the row at position 0, or the region that it is of; empty: all count."""
        if not self.check.precedes:
            return np.empty(0, np.int64)
        if self.region is not None:
            same = number == self.region.bucket
            return np.full(len(partial), self.region.begin if same else np.iinfo(np.int64).max, np.int64)
        own = partial.members[0]
        before = np.where(own.bucket > number, np.iinfo(np.int64).max, 0)
        return np.where(own.bucket == number, own.row, before).astype(np.int64)

    def _search(
        self, prober: Prober, numbered: tuple[int, Bucket], stored: Words, words: Words, tester: Tester
    ) -> None:
        """The general way: pairs are found and tested."""
        number, bucket = numbered
        look = prober.open(bucket, words, stored)
        row, at = 0, -1
        while row < len(prober.partial):
            found = Matches(words.dtype)
            row, at = found.fill(number, bucket, look, row, at)
            left = found.left[: found.count]
            pairs = replace(
                _paired(prober.partial.take(left), found, number), codes={_ROW: Codes(left.astype(np.int64))}
            )
            pairs = self._partners(pairs, prober, tester)
            hit, sets = pairs.codes[_ROW].values, pairs.sets[_SETS]
            np.bitwise_and.at(words, hit, ~sets)

    def _partners(self, pairs: PartialResults, prober: Prober, tester: Tester) -> PartialResults:
        """The pairs of a partial result and a row of the leaf that pass all remaining tests."""
        if self.check.precedes:
            own, other = pairs.members[0], pairs.members[-1]
            earlier = (other.bucket < own.bucket) | ((other.bucket == own.bucket) & (other.row < own.row))
            pairs = pairs.take(np.flatnonzero(earlier))
        tests = prober.left_over()
        if tests:
            pairs = tester.passing(tests, pairs)
        for (position, prefix), outer, inner in self.check.verify:
            if not len(pairs):
                break
            mine = key_values(self.stores, self.stored_in[position], pairs.members[position], prefix, outer)
            theirs = key_values(self.stores, self.stored_in[-1], pairs.members[-1], "", inner)
            pairs = pairs.take(np.flatnonzero(equal_values(mine, theirs)))
        return pairs


_ROW: Lookup = (-1, NO_KEY)  # among the codes of partial results: their numbers
_SETS = "found"


def _paired(partial: PartialResults, found: Matches, number: int) -> PartialResults:
    refs = Refs(np.full(found.count, number, np.int32), found.row[: found.count])
    return PartialResults(
        (*partial.members, refs), partial.latest, partial.deadline, {}, {_SETS: found.sets[: found.count]}
    )
