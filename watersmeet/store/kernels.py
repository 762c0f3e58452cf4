"""The compiled loops: hashing keys, building an index, probing it.

An index of n rows over 2^k slots is two arrays: `order` lists the rows slot by slot, and slot s owns
order[starts[s] : starts[s + 1]]. Rows of a slot stand in the order of their event time, so that a probe
finds the first row inside its window by bisection and stops at the first row behind it: a long history of
one key costs nothing to a query with a short window. Rows whose key is NULL are in no slot.
Both arrays are kept packed (store/packed.py); the loops read them by its functions.

Signatures are explicit: everything is compiled (or loaded from the cache) on import, before a worker forks, and
no tick pays for it. Inputs are declared read-only, which mapped buckets are and any other array may become.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from watersmeet.store.compile_cache import CACHED  # isort: skip - before Numba is imported
from numba import njit, types
from numpy.typing import NDArray

from watersmeet.store.packed import row_ahead, row_at, slot_ahead, slot_bounds, slots_in, width_of
from watersmeet.store.prefetch import prefetch

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U8 = NDArray[np.uint8]


def read_only(kind: Any) -> Any:
    return types.Array(kind, 1, "C", readonly=True)


# Types of arguments, also of other loops.
IN64, IN32, IN8 = (read_only(kind) for kind in (types.int64, types.int32, types.uint8))
IN64_ROWS = types.Array(types.int64, 2, "C", readonly=True)
OUT64, OUT32 = types.Array(types.int64, 1, "C"), types.Array(types.int32, 1, "C")
WORDS = (types.uint8, types.uint16, types.uint32, types.uint64)  # query sets, as wide as they need to be
INT = types.int64

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
BISECT_FROM = 8
BLOCK, PAIRS = 256, 1024  # partial results, and pairs of them and stored rows, that a probe takes at a time
AHEAD = 4
SPARE = 3  # slots for each key, so that few keys share one


@njit(cache=CACHED, inline="always")
def _scramble(value: Any) -> Any:
    value = (value ^ (value >> np.uint64(30))) * _MIX1
    value = (value ^ (value >> np.uint64(27))) * _MIX2
    return value ^ (value >> np.uint64(31))


@njit(types.void(IN32, IN8, OUT64), cache=CACHED, nogil=True)
def hash_bytes(offsets: I32, data: U8, out: I64) -> None:
    """A 64-bit hash of each of the variable-length values data[offsets[i] : offsets[i + 1]]."""
    for row in range(len(out)):
        begin, end = offsets[row], offsets[row + 1]
        state = np.uint64(end - begin) * GOLDEN
        word = np.uint64(0)
        filled = 0
        for at in range(begin, end):
            word |= np.uint64(data[at]) << np.uint64(8 * filled)
            filled += 1
            if filled == 8:
                state = _scramble(state ^ word) + GOLDEN
                word = np.uint64(0)
                filled = 0
        out[row] = np.int64(_scramble(state ^ word))


@njit(OUT64(IN64, IN64), cache=CACHED, nogil=True)
def mix_codes(left: I64, right: I64) -> I64:
    """One code for two: used for keys of several columns and for 128-bit values."""
    out = np.empty(len(left), np.int64)
    for row in range(len(left)):
        out[row] = np.int64(_scramble(np.uint64(left[row]) * GOLDEN ^ _scramble(np.uint64(right[row]) + GOLDEN)))
    return out


@njit(types.Array(types.uint64, 1, "C")(IN64, OUT64), cache=CACHED, nogil=True)
def hash_keys(codes: I64, groups: I64) -> NDArray[np.uint64]:
    """A hash of each code; the first six bits of it are the key group, and `groups` counts the codes of each."""
    out = np.empty(len(codes), np.uint64)
    for row in range(len(codes)):
        out[row] = _scramble(np.uint64(codes[row]) + GOLDEN)
        groups[np.int64(out[row] >> np.uint64(58))] += 1
    return out


@njit(OUT32(IN64, INT), cache=CACHED, nogil=True)
def partition_of(codes: I64, partitions: int) -> I32:
    """The partition of each code. Independent of the slot function, or every index would use 1/P of its slots."""
    out = np.empty(len(codes), np.int32)
    for row in range(len(codes)):
        out[row] = np.int32(_scramble(np.uint64(codes[row])) % np.uint64(partitions))
    return out


def slot_bits(rows: int) -> int:
    """The number of bits of a hash that choose a slot of an index."""
    return max(1, (max(rows, 1) - 1).bit_length())


@njit(types.UniTuple(OUT32, 2)(IN64, IN8, IN32, INT), cache=CACHED, nogil=True)
def build_index(codes: I64, valid: U8, by_time: I32, slot_bits: int) -> tuple[I32, I32]:
    """Counting sort of the valid rows by slot, visiting them in event-time order (`by_time`).

    Where few of the 2^slot_bits slots have rows, because keys are frequent, there are fewer: SPARE for each that has.
    """
    slots = 1 << slot_bits
    shift = np.uint64(64 - slot_bits)
    all_valid = len(valid) == 0
    starts = np.zeros(slots + 1, np.int32)
    for row in range(len(codes)):
        if all_valid or valid[row]:
            starts[np.int64((np.uint64(codes[row]) * GOLDEN) >> shift) + 1] += 1
    occupied = 0
    for slot in range(slots):
        occupied += starts[slot + 1] != 0
    fewer = 0  # times that two neighbouring slots become one
    while slot_bits - fewer > 1 and (slots >> (fewer + 1)) >= SPARE * occupied:
        fewer += 1
    if fewer:
        slots >>= fewer
        shift += np.uint64(fewer)
        joined = np.zeros(slots + 1, np.int32)
        for slot in range(slots << fewer):
            joined[(slot >> fewer) + 1] += starts[slot + 1]
        starts = joined
    for slot in range(slots):
        starts[slot + 1] += starts[slot]
    order = np.empty(starts[slots], np.int32)
    fill = starts[:-1].copy()
    sorted_already = len(by_time) == 0
    for at in range(len(codes)):
        row = np.int32(at) if sorted_already else by_time[at]
        if all_valid or valid[row]:
            slot = np.int64((np.uint64(codes[row]) * GOLDEN) >> shift)
            order[fill[slot]] = row
            fill[slot] += 1
    return starts, order


@njit(cache=CACHED, inline="always")
def first_from(order: Any, width: int, tau: Any, low: int, high: int, time: int) -> int:
    """The first position of a slot whose row is not before a time."""
    while low < high:
        middle = (low + high) >> 1
        if tau[row_at(order, width, middle)] < time:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=CACHED, inline="always")
def first_not_below(values: Any, value: Any, low: int) -> int:
    """The first position from `low` on of sorted values whose value is not below another one."""
    high = len(values)
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@njit(
    [
        types.UniTuple(INT, 3)(
            *(IN64, IN64, IN64, read_only(word), INT, INT),
            *(IN32, IN32, IN64, IN64, IN64, read_only(word), INT),
            *(OUT32, OUT32, OUT64, OUT64, types.Array(word, 1, "C")),
        )
        for word in WORDS
    ],
    cache=CACHED,
    nogil=True,
)
def probe(
    codes: I64,
    latest: I64,
    deadline: I64,
    sets: Any,
    begin_row: int,
    begin_at: int,
    starts: I32,
    order: I32,
    stored_codes: I64,
    stored_tau: I64,
    stored_deadline: I64,
    stored_sets: Any,
    window: int,
    out_left: I32,
    out_row: I32,
    out_latest: I64,
    out_deadline: I64,
    out_sets: Any,
) -> tuple[int, int, int]:
    """Matches of partial results in one bucket, until the outputs are full.

    Returns how many were found and where to continue: (found, row, position in `order`). A position of -1
    means the row is untouched. A stored row of a stream has the deadline t + window (`stored_deadline` is empty); one
    of a materialized store brings its own, no later than t + window. Each match satisfies
    max(latest, t) <= min(deadline, stored deadline), and some query wants both rows: their sets have a common bit.
    Empty `sets` want every row; empty `stored_sets` ask nothing of the stored rows.

    Rows are taken by blocks, in loops: which slots, which stored rows, which have the code, which of them are wanted.
    None of them branches by row (what is written is kept by moving on), so the processor reads ahead; and each asks
    for the memory that the next one reads, because buckets are rarely in a cache when they are probed.
    """
    found = 0
    room = len(out_left)
    shift, fine = slots_in(starts)
    width = width_of(len(stored_codes))
    with_sets = len(sets) > 0
    with_stored_sets = len(stored_sets) > 0
    own_deadline = len(stored_deadline) > 0
    asking, low, high = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    pair_row, pair_at = np.empty(PAIRS + AHEAD, np.int64), np.empty(PAIRS + AHEAD, np.int64)
    pair_stored = np.empty(PAIRS, np.int64)
    for block in range(begin_row, len(codes), BLOCK):
        asked = 0  # rows whose slot is not empty
        for row in range(block, min(block + BLOCK, len(codes))):
            slot_ahead(starts, fine, np.int64((np.uint64(codes[row]) * GOLDEN) >> shift))
        for row in range(block, min(block + BLOCK, len(codes))):
            at, stop = slot_bounds(starts, fine, np.int64((np.uint64(codes[row]) * GOLDEN) >> shift))
            row_ahead(order, width, at)
            asking[asked], low[asked], high[asked] = row, at, stop
            asked += at < stop and not (with_sets and sets[row] == 0)
        if block == begin_row and begin_at >= 0 and asked:
            low[0] = begin_at
        done = 0
        while done < asked:
            pairs = 0
            while done < asked and pairs < PAIRS:
                row, at, stop = asking[done], low[done], high[done]
                if stop - at > BISECT_FROM:
                    at = first_from(order, width, stored_tau, at, stop, latest[row] - window)
                    stop = first_from(order, width, stored_tau, at, stop, deadline[row] + 1)
                count = min(stop - at, PAIRS - pairs)
                for one in range(AHEAD):  # most slots have fewer rows: what is too much is overwritten
                    pair_row[pairs + one], pair_at[pairs + one] = row, at + one
                for one in range(AHEAD, count):
                    pair_row[pairs + one], pair_at[pairs + one] = row, at + one
                pairs += count
                low[done], high[done] = at + count, stop
                done += at + count == stop
            equal = 0
            for pair in range(pairs):
                stored = row_at(order, width, pair_at[pair])
                prefetch(stored_codes, stored)
                prefetch(stored_tau, stored)
                pair_stored[pair] = stored
            for pair in range(pairs):
                row, at, stored = pair_row[pair], pair_at[pair], pair_stored[pair]
                pair_row[equal], pair_at[equal], pair_stored[equal] = row, at, stored
                equal += stored_codes[stored] == codes[row]
            for pair in range(equal):
                row, stored = pair_row[pair], pair_stored[pair]
                tau = stored_tau[stored]
                until = stored_deadline[stored] if own_deadline else tau + window
                wanted = tau >= latest[row] - window and tau <= deadline[row] and until >= latest[row]
                if with_sets:
                    common = sets[row] & stored_sets[stored] if with_stored_sets else sets[row]
                    wanted = wanted and common != 0
                if found == room:
                    if wanted:
                        return found, row, pair_at[pair]
                    continue
                out_left[found] = row
                out_row[found] = stored
                out_latest[found] = max(latest[row], tau)
                out_deadline[found] = min(deadline[row], until)
                if with_sets:
                    out_sets[found] = common
                found += wanted
    return found, len(codes), -1


@njit(types.void(IN64, IN8, IN64, read_only(types.uint64), types.uint64, types.Array(types.uint64, 1, "C")),
      cache=CACHED, nogil=True)  # fmt: skip
def narrow_words(values: I64, valid: U8, thresholds: I64, table: Any, null: Any, words: Any) -> None:
    """Leave in each word the bits whose comparisons the row's value satisfies; see store/filters.py for the table."""
    all_valid = len(valid) == 0
    for row in range(len(values)):
        if not all_valid and not valid[row]:
            words[row] &= null
            continue
        value = values[row]
        at = first_not_below(thresholds, value, 0)
        equal = at < len(thresholds) and thresholds[at] == value
        words[row] &= table[2 * at + 1] if equal else table[2 * at]


