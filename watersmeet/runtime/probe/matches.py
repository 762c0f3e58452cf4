"""What one probe finds: output arrays of bounded size, and which queries want each match."""

from __future__ import annotations

import numpy as np

from watersmeet.plan.ruleset import Lookup, Step
from watersmeet.runtime.probe.partial_results import PartialResults
from watersmeet.runtime.probe.probers import Look
from watersmeet.store.bucket import Bucket
from watersmeet.store.codes import EVERY_ROW, Codes
from watersmeet.store.filters import Words, fold, full_words

ROWS_OUT = 1 << 17


class SetTest:
    """Which pairs of a partial result and a stored row some query wants: those whose query sets have a common bit.

    With one group below a step the words are compared as they are. With several it is compared which groups are left
    on both sides, and each group's word is cut after the probe."""

    def __init__(self, step: Step, partial: PartialResults) -> None:
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
            self.sets = partial.sets[ask.group] if ask.group in partial.sets else full_words(ask.block, len(partial))
        else:
            self.sets = fold([partial.sets.get(ask.group) for ask in self.asks], len(partial))

    def stored(self, bucket: Bucket) -> Words:
        if not self.used or not any(ask.block for ask in self.asks):
            return np.empty(0, self.sets.dtype)
        return bucket.words(self.asks[0].block) if self.single else bucket.folded(tuple(a.block for a in self.asks))

    def after(self, partial: PartialResults, found: Matches) -> dict[str, Words]:
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


class Matches:
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
