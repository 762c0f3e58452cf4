"""The compiled loops: hashing keys, building an index, probing it.

An index of n rows over 2^k slots is two arrays: `order` lists the rows slot by slot, and slot s owns
order[starts[s] : starts[s + 1]]. Rows of a slot stand in the order of their event time, so that a probe
finds the first row inside its window by bisection and stops at the first row behind it: a long history of
one key costs nothing to a query with a short window. Rows whose key is NULL are in no slot.

Signatures are explicit: everything is compiled (or loaded from the cache) on import, before a worker forks, and
no tick pays for it. Inputs are declared read-only, which mapped buckets are and any other array may become.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U8 = NDArray[np.uint8]

_IN64, _IN32, _IN8 = (types.Array(kind, 1, "C", readonly=True) for kind in (types.int64, types.int32, types.uint8))
_OUT64, _OUT32 = types.Array(types.int64, 1, "C"), types.Array(types.int32, 1, "C")
_INT = types.int64

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_BISECT_FROM = 8


@njit(cache=True, inline="always")
def _scramble(value: Any) -> Any:
    value = (value ^ (value >> np.uint64(30))) * _MIX1
    value = (value ^ (value >> np.uint64(27))) * _MIX2
    return value ^ (value >> np.uint64(31))


@njit(types.void(_IN32, _IN8, _OUT64), cache=True, nogil=True)
def hash_bytes(offsets: I32, data: U8, out: I64) -> None:
    """A 64-bit hash of each of the variable-length values data[offsets[i] : offsets[i + 1]]."""
    for row in range(len(out)):
        begin, end = offsets[row], offsets[row + 1]
        state = np.uint64(end - begin) * _GOLDEN
        word = np.uint64(0)
        filled = 0
        for at in range(begin, end):
            word |= np.uint64(data[at]) << np.uint64(8 * filled)
            filled += 1
            if filled == 8:
                state = _scramble(state ^ word) + _GOLDEN
                word = np.uint64(0)
                filled = 0
        out[row] = np.int64(_scramble(state ^ word))


@njit(_OUT64(_IN64, _IN64), cache=True, nogil=True)
def mix_codes(left: I64, right: I64) -> I64:
    """One code for two: used for keys of several columns and for 128-bit values."""
    out = np.empty(len(left), np.int64)
    for row in range(len(left)):
        out[row] = np.int64(_scramble(np.uint64(left[row]) * _GOLDEN ^ _scramble(np.uint64(right[row]) + _GOLDEN)))
    return out


@njit(_OUT32(_IN64, _INT), cache=True, nogil=True)
def partition_of(codes: I64, partitions: int) -> I32:
    """The place of each code. Independent of the slot function, or every index would use 1/P of its slots."""
    out = np.empty(len(codes), np.int32)
    for row in range(len(codes)):
        out[row] = np.int32(_scramble(np.uint64(codes[row])) % np.uint64(partitions))
    return out


@njit(types.UniTuple(_OUT32, 2)(_IN64, _IN8, _IN32, _INT), cache=True, nogil=True)
def build_index(codes: I64, valid: U8, by_time: I32, slot_bits: int) -> tuple[I32, I32]:
    """Counting sort of the valid rows by slot, visiting them in event-time order (`by_time`)."""
    slots = 1 << slot_bits
    shift = np.uint64(64 - slot_bits)
    all_valid = len(valid) == 0
    starts = np.zeros(slots + 1, np.int32)
    for row in range(len(codes)):
        if all_valid or valid[row]:
            starts[np.int64((np.uint64(codes[row]) * _GOLDEN) >> shift) + 1] += 1
    for slot in range(slots):
        starts[slot + 1] += starts[slot]
    order = np.empty(starts[slots], np.int32)
    fill = starts[:-1].copy()
    sorted_already = len(by_time) == 0
    for at in range(len(codes)):
        row = np.int32(at) if sorted_already else by_time[at]
        if all_valid or valid[row]:
            slot = np.int64((np.uint64(codes[row]) * _GOLDEN) >> shift)
            order[fill[slot]] = row
            fill[slot] += 1
    return starts, order


@njit(
    types.UniTuple(_INT, 3)(
        *(
            _IN64,
            _IN64,
            _IN64,
            _INT,
            _INT,
            _IN32,
            _IN32,
            _IN64,
            _IN64,
            _IN64,
            _IN8,
            _INT,
            _OUT32,
            _OUT32,
            _OUT64,
            _OUT64,
        )
    ),
    cache=True,
    nogil=True,
)
def probe(
    codes: I64,
    latest: I64,
    deadline: I64,
    begin_row: int,
    begin_at: int,
    starts: I32,
    order: I32,
    stored_codes: I64,
    stored_tau: I64,
    stored_deadline: I64,
    stored_mask: U8,
    window: int,
    out_left: I32,
    out_row: I32,
    out_latest: I64,
    out_deadline: I64,
) -> tuple[int, int, int]:
    """Matches of partial results in one bucket, until the outputs are full.

    Returns how many were found and where to go on: (found, row, position in `order`). A position of -1
    means the row is untouched. A stored row of a stream has the deadline t + window (`stored_deadline` is empty); one
    of a materialized store brings its own, no later than t + window. Each match satisfies
    max(latest, t) <= min(deadline, stored deadline).
    """
    found = 0
    room = len(out_left)
    slot_bits = 0
    while (1 << slot_bits) < len(starts) - 1:
        slot_bits += 1
    shift = np.uint64(64 - slot_bits)
    every_row = len(stored_mask) == 0
    own_deadline = len(stored_deadline) > 0
    for row in range(begin_row, len(codes)):
        code = codes[row]
        slot = np.int64((np.uint64(code) * _GOLDEN) >> shift)
        at, stop = starts[slot], starts[slot + 1]
        if at == stop:
            continue
        earliest = latest[row] - window
        last = deadline[row]
        if row == begin_row and begin_at >= 0:
            at = begin_at
        elif stop - at > _BISECT_FROM:
            high = stop
            while at < high:
                middle = (at + high) >> 1
                if stored_tau[order[middle]] < earliest:
                    at = middle + 1
                else:
                    high = middle
        while at < stop:
            stored = order[at]
            # The code first: reading the time of a stranger in the slot would be one more cache miss.
            if stored_codes[stored] == code:
                tau = stored_tau[stored]
                if tau > last:
                    break
                until = stored_deadline[stored] if own_deadline else tau + window
                if tau >= earliest and until >= latest[row] and (every_row or stored_mask[stored] != 0):
                    if found == room:
                        return found, row, at
                    out_left[found] = row
                    out_row[found] = stored
                    out_latest[found] = max(latest[row], tau)
                    out_deadline[found] = min(last, until)
                    found += 1
            at += 1
    return found, len(codes), -1