@njit([types.void(read_only(word), OUT64) for word in WORDS], cache=CACHED, nogil=True)
def count_bits(words: Any, counts: I64) -> None:
    """Add to counts[i] the number of words that have bit i, by way of how often each byte has each value."""
    width = words.itemsize
    seen = np.zeros((width, 256), np.int64)
    for row in range(len(words)):
        word = np.uint64(words[row])
        for byte in range(width):
            seen[byte, np.int64(word & np.uint64(255))] += 1
            word >>= np.uint64(8)
    for byte in range(width):
        for value in range(1, 256):
            for bit in range(8):
                if value & (1 << bit):
                    counts[8 * byte + bit] += seen[byte, value]


@njit(
    [types.void(IN64_ROWS, IN64_ROWS, read_only(types.uint64), types.Array(word, 1, "C")) for word in WORDS],
    cache=CACHED,
    nogil=True,
)
def cut_windows(times: Any, windows: Any, masks: Any, words: Any) -> None:
    """Clear the bits of queries whose windows a combination exceeds.

    times[m] are the event times of member m; windows[v][m] the windows of the queries in masks[v]."""
    members = len(times)
    for row in range(len(words)):
        newest = times[0][row]
        for member in range(1, members):
            newest = max(newest, times[member][row])
        allowed = np.uint64(0)
        for kind in range(len(windows)):
            inside = True
            for member in range(members):
                if newest - times[member][row] > windows[kind][member]:
                    inside = False
                    break
            if inside:
                allowed |= masks[kind]
        words[row] = np.uint64(words[row]) & allowed
