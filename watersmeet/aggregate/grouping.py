"""RowGroups of equal keys, exact for every type that SQL can group by.

Keys are compared as Spark compares them in GROUP BY: NULL equals NULL, NaN equals NaN, and -0.0 equals 0.0 (and is
shown as 0.0). A column becomes int64 codes that are equal where the values are: numbers, dates, times and short
decimals are their own codes, all others get the numbers of their distinct values.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.aggregate.kernels import number_groups, number_small
from watersmeet.model.types import SHORT_DECIMAL_DIGITS, has_code, type_of_arrow
from watersmeet.store.codes import encode, fixed_width, fixed_width_words, one_pattern, whole_numbers
from watersmeet.store.kernels import I64

_SMALL = 1 << 16  # a table of so many cells is made for any number of rows


class RowGroups(NamedTuple):
    ids: I64  # for each row the number of its group
    first: I64  # for each group its first row

    def __len__(self) -> int:
        return len(self.first)


def grouped(columns: Sequence[I64]) -> RowGroups:
    """Rows with equal codes in all columns are a group; groups are numbered in the order in which they appear."""
    rows = len(columns[0])
    if not rows:
        return RowGroups(np.empty(0, np.int64), np.empty(0, np.int64))
    ranges = [(int(codes.min()), int(codes.max())) for codes in columns]
    varying = [(codes, low, high - low + 1) for codes, (low, high) in zip(columns, ranges, strict=True) if high > low]
    size = prod(length for _, _, length in varying)
    if size > max(_SMALL, 2 * rows):
        return RowGroups(*number_groups(np.stack([codes for codes, _, _ in varying])))
    cells = np.zeros(rows, np.int64)  # one small number for each combination of codes
    for codes, low, length in varying:
        cells = cells * length + (codes - low)
    return RowGroups(*number_small(cells, size))


def key_codes(values: pa.Array) -> list[I64]:
    """The codes of a column; if it has NULLs there is a second column, which tells them from all values."""
    kind = values.type
    short = pa.types.is_decimal(kind) and kind.precision <= SHORT_DECIMAL_DIGITS
    if not short and (pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_decimal(kind)):
        numbered = pc.dictionary_encode(values, null_encoding="encode").indices
        return [fixed_width(numbered, np.int32).astype(np.int64)]
    codes = encode(values, type_of_arrow(kind))
    if not len(codes.valid):
        return [codes.values]
    return [np.where(codes.valid != 0, codes.values, 0), codes.valid.astype(np.int64)]


def as_key(values: pa.Array) -> pa.Array:
    """The values as they are shown when they are keys."""
    if pa.types.is_floating(values.type):
        return pc.add(values, pa.scalar(0.0, values.type))
    return values


def ordered_codes(values: pa.Array) -> I64:
    """int64s in the order of the values as MIN, MAX and ORDER BY have it; those of NULLs mean nothing.

    `value_of` turns the codes of fixed types back. The codes of others are ranks among the values at hand."""
    kind = values.type
    if not has_code(kind):
        return _ranks(values)
    if pa.types.is_floating(kind):
        return _sortable(fixed_width(values.cast(pa.float64()), np.float64))
    if pa.types.is_decimal(kind):
        return np.ascontiguousarray(fixed_width_words(values)[:, 0])
    return whole_numbers(values)


def value_of(codes: I64, valid: np.ndarray, kind: pa.DataType) -> pa.Array:
    """The values of codes of a fixed type, NULL where they are not valid."""
    codes, missing = np.where(valid, codes, 0), ~valid
    if pa.types.is_decimal(kind):
        return decimals(codes, codes >> 63, kind, valid)
    if pa.types.is_floating(kind):
        numbers = (codes ^ ((codes >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))).view(np.float64)
        return pa.array(numbers, pa.float64(), mask=missing).cast(kind)
    if pa.types.is_boolean(kind):
        return pa.array(codes != 0, kind, mask=missing)
    narrow = np.dtype(f"i{kind.bit_width // 8}")
    return pa.array(codes.astype(narrow), pa.from_numpy_dtype(narrow), mask=missing).view(kind)


def decimals(low: np.ndarray, high: np.ndarray, kind: pa.DataType, valid: np.ndarray) -> pa.Array:
    words = np.stack((low, high), axis=1)
    validity = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(low), [validity, pa.py_buffer(words)])


def _sortable(numbers: np.ndarray) -> I64:
    bits = one_pattern(numbers).view(np.int64)  # that of NaN is above that of infinity
    return np.asarray(bits ^ ((bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF)))


def _ranks(values: pa.Array) -> I64:
    encoded = pc.dictionary_encode(values)
    order = np.asarray(pc.sort_indices(encoded.dictionary))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    if not len(order):
        return np.zeros(len(values), np.int64)
    found: I64 = ranks[fixed_width(encoded.indices.fill_null(0), np.int32)]
    return found
