"""The compiled loops of partial aggregates: numbering groups, and adding rows to groups.

Every loop over rows reads `ids`, the group of each row, and `valid`, which rows count (empty: all do). Sums of integers
are kept in digits of 32 bits, each in an int64 of its own, so that no loop has to look for an overflow: `add_digits`
splits a value, and a later sum of digits needs no more than additions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from watersmeet.store.compile_cache import CACHED  # isort: skip - before Numba is imported
from numba import njit, types
from numpy.typing import NDArray

from watersmeet.store.kernels import (
    GOLDEN,
    I32,
    I64,
    IN8,
    IN32,
    IN64,
    IN64_ROWS,
    INT,
    OUT32,
    OUT64,
    U8,
    first_not_below,
    read_only,
)

F64 = NDArray[np.float64]
WHOLE = (types.uint8, types.uint16, types.int32, types.int64)  # values are kept in the first that holds them
IN_F, OUT_F = read_only(types.float64), types.Array(types.float64, 1, "C")
OUT_ROWS = types.Array(types.int64, 2, "C")
_MIX = np.uint64(0xBF58476D1CE4E5B9)
_LOW = np.int64(0xFFFFFFFF)


@njit(inline="always")
def _slot(codes: Any, row: int, mask: Any) -> Any:
    """Where the search for a key begins in a hash table of mask + 1 slots."""
    state = np.uint64(0)
    for column in range(codes.shape[0]):
        state = (state ^ np.uint64(codes[column, row])) * GOLDEN
        state ^= state >> np.uint64(29)
    return np.int64((state * _MIX) >> np.uint64(20)) & mask


@njit(types.UniTuple(OUT64, 2)(IN64_ROWS), cache=CACHED, nogil=True)
def number_groups(codes: Any) -> tuple[I64, I64]:
    """For each row the number of its group, and the first row of each group. Rows are alike where all codes are.

    codes[c][r] is what column c has in row r."""
    columns, rows = codes.shape
    expected = min(rows, 1 << 16)
    bits = 4
    while (1 << bits) < 2 * expected:
        bits += 1
    table = np.full(1 << bits, -1, np.int64)
    ids = np.empty(rows, np.int64)
    first = np.empty(expected, np.int64)
    hashes = np.empty(expected, np.uint64)
    found = 0
    for row in range(rows):
        state = np.uint64(0)
        for column in range(columns):
            state = (state ^ np.uint64(codes[column, row])) * GOLDEN
            state ^= state >> np.uint64(29)
        state *= _MIX
        mask = np.int64(len(table) - 1)
        slot = np.int64(state >> np.uint64(64 - bits))
        while True:
            group = table[slot]
            if group < 0:
                break
            if hashes[group] == state:
                same = True
                other = first[group]
                for column in range(columns):
                    if codes[column, row] != codes[column, other]:
                        same = False
                        break
                if same:
                    break
            slot = (slot + 1) & mask
        if group < 0:
            if found == len(first):
                first = np.concatenate((first, np.empty(len(first), np.int64)))
                hashes = np.concatenate((hashes, np.empty(len(hashes), np.uint64)))
            group = found
            first[group] = row
            hashes[group] = state
            table[slot] = group
            found += 1
            if 2 * found > len(table):
                bits += 1
                table = np.full(1 << bits, -1, np.int64)
                for each in range(found):
                    slot = np.int64(hashes[each] >> np.uint64(64 - bits))
                    while table[slot] >= 0:
                        slot = (slot + 1) & np.int64(len(table) - 1)
                    table[slot] = each
        ids[row] = group
    return ids, first[:found].copy()


@njit(types.UniTuple(OUT64, 2)(IN64, INT), cache=CACHED, nogil=True)
def number_small(cells: I64, size: int) -> tuple[I64, I64]:
    """The same where each row has one code, from 0 to size - 1."""
    table = np.full(size, -1, np.int64)
    ids = np.empty(len(cells), np.int64)
    first = np.empty(min(len(cells), size), np.int64)
    found = 0
    for row in range(len(cells)):
        group = table[cells[row]]
        if group < 0:
            group = found
            table[cells[row]] = group
            first[group] = row
            found += 1
        ids[row] = group
    return ids, first[:found].copy()


@njit(types.Tuple((OUT32, OUT64))(IN64_ROWS, OUT32, OUT_ROWS, INT), cache=CACHED, nogil=True)
def number_keys(codes: Any, slots: I32, known: Any, count: int) -> tuple[I32, I64]:
    """For each row the number of its key among those known so far, and the rows with new keys, whose codes are added.

    codes[c][r] is what column c has in row r, known[c][k] what it has in key k. `slots` and `known` have room."""
    columns, rows = codes.shape
    mask = np.int64(len(slots) - 1)
    ids = np.empty(rows, np.int32)
    new = np.empty(rows, np.int64)
    found = count
    for row in range(rows):
        slot = _slot(codes, row, mask)
        while slots[slot] >= 0:
            key = slots[slot]
            same = True
            for column in range(columns):
                if codes[column, row] != known[column, key]:
                    same = False
                    break
            if same:
                break
            slot = (slot + 1) & mask
        if slots[slot] < 0:
            slots[slot] = found
            for column in range(columns):
                known[column, found] = codes[column, row]
            new[found - count] = row
            found += 1
        ids[row] = slots[slot]
    return ids, new[: found - count].copy()


@njit(types.void(OUT_ROWS, INT, OUT32), cache=CACHED, nogil=True)
def fill_slots(known: Any, count: int, slots: I32) -> None:
    """Enter the first keys into slots that are all empty."""
    mask = np.int64(len(slots) - 1)
    for key in range(count):
        slot = _slot(known, key, mask)
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = key


@njit(INT(IN32, IN8, OUT32, OUT32, INT, OUT32), cache=CACHED, nogil=True)
def meet_keys(ids: I32, passing: U8, places: I32, met: I32, found: int, at: I32) -> int:
    """Find for each row that passes (of an empty mask: all) the place of its key, in the order in which keys are met;
    returns how many were met. places[key] is -1 for a key that was not met so far."""
    every = len(passing) == 0
    for row in range(len(ids)):
        if every or passing[row]:
            place = places[ids[row]]
            if place < 0:
                place = np.int32(found)
                places[ids[row]] = place
                met[found] = ids[row]
                found += 1
            at[row] = place
        else:
            at[row] = 0
    return found


@njit(
    [
        *(types.void(ids, IN8, read_only(kind), OUT64) for ids in (IN64, IN32) for kind in WHOLE),
        *(types.void(ids, IN8, IN_F, OUT_F) for ids in (IN64, IN32)),
    ],
    cache=CACHED,
    nogil=True,
)
def add_values(ids: Any, valid: U8, values: Any, out: Any) -> None:
    every = len(valid) == 0
    for row in range(len(ids)):
        if every or valid[row]:
            out[ids[row]] += values[row]


@njit(types.void(IN64, IN8, IN64, OUT64, OUT64), cache=CACHED, nogil=True)
def add_digits(ids: I64, valid: U8, values: I64, low: I64, high: I64) -> None:
    """Add the low half of each value, without a sign, and the high half with it."""
    every = len(valid) == 0
    for row in range(len(ids)):
        if every or valid[row]:
            low[ids[row]] += values[row] & _LOW
            high[ids[row]] += values[row] >> 32


@njit([types.void(ids, IN8, IN64, types.boolean, OUT64) for ids in (IN64, IN32)], cache=CACHED, nogil=True)
def take_extremes(ids: Any, valid: U8, values: I64, largest: bool, out: I64) -> None:
    """The least or the largest value of each group; groups without a value are unchanged."""
    every = len(valid) == 0
    for row in range(len(ids)):
        if every or valid[row]:
            group, value = ids[row], values[row]
            if (value > out[group]) if largest else (value < out[group]):
                out[group] = value


@njit([types.void(ids, IN8, IN64, IN_F, IN_F, OUT64, OUT_F, OUT_F) for ids in (IN64, IN32)], cache=CACHED, nogil=True)
def add_moments(ids: Any, valid: U8, ns: I64, means: F64, squares: F64, n: I64, mean: F64, m2: F64) -> None:
    """Combine counts, means and sums of squared distances from the mean; a row's may be (1, value, 0)."""
    every = len(valid) == 0
    for row in range(len(ids)):
        if (every or valid[row]) and ns[row] > 0:
            group = ids[row]
            before, more = n[group], ns[row]
            n[group] = before + more
            if before == 0:  # also so that a distance from no mean at all is not NaN
                mean[group], m2[group] = means[row], squares[row]
                continue
            distance = means[row] - mean[group]
            share = more / n[group]
            mean[group] += distance * share
            m2[group] += squares[row] + distance * distance * before * share


