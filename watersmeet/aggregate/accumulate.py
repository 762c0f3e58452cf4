"""Accumulators of groups of rows: computed from their arguments, or combined from other accumulators.

Both give, for each group, the columns of the part as a slice store holds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.aggregate.accumulator import Accumulator
from watersmeet.aggregate.grouping import RowGroups, ordered_codes, value_of
from watersmeet.aggregate.kernels import (
    add_digits,
    add_moments,
    add_values,
    take_extremes,
)
from watersmeet.model.expression import Expression
from watersmeet.model.types import SHORT_DECIMAL_DIGITS, has_code
from watersmeet.store.codes import EVERY_ROW, fixed_width, fixed_width_words, whole_numbers
from watersmeet.store.kernels import I64, U8

_DIGIT = np.int64(0xFFFFFFFF)
FARTHEST = {"min": np.iinfo(np.int64).max, "max": np.iinfo(np.int64).min}  # what every value goes before


class Accumulating:
    """The columns of accumulators by group. What several of them need is done once: the groups of the rows that pass a
    filter, and how many these are."""

    def __init__(
        self,
        groups: RowGroups,
        values: Mapping[Expression, pa.Array],
        passing: Mapping[Expression, U8] = MappingProxyType({}),
    ) -> None:
        """`values` are those of arguments, `passing` the rows that pass each filter."""
        self._groups, self._values, self._passing = groups, values, passing
        self._rows: dict[tuple[Expression | None, Expression | None], _Rows] = {}

    def of(self, part: Accumulator) -> list[pa.Array]:
        rows = self._rows_of(part)
        if part.function == "count":
            return [rows.counts]
        assert part.argument is not None
        values = self._values[part.argument]
        if part.function == "sum":
            return _summed(part, values, rows)
        if part.function == "moments":
            numbers = rows.chosen_of(fixed_width(values.cast(pa.float64()), np.float64))
            ones, zeros = np.ones(len(numbers), np.int64), np.zeros(len(numbers))
            return _moments(ones, numbers, zeros, rows.groups)
        return [_extremes(part.function, values, rows)]

    def _rows_of(self, part: Accumulator) -> _Rows:
        """Those that pass the filter of a part and have an argument."""
        values = None if part.argument is None else self._values[part.argument]
        without = part.argument if values is not None and values.null_count else None
        key = part.filter, without
        if key not in self._rows:
            valid = EVERY_ROW if part.filter is None else self._passing[part.filter]
            self._rows[key] = _Rows.of(self._groups, valid if without is None else _valid(values, valid))
        return self._rows[key]


@dataclass(frozen=True)
class _Rows:
    """Some rows of groups."""

    groups: RowGroups  # with the ids of these rows alone
    chosen: I64 | None  # None: all

    @classmethod
    def of(cls, groups: RowGroups, valid: U8) -> _Rows:
        if not len(valid):
            return cls(groups, None)
        chosen = np.flatnonzero(valid.view(bool))  # which takes a tenth of the time
        return cls(RowGroups(groups.ids[chosen], groups.first), chosen)

    def chosen_of(self, values: np.ndarray) -> np.ndarray:
        return values if self.chosen is None else values[self.chosen]

    @cached_property
    def counts(self) -> pa.Array:
        return pa.array(np.bincount(self.groups.ids, minlength=len(self.groups)))


def combined_part(
    part: Accumulator, columns: Sequence[pa.Array], counts: pa.Array | None, groups: RowGroups
) -> list[pa.Array]:
    """The columns of an accumulator, combined from rows that have it already; `counts` are those of `part.counted`."""
    if part.function in ("count", "sum"):
        if columns[0].type == pa.float64():
            return [_added_doubles(fixed_width(columns[0], np.float64), groups)]
        added = [_added_integers(column, groups) for column in columns]
        return [pa.array(digit) for digit in normalized(added)]
    if part.function == "moments":
        assert counts is not None
        mean, m2 = (fixed_width(column, np.float64) for column in columns)
        return _moments(fixed_width(counts, np.int64), mean, m2, groups)
    return [extremes(part.function, columns[0], _valid(columns[0], EVERY_ROW), groups)]


def normalized(digits: list[I64]) -> list[I64]:
    """The same number with all digits but the highest between 0 and 2^32 - 1."""
    for at in range(len(digits) - 1):
        digits[at + 1] += digits[at] >> 32
        digits[at] &= _DIGIT
    return digits


def _valid(values: pa.Array, passing: U8) -> U8:
    if not values.null_count:
        return passing
    known = np.asarray(values.is_valid()).astype(np.uint8)
    return known & passing if len(passing) else known


def _summed(part: Accumulator, values: pa.Array, rows: _Rows) -> list[pa.Array]:
    ids, groups = rows.groups.ids, len(rows.groups)
    if not part.digits:
        return [_added_doubles(rows.chosen_of(fixed_width(values.cast(pa.float64()), np.float64)), rows.groups)]
    digits = [np.zeros(groups, np.int64) for _ in range(part.digits)]
    if pa.types.is_decimal(values.type):
        words = rows.chosen_of(fixed_width_words(values))
        halves = [np.ascontiguousarray(words[:, half]) for half in range(2)]
        add_digits(ids, EVERY_ROW, halves[0], digits[0], digits[1])
        if values.type.precision > SHORT_DECIMAL_DIGITS:
            # The lower half has no sign: what add_digits takes for one is 2^32 of the next digit too little.
            negative = (halves[0] < 0).astype(np.int64)
            add_values(ids, EVERY_ROW, negative << 32, digits[1])
            add_digits(ids, EVERY_ROW, halves[1], digits[2], digits[3])
    elif part.digits == 1:
        add_values(ids, EVERY_ROW, rows.chosen_of(whole_numbers(values)), digits[0])
    else:
        add_digits(ids, EVERY_ROW, rows.chosen_of(fixed_width(values, np.int64)), digits[0], digits[1])
    return [pa.array(digit) for digit in normalized(digits)]


def _added_doubles(values: np.ndarray, groups: RowGroups) -> pa.Array:
    added = np.zeros(len(groups))
    add_values(groups.ids, EVERY_ROW, values, added)
    return pa.array(added)


def _added_integers(values: pa.Array, groups: RowGroups) -> I64:
    added = np.zeros(len(groups), np.int64)
    add_values(groups.ids, EVERY_ROW, fixed_width(values, np.int64), added)
    return added


def _moments(n: I64, mean: np.ndarray, m2: np.ndarray, groups: RowGroups) -> list[pa.Array]:
    made = np.zeros(len(groups), np.int64), np.zeros(len(groups)), np.zeros(len(groups))
    add_moments(groups.ids, EVERY_ROW, n, mean, m2, *made)
    return [pa.array(made[1]), pa.array(made[2])]


def extremes(function: str, values: pa.Array, valid: U8, groups: RowGroups) -> pa.Array:
    return _extremes(function, values, _Rows.of(groups, valid))


def _extremes(function: str, values: pa.Array, rows: _Rows) -> pa.Array:
    codes = rows.chosen_of(ordered_codes(values))
    known = np.asarray(rows.counts) > 0
    best = np.full(len(rows.groups), FARTHEST[function])
    take_extremes(rows.groups.ids, EVERY_ROW, codes, function == "max", best)
    if has_code(values.type):
        return value_of(best, known, values.type)
    places = np.zeros(int(codes.max(initial=0)) + 1, np.int64)
    places[codes] = np.arange(len(codes)) if rows.chosen is None else rows.chosen  # of each rank, a row that has it
    chosen = pa.array(places[np.where(known, best, 0)], mask=~known)
    return pc.take(values, chosen)
