"""Indexes in few bytes: where the slots begin, and the rows of each slot.

`starts` of 2^k slots: for each block of 32 slots its first position, in 4 bytes, then for each slot how much later it
begins, in one byte (a quarter of an int32). Where a block has too many rows for that, or there are few slots, all
2^k + 1 positions stand there as they are. The lengths tell which it is: 9 * 2^(k - 5) + 1, or 2^k + 1.

`order` of a bucket of n rows: row numbers of as many bits as n - 1 has, one after the other, and one word more than
they need, so that a row number may be read from two words in every case.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from watersmeet.store.compile_cache import CACHED  # isort: skip - before Numba is imported
from numba import njit, types
from numpy.typing import NDArray

from watersmeet.store.prefetch import prefetch

I32 = NDArray[np.int32]
_IN = types.Array(types.int32, 1, "C", readonly=True)
_OUT = types.Array(types.int32, 1, "C")
BLOCK = 32  # slots
_WORDS = 9  # of a block: its first position, and 32 bytes
_LOW, _BYTE = 0xFFFFFFFF, 0xFF
_WORD = 32  # bits


@njit(cache=CACHED, inline="always")
def width_of(rows: int) -> int:
    """Bits of a row number in a bucket of so many rows."""
    width = 1
    while (1 << width) < rows:
        width += 1
    return width


@njit(cache=CACHED, inline="always")
def row_at(order: Any, width: int, at: Any) -> Any:
    """The row at a position of `order`."""
    bit = at * width
    word = bit >> 5
    both = (np.int64(order[word]) & _LOW) | (np.int64(order[word + 1]) << 32)
    return (both >> (bit & 31)) & ((1 << width) - 1)


@njit(cache=CACHED, inline="always")
def row_ahead(order: Any, width: int, at: Any) -> None:
    """Have the place of a position of `order` brought near."""
    prefetch(order, (at * width) >> 5)


@njit(cache=CACHED, inline="always")
def slots_in(starts: Any) -> Any:
    """By how much a hash is shifted to give a slot, and where the bytes of slots begin; 0: there are none."""
    slots, fine = len(starts) - 1, 0
    if slots % _WORDS == 0:
        blocks = slots // _WORDS
        slots, fine = blocks * BLOCK, blocks + 1
    bits = 0
    while (1 << bits) < slots:
        bits += 1
    return np.uint64(64 - bits), fine


@njit(cache=CACHED, inline="always")
def slot_bounds(starts: Any, fine: int, slot: Any) -> Any:
    """The first position of a slot, and the one behind its last."""
    if fine == 0:
        return np.int64(starts[slot]), np.int64(starts[slot + 1])
    first, then = np.int64(starts[slot >> 5]), slot + 1
    at = first + ((np.int64(starts[fine + (slot >> 2)]) >> ((slot & 3) << 3)) & _BYTE)
    if then & 31 == 0:
        return at, np.int64(starts[then >> 5])
    return at, first + ((np.int64(starts[fine + (then >> 2)]) >> ((then & 3) << 3)) & _BYTE)


@njit(cache=CACHED, inline="always")
def slot_ahead(starts: Any, fine: int, slot: Any) -> None:
    """Have the bounds of a slot brought near."""
    if fine == 0:
        prefetch(starts, slot)
    else:
        prefetch(starts, slot >> 5)
        prefetch(starts, fine + (slot >> 2))


def packed(starts: I32, order: I32, rows: int) -> tuple[I32, I32]:
    """The arrays of an index of a bucket of so many rows, as the loops read them."""
    return _packed_starts(starts), _packed_order(order, width_of(rows))


@njit(_OUT(_IN), cache=CACHED, nogil=True)
def _packed_starts(starts: I32) -> I32:
    slots = len(starts) - 1
    blocks = slots // BLOCK
    for block in range(blocks):
        if starts[(block + 1) * BLOCK] - starts[block * BLOCK] > _BYTE:
            blocks = 0
            break
    if blocks == 0:
        return starts.copy()
    out = np.zeros(blocks * _WORDS + 1, np.int32)
    out[blocks] = starts[slots]
    for block in range(blocks):
        first = starts[block * BLOCK]
        out[block] = first
        for word in range(8):
            slot = block * BLOCK + 4 * word
            bytes_ = np.int64(0)
            for at in range(4):
                bytes_ |= np.int64(starts[slot + at] - first) << (8 * at)
            out[blocks + 1 + (slot >> 2)] = np.int32(bytes_)
    return out


@njit(_OUT(_IN, types.int64), cache=CACHED, nogil=True)
def _packed_order(order: I32, width: int) -> I32:
    out = np.empty((len(order) * width + 31) // 32 + 1, np.int32)
    word, bits, filled = 0, np.int64(0), 0
    for at in range(len(order)):
        bits |= np.int64(order[at]) << filled
        filled += width
        if filled >= _WORD:
            out[word] = np.int32(bits & _LOW)
            word += 1
            bits >>= _WORD
            filled -= _WORD
    out[word:] = 0
    if filled:
        out[word] = np.int32(bits)
    return out