@njit(types.UniTuple(OUT64, 2)(IN64, IN64, IN64, IN64, IN64, types.int64), cache=CACHED, nogil=True)
def windows_due(slices: I64, ranges: I64, slides: I64, opened: I64, until: I64, most: int) -> tuple[I64, I64]:
    """The first windows that begin from `opened` to before `until` and have a slice: query and start of each, of every
    query at most so many.

    `slices` are the starts of slices, in order; the other arrays have an entry for each query. Times without slices
    cost nothing, however long."""
    queries, starts = np.empty(16, np.int64), np.empty(16, np.int64)
    found = 0
    for query in range(len(ranges)):
        width, slide = ranges[query], slides[query]
        number = -(-opened[query] // slide)
        last = (until[query] - 1) // slide
        low, end = 0, found + most
        while number <= last and found < end:
            start = number * slide
            low = first_not_below(slices, start, low)
            if low == len(slices):
                break
            if slices[low] >= start + width:
                number = (slices[low] - width) // slide + 1
                continue
            if found == len(starts):
                queries = np.concatenate((queries, np.empty(found, np.int64)))
                starts = np.concatenate((starts, np.empty(found, np.int64)))
            queries[found], starts[found] = query, start
            found += 1
            number += 1
    return queries[:found].copy(), starts[:found].copy()
