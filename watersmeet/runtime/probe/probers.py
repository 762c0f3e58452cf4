"""How a step probes a bucket: by hash of a key, by a range of a sorted index, or by a scan of the window.

A prober is made for a chunk of partial results. It leaves out those that cannot find anything, and `open` gives the
compiled loop for one bucket, which fills output arrays and returns where to continue when they are full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from watersmeet.model.predicate import Program
from watersmeet.plan.ruleset import Bound, Range, Step, Test
from watersmeet.runtime.probe.partial_results import PartialResults
from watersmeet.runtime.probe.predicates import Numbers, Tester, fits, numbers_of, operands_of, renumbered
from watersmeet.store.blocks import probe_all, probe_range
from watersmeet.store.bucket import Bucket
from watersmeet.store.codes import EVERY_ROW, Codes, combine
from watersmeet.store.filters import Words
from watersmeet.store.kernels import probe
from watersmeet.store.programs import Arranged, arranged, computed

Look = Callable[..., tuple[int, int, int]]  # (row, position, *outputs) to (found, row, position)
_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_ROUNDING = 4e-15  # more than what a few operations on float64 lose, as a share of their operands


class Prober(Protocol):
    step: Step
    partial: PartialResults

    def open(self, bucket: Bucket, sets: Words, stored_sets: Words) -> Look: ...

    def left_over(self) -> tuple[Test, ...]:
        """The tests that the rows found so far may not have passed."""


def make_prober(step: Step, partial: PartialResults, tester: Tester) -> Prober:
    if step.key:
        return ByHash(step, partial)
    if step.range is not None:
        return _ByRange(step, step.range, partial)
    return _All(step, partial, tester)


def _look(
    prober: Prober,
    loop: Look,
    asked: tuple[Any, ...],
    bucket: Bucket,
    stored: tuple[np.ndarray, ...],
    sets: Words,
    stored_sets: Words,
) -> Look:
    """One of the compiled loops, with what it looks for and what it looks at."""
    partial = prober.partial
    before = (*asked, partial.latest, partial.deadline, sets)
    behind = (*stored, bucket.tau, bucket.deadline, stored_sets, prober.step.window)

    def look(row: int, at: int, *outputs: np.ndarray) -> tuple[int, int, int]:
        return loop(*before, row, at, *behind, *outputs)

    return look


class _ByIndex:
    """An index finds all that may match; which of the tests that proves is known when plans are made."""

    step: Step
    partial: PartialResults

    def left_over(self) -> tuple[Test, ...]:
        return self.step.tests


class ByHash(_ByIndex):
    def __init__(self, step: Step, partial: PartialResults) -> None:
        self.step = step
        key = combine([partial.codes[source] for source in step.sources])
        if len(key.valid):
            rows = np.flatnonzero(key.valid)
            partial, key = partial.take(rows), Codes(key.values[rows])
        self.partial = partial
        self.codes = np.ascontiguousarray(key.values)

    def open(self, bucket: Bucket, sets: Words, stored_sets: Words) -> Look:
        index = bucket.index_for(self.step.key, self.codes)
        stored = (index.starts, index.order, index.codes.values)
        return _look(self, probe, (self.codes,), bucket, stored, sets, stored_sets)


class _ByRange(_ByIndex):
    def __init__(self, step: Step, span: Range, partial: PartialResults) -> None:
        self.step = step
        self.span = span
        known = np.ones(len(partial), bool)
        for lookup in step.looked_up:
            if len(partial.codes[lookup].valid):
                known &= partial.codes[lookup].valid != 0
        self.partial = partial if known.all() else partial.take(np.flatnonzero(known))
        ends = _float_end if span.part.type == "double" else _whole_end
        (self.lows, none_above), (self.highs, none_below) = (
            ends(self.partial, span.lows, -1),
            ends(self.partial, span.highs, 1),
        )
        hopeless = none_above | none_below
        if hopeless.any():
            rows = np.flatnonzero(~hopeless)
            self.partial = self.partial.take(rows)
            self.lows, self.highs = (end[rows] if len(end) else end for end in (self.lows, self.highs))

    def open(self, bucket: Bucket, sets: Words, stored_sets: Words) -> Look:
        index = bucket.sorted_by(self.span.part)
        stored = (index.values, index.order)
        return _look(self, probe_range, (self.lows, self.highs), bucket, stored, sets, stored_sets)


def _whole_end(partial: PartialResults, bounds: tuple[Bound, ...], side: int) -> tuple[np.ndarray, np.ndarray]:
    """The narrowest of several ends of a range (side -1: of low ends), and for which rows no number is inside of it."""
    ends: list[np.ndarray] = []
    hopeless = np.zeros(len(partial), bool)
    for lookup, given in bounds:
        values, offset = partial.codes[lookup].values, max(_LEAST, min(_MOST, int(given)))
        moved = values + np.int64(offset)  # wraps around, which is seen by its going the wrong way
        above, below = (offset > 0) & (moved < values), (offset < 0) & (moved > values)
        ends.append(np.where(above, _MOST, np.where(below, _LEAST, moved)))
        hopeless |= above if side < 0 else below
    return _narrowest(ends, side, np.int64), hopeless


def _float_end(partial: PartialResults, bounds: tuple[Bound, ...], side: int) -> tuple[np.ndarray, np.ndarray]:
    """The same for numbers that are rounded: an end is moved outward by what rounding may have lost."""
    ends: list[np.ndarray] = []
    for lookup, offset in bounds:
        values = np.ascontiguousarray(partial.codes[lookup].values).view(np.float64)
        with np.errstate(all="ignore"):
            moved = values + offset
            slack = _ROUNDING * (np.abs(values) + abs(offset))
            # An end that is NaN is open: SQL has NaN above all numbers, which the test of the rows found respects.
            ends.append(np.where(np.isfinite(slack), moved + side * slack, moved))
    return _narrowest(ends, side, np.float64), np.zeros(len(partial), bool)


def _narrowest(ends: list[np.ndarray], side: int, dtype: type) -> np.ndarray:
    if not ends:
        return np.empty(0, dtype)
    return np.ascontiguousarray(np.max(ends, axis=0) if side < 0 else np.min(ends, axis=0))


class _All:
    """Looks at all rows in the window, with as many tests in the loop as have a program that fits the values."""

    def __init__(self, step: Step, partial: PartialResults, tester: Tester) -> None:
        self.step = step
        self.inner = len(partial.members)
        self.tests = [test for test in step.tests if test.theta.program]
        self.outer: dict[tuple[int, str], Numbers] = {}
        self._numbers: dict[tuple[Program, ...], np.ndarray] = {}
        self._left_over = {test: None for test in step.tests if not test.theta.program}
        needed = {operand for test in self.tests for operand in operands_of(test) if operand[0] != self.inner}
        self.partial = partial
        for operand in sorted(needed):
            self.outer[operand] = tester.fetch(partial, operand)
        known = np.ones(len(partial), bool)
        for test in self.tests:
            for operand in operands_of(test):
                if test.theta.strict and operand in self.outer and len(self.outer[operand].valid):
                    known &= self.outer[operand].valid != 0
        if not known.all():
            self.partial = partial.take(np.flatnonzero(known))
            self.outer = {operand: tester.fetch(self.partial, operand) for operand in sorted(needed)}

    def open(self, bucket: Bucket, sets: Words, stored_sets: Words) -> Look:
        outer, inner = list(self.outer), list[str]()
        program: list[tuple[str, float]] = []
        chosen: list[Test] = []
        for test in self.tests:
            operands = operands_of(test)
            numbers = [self.outer.get(operand) or numbers_of(bucket, operand[1]) for operand in operands]
            if not fits(test, numbers):
                self._left_over[test] = None
                continue
            inner += [column for position, column in operands if position == self.inner and column not in inner]
            chosen.append(test)
        for number, test in enumerate(chosen):
            places = [
                len(outer) + inner.index(column) if position == self.inner else outer.index((position, column))
                for position, column in operands_of(test)
            ]
            program += renumbered(test.theta.program, places)
            program += [("and", 0.0)] if number else []
        plan = arranged(tuple(program), len(outer)) if program else _NOTHING
        fixed = self._fixed(plan.fixed, outer)
        columns, valid = _in_time_order(bucket, tuple(inner), plan.columns, len(outer))
        asked = (plan.codes, plan.depth, fixed, columns, valid)
        return _look(self, probe_all, asked, bucket, (bucket.by_time(),), sets, stored_sets)

    def _fixed(self, programs: tuple[Program, ...], outer: list[tuple[int, str]]) -> np.ndarray:
        """What the loop needs of each partial result."""
        if programs not in self._numbers:
            values, rows = [self.outer[operand].values for operand in outer], len(self.partial)
            found = [computed(program, values, rows) for program in programs]
            self._numbers[programs] = np.stack(found, axis=1) if found else np.empty((rows, 0))
        return self._numbers[programs]

    def left_over(self) -> tuple[Test, ...]:
        return tuple(self._left_over)


_NOTHING = Arranged(np.empty((0, 3), np.int64), 1, (), ())


def _in_time_order(
    bucket: Bucket, names: tuple[str, ...], programs: tuple[Program, ...], first: int
) -> tuple[np.ndarray, np.ndarray]:
    """What the loop needs of each stored row, sorted by event time, and which rows have no NULL among the columns read.

    The operands of the programs from number `first` on are the columns of these names."""

    def compute() -> tuple[np.ndarray, np.ndarray]:
        order, numbers = bucket.by_time(), [numbers_of(bucket, name) for name in names]
        valid = EVERY_ROW
        for each in numbers:
            if len(each.valid):
                valid = each.valid & valid if len(valid) else each.valid
        operands = [np.empty(0)] * first + [each.values for each in numbers]
        found = [computed(program, operands, len(bucket)) for program in programs]
        columns = np.stack(found) if found else np.empty((0, len(bucket)))
        if len(order):
            columns, valid = np.ascontiguousarray(columns[:, order]), valid[order] if len(valid) else valid
        return columns, valid

    return bucket.computed(f"in time order {names!r} {programs!r} {first}", compute)
