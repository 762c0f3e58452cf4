"""Keys as 64-bit codes: equal values have equal codes, whatever the type.

Integers, dates, timestamps, booleans, doubles and short decimals are their own code (`is_exact`). Strings,
binaries, long decimals and keys of several columns are hashed; two different values may then share a code,
so a result that rests on such a key is verified by value where it leaves the engine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.types import SHORT_DECIMAL_DIGITS, arrow_type
from watersmeet.store.gathering import taken
from watersmeet.store.kernels import I64, U8, hash_bytes, mix_codes

EVERY_ROW = np.empty(0, np.uint8)  # stands for a mask of ones


class Codes(NamedTuple):
    """The codes of a key for all rows, and which rows have none because the key is NULL."""

    values: I64
    valid: U8 = EVERY_ROW  # EVERY_ROW: no NULL among the keys

    def at(self, chosen: slice | np.ndarray) -> Codes:
        """The codes of some rows; those of a slice are not copied."""
        if isinstance(chosen, slice):
            return Codes(self.values[chosen], self.valid[chosen] if len(self.valid) else self.valid)
        return self.take(chosen)

    def take(self, rows: np.ndarray) -> Codes:
        return Codes(taken(self.values, rows), taken(self.valid, rows) if len(self.valid) else self.valid)


def encode(values: pa.Array, declared: str) -> Codes:
    """The codes of an Arrow array of a key part's declared type."""
    kind = arrow_type(declared)
    if values.type != kind:
        values = values.cast(kind)
    valid = EVERY_ROW
    if values.null_count:
        valid = np.asarray(values.is_valid()).astype(np.uint8)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        codes = _encode_bytes(values)
    elif pa.types.is_decimal(kind):
        codes = _encode_decimal(values)
    elif pa.types.is_floating(kind):
        codes = one_pattern(fixed_width(pc.cast(values, pa.float64()), np.float64)).view(np.int64)
    else:
        codes = whole_numbers(values)
    return Codes(codes, valid)


def combine(parts: list[Codes]) -> Codes:
    """The code of a key of one or several parts; NULL in any part makes the key NULL."""
    values, valid = parts[0].values, parts[0].valid
    for part in parts[1:]:
        values = mix_codes(values, part.values)
        if len(part.valid):
            valid = part.valid & valid if len(valid) else part.valid
    return Codes(values, valid)


def fixed_width(values: pa.Array, dtype: np.dtype | type) -> np.ndarray:
    """The data buffer of a fixed-width array without a copy; slots of NULLs hold anything."""
    buffer = values.buffers()[1]
    if buffer is None:
        return np.zeros(len(values), dtype)
    return np.frombuffer(buffer, dtype)[values.offset : values.offset + len(values)]


def whole_numbers(values: pa.Array) -> I64:
    """Integers, dates, times and booleans as int64s; slots of NULLs hold anything. Those of 64 bits are not copied."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    return fixed_width(values, np.dtype(f"i{values.type.bit_width // 8}")).astype(np.int64, copy=False)


def fixed_width_words(values: pa.Array) -> np.ndarray:
    """The two halves of the 128 bits of decimals, the lower one first."""
    words = np.frombuffer(values.buffers()[1], np.int64).reshape(-1, 2)
    return words[values.offset : values.offset + len(values)]


def _encode_bytes(values: pa.Array) -> I64:
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    out = np.empty(len(values), np.int64)
    hash_bytes(bounds, content, out)
    return out


def _encode_decimal(values: pa.Array) -> I64:
    words = fixed_width_words(values)
    if values.type.precision <= SHORT_DECIMAL_DIGITS:
        return np.ascontiguousarray(words[:, 0])
    return mix_codes(np.ascontiguousarray(words[:, 0]), np.ascontiguousarray(words[:, 1]))


def one_pattern(numbers: np.ndarray) -> np.ndarray:
    """Doubles that SQL treats as equal with the same bits: 0.0 for -0.0, and one NaN for all of them."""
    with np.errstate(invalid="ignore"):  # any bits may stand where a value is NULL, also those of a signaling NaN
        numbers = numbers + 0.0
    numbers[np.isnan(numbers)] = np.nan
    return numbers
