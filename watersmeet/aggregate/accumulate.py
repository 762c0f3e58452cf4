"""Accumulators of groups of rows: computed from their arguments, or combined from other accumulators.

Both give, for each group, the columns of the part as a slice store holds them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.aggregate.accumulator import Accumulator
from watersmeet.aggregate.grouping import RowGroups, ordered_codes, value_of
from watersmeet.aggregate.kernels import (
    add_digits,
    add_moments,
    add_ones,
    add_values,
    take_extremes,
)
from watersmeet.model.types import SHORT_DECIMAL_DIGITS, has_code
from watersmeet.store.codes import EVERY_ROW, fixed_width, fixed_width_words, whole_numbers
from watersmeet.store.kernels import I64, U8

_DIGIT = np.int64(0xFFFFFFFF)
FARTHEST = {"min": np.iinfo(np.int64).max, "max": np.iinfo(np.int64).min}  # what every value goes before


def accumulated(part: Accumulator, values: pa.Array | None, passing: U8, groups: RowGroups) -> list[pa.Array]:
    """The columns of an accumulator by group. `values` are its arguments, `passing` the rows that pass its filter."""
    valid = passing if values is None else _valid(values, passing)
    if part.function == "count":
        counts = np.zeros(len(groups), np.int64)
        add_ones(groups.ids, valid, counts)
        return [pa.array(counts)]
    assert values is not None
    if part.function == "sum":
        return _summed(part, values, valid, groups)
    if part.function == "moments":
        numbers = fixed_width(values.cast(pa.float64()), np.float64)
        ones, zeros = np.ones(len(numbers), np.int64), np.zeros(len(numbers))
        return _moments(ones, numbers, zeros, valid, groups)
    return [extremes(part.function, values, valid, groups)]


def combined_part(
    part: Accumulator, columns: Sequence[pa.Array], counts: pa.Array | None, groups: RowGroups
) -> list[pa.Array]:
    """The columns of an accumulator, combined from rows that have it already; `counts` are those of `part.counted`."""
    if part.function in ("count", "sum"):
        if columns[0].type == pa.float64():
            return [_added_doubles(columns[0], EVERY_ROW, groups)]
        added = [_added_integers(column, groups) for column in columns]
        return [pa.array(digit) for digit in normalized(added)]
    if part.function == "moments":
        assert counts is not None
        mean, m2 = (fixed_width(column, np.float64) for column in columns)
        return _moments(fixed_width(counts, np.int64), mean, m2, EVERY_ROW, groups)
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


def _summed(part: Accumulator, values: pa.Array, valid: U8, groups: RowGroups) -> list[pa.Array]:
    if not part.digits:
        return [_added_doubles(values.cast(pa.float64()), valid, groups)]
    digits = [np.zeros(len(groups), np.int64) for _ in range(part.digits)]
    if pa.types.is_decimal(values.type):
        words = fixed_width_words(values)
        halves = [np.ascontiguousarray(words[:, half]) for half in range(2)]
        add_digits(groups.ids, valid, halves[0], digits[0], digits[1])
        if values.type.precision > SHORT_DECIMAL_DIGITS:
            # The lower half has no sign: what add_digits takes for one is 2^32 of the next digit too little.
            negative = (halves[0] < 0).astype(np.int64)
            add_values(groups.ids, valid, negative << 32, digits[1])
            add_digits(groups.ids, valid, halves[1], digits[2], digits[3])
    elif part.digits == 1:
        add_values(groups.ids, valid, whole_numbers(values), digits[0])
    else:
        add_digits(groups.ids, valid, fixed_width(values, np.int64), digits[0], digits[1])
    return [pa.array(digit) for digit in normalized(digits)]


def _added_doubles(values: pa.Array, valid: U8, groups: RowGroups) -> pa.Array:
    added = np.zeros(len(groups))
    add_values(groups.ids, valid, fixed_width(values, np.float64), added)
    return pa.array(added)


def _added_integers(values: pa.Array, groups: RowGroups) -> I64:
    added = np.zeros(len(groups), np.int64)
    add_values(groups.ids, EVERY_ROW, fixed_width(values, np.int64), added)
    return added


def _moments(n: I64, mean: np.ndarray, m2: np.ndarray, valid: U8, groups: RowGroups) -> list[pa.Array]:
    made = np.zeros(len(groups), np.int64), np.zeros(len(groups)), np.zeros(len(groups))
    add_moments(groups.ids, valid, n, mean, m2, *made)
    return [pa.array(made[1]), pa.array(made[2])]


def extremes(function: str, values: pa.Array, valid: U8, groups: RowGroups) -> pa.Array:
    codes = ordered_codes(values)
    found = np.zeros(len(groups), np.int64)
    add_ones(groups.ids, valid, found)
    best = np.full(len(groups), FARTHEST[function])
    take_extremes(groups.ids, valid, codes, function == "max", best)
    if has_code(values.type):
        return value_of(best, found > 0, values.type)
    rows_with = np.flatnonzero(valid) if len(valid) else np.arange(len(codes))
    places = np.zeros(int(codes.max(initial=0)) + 1, np.int64)
    places[codes[rows_with]] = rows_with  # of each rank, a row that has the value
    chosen = pa.array(places[np.where(found > 0, best, 0)], mask=found == 0)
    return pc.take(values, chosen)
