"""Partials as the last step of a query reads them, made of the parts of a slice store."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.accumulator import Accumulator
from watersmeet.aggregate.grouping import decimals
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.model.forms import PartialAggregate
from watersmeet.model.types import arrow_type
from watersmeet.store.codes import fixed_width
from watersmeet.store.kernels import I64

_HALF = 1 << 64


def partial_columns(store: SliceStore, partial: PartialAggregate, rows: pa.RecordBatch) -> list[pa.Array]:
    """The columns that `partial.columns` names. A sum that its type does not hold is NULL."""
    part = Accumulator(partial.function, partial.argument, partial.filter)
    own = [rows.column(name) for name in store.columns_of(part)]
    if partial.function == "count":
        return own
    counts = fixed_width(rows.column(store.columns_of(part.counted)[0]), np.int64)
    if partial.function == "moments":
        return [pa.array(counts.astype(np.float64)), *own]
    if partial.function in ("min", "max"):
        return own
    kind = arrow_type(partial.type)
    if not part.digits:
        return [pa.array(fixed_width(own[0], np.float64), mask=counts == 0).cast(kind)]
    return [of_digits([fixed_width(column, np.int64) for column in own], counts > 0, kind)]


def of_digits(digits: list[I64], known: np.ndarray, kind: pa.DataType) -> pa.Array:
    """The numbers of normalized digits as decimals, integers or doubles; NULL where a type does not hold them."""
    if pa.types.is_floating(kind):
        total = sum(digit.astype(np.float64) * 2.0 ** (32 * at) for at, digit in enumerate(digits))
        return pa.array(total, mask=~known).cast(kind)
    if len(digits) == 1:
        low, high, fits = digits[0], digits[0] >> 63, known
    elif len(digits) == 2:
        low, high, fits = (digits[1] << 32) | digits[0], digits[1] >> 32, known
    else:
        low, high = (digits[1] << 32) | digits[0], (digits[3] << 32) | digits[2]
        fits = known & (digits[3] == digits[3].astype(np.int32))
    return of_words(low, high, fits, kind)


def of_words(low: I64, high: I64, known: np.ndarray, kind: pa.DataType) -> pa.Array:
    """The numbers of 128 bits as decimals or integers; NULL where a type does not hold them."""
    if pa.types.is_integer(kind):
        fits = known & (high == low >> 63)
        return pa.array(low, pa.int64(), mask=~fits).cast(kind)
    fits = known & _below(low, high, 10**kind.precision) & ~_below(low, high, 1 - 10**kind.precision)
    return decimals(low, high, kind, fits)


def _below(low: I64, high: I64, limit: int) -> np.ndarray:
    """Which of the numbers of 128 bits are below a limit."""
    limit_high, limit_low = divmod(limit, _HALF)
    below: np.ndarray = (high < limit_high) | ((high == limit_high) & (low.view(np.uint64) < np.uint64(limit_low)))
    return below
