"""Tests of predicates other than equalities, on rows that are only known by reference.

A test with a program runs as one wherever float64 gives SQL's result for the values at hand (see store/programs.py);
other tests are evaluated by DuckDB in blocks, and registered predicates by calling them. A test that is NULL or cannot
be computed is false.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model import member_column
from watersmeet.model.predicate import LEFT, RIGHT, Program, Registered
from watersmeet.plan.ruleset import Test, kept_name
from watersmeet.runtime.probe.open_buckets import TickBuckets
from watersmeet.runtime.probe.partial_results import PartialResults, Refs
from watersmeet.runtime.probe.referenced_rows import RowPlacement
from watersmeet.runtime.udf.predicate_calls import Calls
from watersmeet.store.bucket import Bucket
from watersmeet.store.codes import EVERY_ROW, fixed_width
from watersmeet.store.evaluate import evaluate
from watersmeet.store.kernels import U8
from watersmeet.store.programs import EXACT, computed, is_safe

Operand = tuple[int, str]  # position, and the name of the column in the store there


class Numbers(NamedTuple):
    """A column as float64. It is not `usable` if that changes a value or how it compares: 2⁵³ + 1, NaN, ∞."""

    values: np.ndarray
    valid: U8
    low: float
    high: float
    usable: bool


def operands_of(test: Test) -> list[Operand]:
    """What a program's operands stand for: the columns of the left row, then those of the right one."""
    sides = ((test.left, test.theta.left), (test.right, test.theta.right))
    return [(position, kept_name(prefix, part)) for (position, prefix), parts in sides for part in parts]


def numbers_of(bucket: Bucket, column: str) -> Numbers:
    """A column of a bucket as numbers."""
    return bucket.computed(column, lambda: _numbers(bucket.rows.column(column)))


def _numbers(column: pa.Array) -> Numbers:
    width = column.type.bit_width // 8
    floating = pa.types.is_floating(column.type)
    raw = fixed_width(column, np.dtype(f"{'f' if floating else 'i'}{width}"))
    valid = EVERY_ROW
    if column.null_count:
        valid = np.asarray(column.is_valid()).astype(np.uint8)
        raw = np.where(valid != 0, raw, raw.dtype.type(0))  # the slot of a NULL may hold anything
    return _described(raw.astype(np.float64), valid)


def _described(values: np.ndarray, valid: U8) -> Numbers:
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    finite = bool(np.isfinite(low) and np.isfinite(high))  # a NaN is the least and the largest
    whole = max(-low, high) < EXACT  # 2⁵³ may have been 2⁵³ + 1
    return Numbers(values, valid, low, high, finite and whole)


def fits(test: Test, numbers: list[Numbers]) -> bool:
    """Whether the program of a test answers as SQL does, for operands like these."""
    if not all(each.usable for each in numbers):
        return False
    if not test.theta.strict and any(len(each.valid) for each in numbers):
        return False
    return is_safe(test.theta.program, [each.low for each in numbers], [each.high for each in numbers])


def renumbered(program: Program, places: list[int]) -> Program:
    """The program for operands that stand elsewhere."""
    return tuple((name, float(places[int(arg)]) if name == "row" else arg) for name, arg in program)


class Tester:
    """Fetches what tests read, for the partial results of one path. `stored_in` names the store of each position."""

    def __init__(self, stores: TickBuckets, stored_in: tuple[str, ...], calls: Calls) -> None:
        self.calls = calls
        self.stores = stores
        self.stored_in = stored_in
        self.failures: dict[Test, int] = {}

    def fetch(self, partial: PartialResults, operand: Operand) -> Numbers:
        position, column = operand
        refs, store = partial.members[position], self.stored_in[position]
        values = self.stores.gather(store, refs, lambda bucket: numbers_of(bucket, column).values, np.float64)
        valid = self._gather_valid(store, refs, column)
        return _described(values, valid)

    def _gather_valid(self, store: str, refs: Refs, column: str) -> U8:
        known = [numbers_of(self.stores.at(store, int(at)), column) for at in np.flatnonzero(np.bincount(refs.bucket))]
        if not any(len(each.valid) for each in known):
            return EVERY_ROW

        def read(bucket: Bucket) -> np.ndarray:
            valid = numbers_of(bucket, column).valid
            return valid if len(valid) else np.ones(len(bucket), np.uint8)

        return self.stores.gather(store, refs, read, np.uint8)

    def passing(self, tests: tuple[Test, ...], partial: PartialResults) -> PartialResults:
        """The partial results of which all tests are true; the cheap ones are tried first."""
        for test in sorted(tests, key=lambda test: (test.theta.function is not None, not test.theta.program)):
            if not len(partial):
                break
            passed = self._passed(test, partial)
            if not passed.all():
                partial = partial.take(np.flatnonzero(passed))
        return partial

    def _passed(self, test: Test, partial: PartialResults) -> np.ndarray:
        if test.theta.program:
            numbers = [self.fetch(partial, operand) for operand in operands_of(test)]
            if fits(test, numbers):
                return run_program(test.theta.program, numbers)
        if test.theta.function is not None:
            return self._passed_by_call(test, test.theta.function, partial)
        return self._passed_by_sql(test, partial)

    def _passed_by_call(self, test: Test, function: Registered, partial: PartialResults) -> np.ndarray:
        given = evaluate(self._columns(test, partial), [each.text for each in test.theta.arguments]).values
        called = self.calls.call(function, given)
        if called.failed:
            self.failures[test] = self.failures.get(test, 0) + called.failed
        return called.passed

    def _passed_by_sql(self, test: Test, partial: PartialResults) -> np.ndarray:
        done = evaluate(self._columns(test, partial), [test.theta.text])
        if done.failures[0]:
            self.failures[test] = self.failures.get(test, 0) + done.failures[0]
        return np.asarray(pc.fill_null(done.values[0].cast(pa.bool_()), False))

    def _columns(self, test: Test, partial: PartialResults) -> pa.Table:
        """What the SQL of a test reads, under the names that it uses."""
        columns: dict[str, pa.ChunkedArray] = {}
        for row, (position, prefix), parts in (
            (LEFT, test.left, test.theta.left),
            (RIGHT, test.right, test.theta.right),
        ):
            names = [kept_name(prefix, part) for part in parts]
            if names:
                table = RowPlacement(partial.members[position]).columns(self.stores, self.stored_in[position], names)
                columns |= {
                    member_column(row, part.name): table.column(name) for part, name in zip(parts, names, strict=True)
                }
        return pa.table(columns)


def run_program(program: Program, numbers: list[Numbers]) -> np.ndarray:
    passed = computed(program, [each.values for each in numbers], len(numbers[0].values)) != 0.0
    for each in numbers:
        if len(each.valid):
            passed &= each.valid != 0
    return np.asarray(passed)
