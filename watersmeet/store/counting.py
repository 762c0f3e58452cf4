"""The compiled loop that counts matches of a last step, for each query, and makes no arrays of them.

The matches of a partial result in a slot are a range of the slot's rows, which stand in the order of event time. Where
nothing is asked of the stored rows and all rows of the slot have the key, their number is a difference of two
positions. Otherwise the loop reads the rows one by one, and adds up the bits of their query sets.

A query whose windows are narrower than the step's counts only what they hold. Queries with equal windows are a *kind*.
With L the newest event time of a partial result and D its deadline under the windows of a kind, a stored row of time t
is inside if max(L, t) <= min(D, t + w): the kind's rows, too, are a range in the order of time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from watersmeet.store.compile_cache import CACHED  # isort: skip - before Numba is imported
from numba import njit, types

from watersmeet.store.kernels import (
    BISECT_FROM,
    GOLDEN,
    I32,
    I64,
    IN8,
    IN32,
    IN64,
    IN64_ROWS,
    INT,
    OUT64,
    U8,
    WORDS,
    first_from,
    read_only,
)
from watersmeet.store.packed import row_at, slot_bounds, slots_in, width_of

_WORD = types.uint64
_BUFFER = 512  # words, a multiple of 16
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_NONE = np.uint64(0)
_NEVER = np.iinfo(np.int64).max


@njit(types.Array(types.uint8, 1, "C")(IN32, IN32, IN64), cache=CACHED, nogil=True)
def slots_of_one_key(starts: I32, order: I32, codes: I64) -> U8:
    """For each slot of an index whether all its rows have the same code."""
    shift, fine = slots_in(starts)
    width = width_of(len(codes))
    out = np.ones(1 << (64 - int(shift)), np.uint8)
    for slot in range(len(out)):
        begin, end = slot_bounds(starts, fine, slot)
        for at in range(begin + 1, end):
            if codes[row_at(order, width, at)] != codes[row_at(order, width, at - 1)]:
                out[slot] = 0
                break
    return out


@njit(types.void(_WORD, INT, OUT64), cache=CACHED, nogil=True)
def _add_times(word: Any, times: int, counts: I64) -> None:
    """Add a number to counts[i] for each bit i of a word."""
    for bit in range(64):
        counts[bit] += times * np.int64((word >> np.uint64(bit)) & np.uint64(1))


@njit(cache=CACHED, inline="always")
def _add(total: Any, one: Any, other: Any) -> Any:
    """A full adder for each bit: the sum's lower digit, and its carry."""
    half = total ^ one
    return half ^ other, (total & one) | (half & other)


@njit(cache=CACHED, inline="always")
def _add_eight(words: Any, at: int, ones: Any, twos: Any, fours: Any) -> Any:
    """Eight words added to three digits; also returns the carry, the digit of eight."""
    ones, carry = _add(ones, words[at], words[at + 1])
    ones, other = _add(ones, words[at + 2], words[at + 3])
    twos, first = _add(twos, carry, other)
    ones, carry = _add(ones, words[at + 4], words[at + 5])
    ones, other = _add(ones, words[at + 6], words[at + 7])
    twos, second = _add(twos, carry, other)
    fours, eights = _add(fours, first, second)
    return ones, twos, fours, eights


@njit(types.void(types.Array(_WORD, 1, "C"), INT, OUT64), cache=CACHED, nogil=True)
def _add_bits(words: Any, used: int, counts: I64) -> None:
    """Add to counts[i] the number of words that have bit i.

    Words are added as the columns of a sum: `ones` has the lowest binary digit of all 64 counts, `twos` the next.
    Single bits are looked at once in 16 words."""
    while used % 16:
        words[used] = _NONE
        used += 1
    ones = twos = fours = eights = _NONE
    for at in range(0, used, 16):
        ones, twos, fours, one = _add_eight(words, at, ones, twos, fours)
        ones, twos, fours, other = _add_eight(words, at + 8, ones, twos, fours)
        eights, sixteens = _add(eights, one, other)
        _add_times(sixteens, 16, counts)
    _add_times(ones, 1, counts)
    _add_times(twos, 2, counts)
    _add_times(fours, 4, counts)
    _add_times(eights, 8, counts)


@njit(
    [
        types.UniTuple(INT, 2)(
            *(IN64, IN64, IN64, IN64_ROWS, read_only(word), INT, INT),
            *(IN32, IN32, IN8, IN64, IN64, IN64, IN64_ROWS, read_only(word)),
            *(INT, IN64, read_only(_WORD), _WORD, OUT64),
        )
        for word in WORDS
    ],
    cache=CACHED,
    nogil=True,
)
def count_matches(
    codes: I64,
    latest: I64,
    deadline: I64,
    deadlines: Any,
    sets: Any,
    begin_row: int,
    budget: int,
    starts: I32,
    order: I32,
    of_one_key: U8,
    stored_codes: I64,
    stored_tau: I64,
    stored_deadline: I64,
    stored_deadlines: Any,
    stored_sets: Any,
    window: int,
    windows: I64,
    masks: Any,
    everyone: Any,
    counts: I64,
) -> tuple[int, int]:
    """Matches as `kernels.probe` finds them, added to counts[i] for the query of bit i.

    Queries of kind k are masks[k]; their window for the stored rows is windows[k], deadlines[k] are those of the
    partial results and, in a materialized store, stored_deadlines[k] those of its rows. Without kinds the step's own
    window is that of all queries. `everyone` has the bits of all queries.

    Returns the number of matches that some query's filters want (in the step's window, whatever the queries' own) and
    the row to continue with: after about `budget` rows were read the caller may have other things to do."""
    found = 0
    visited = 0
    buffer = np.empty(_BUFFER, np.uint64)
    used = 0
    shift, fine = slots_in(starts)
    width = width_of(len(stored_codes))
    with_sets = len(sets) > 0
    with_stored_sets = len(stored_sets) > 0
    own_deadline = len(stored_deadline) > 0
    kinds = len(masks)
    for row in range(begin_row, len(codes)):
        if visited > budget:
            _add_bits(buffer, used, counts)
            return found, row
        wanted = everyone
        if with_sets:
            wanted = np.uint64(sets[row])
            if wanted == _NONE:
                continue
        code = codes[row]
        slot = np.int64((np.uint64(code) * GOLDEN) >> shift)
        at, stop = slot_bounds(starts, fine, slot)
        if at == stop:
            continue
        pure = of_one_key[slot] != 0
        if pure and stored_codes[row_at(order, width, at)] != code:
            continue
        newest = latest[row]
        earliest, last = newest - window, deadline[row]
        if pure and not with_stored_sets and not own_deadline:
            visited += 1
            at = first_from(order, width, stored_tau, at, stop, earliest)
            stop = first_from(order, width, stored_tau, at, stop, last + 1)
            found += stop - at
            if kinds == 0:
                _add_times(wanted, stop - at, counts)
            for kind in range(kinds):
                mask = wanted & masks[kind]
                if mask != _NONE and deadlines[kind, row] >= newest:
                    first = first_from(order, width, stored_tau, at, stop, newest - windows[kind])
                    end = first_from(order, width, stored_tau, first, stop, deadlines[kind, row] + 1)
                    _add_times(mask, end - first, counts)
            continue
        if stop - at > BISECT_FROM:
            at = first_from(order, width, stored_tau, at, stop, earliest)
        visited += stop - at
        inside = wanted  # the queries whose windows hold the rows up to the time `until`
        until = _NEVER if kinds == 0 else earliest - 1
        for place in range(at, stop):
            stored = row_at(order, width, place)
            # The code first: reading the time of a stranger in the slot would be one more cache miss.
            if not pure and stored_codes[stored] != code:
                continue
            tau = stored_tau[stored]
            if tau > last:
                break
            if tau < earliest or (own_deadline and stored_deadline[stored] < newest):
                continue
            if own_deadline:
                if kinds:
                    inside = _NONE
                    for kind in range(kinds):
                        if max(newest, tau) <= min(deadlines[kind, row], stored_deadlines[kind, stored]):
                            inside |= masks[kind]
            elif tau > until:
                inside, until = _NONE, _NEVER
                for kind in range(kinds):
                    begin, end = newest - windows[kind], deadlines[kind, row]
                    if end >= newest and end >= tau:
                        if begin <= tau:
                            inside |= masks[kind]
                            until = min(until, end)
                        else:
                            until = min(until, begin - 1)
            # No branches: whether some query wants a pair is what a processor cannot predict.
            common = wanted & np.uint64(stored_sets[stored]) if with_stored_sets else wanted
            found += common != _NONE
            common &= inside
            buffer[used] = common
            used += common != _NONE
            if used == _BUFFER:
                _add_bits(buffer, used, counts)
                used = 0
    _add_bits(buffer, used, counts)
    return found, len(codes)


@njit([types.void(IN64, read_only(word), types.Array(types.int64, 2, "C")) for word in WORDS], cache=CACHED, nogil=True)
def bits_of_lists(bounds: I64, words: Any, out: Any) -> None:
    """For each list, words[bounds[i] : bounds[i + 1]], the number of its words that have each bit."""
    buffer = np.empty(_BUFFER, np.uint64)
    for number in range(len(bounds) - 1):
        used = 0
        for at in range(bounds[number], bounds[number + 1]):
            buffer[used] = words[at]
            used += 1
            if used == _BUFFER:
                _add_bits(buffer, used, out[number])
                used = 0
        _add_bits(buffer, used, out[number])


@njit(
    [
        types.UniTuple(INT, 2)(
            *(IN64, IN64, IN64, IN64, read_only(word), IN64_ROWS, INT, INT),
            *(IN32, IN32, IN64, IN64, IN64, read_only(word), INT, _WORD, OUT64),
        )
        for word in WORDS
    ],
    cache=CACHED,
    nogil=True,
)
def count_products(
    codes: I64,
    bounds: I64,
    latest: I64,
    deadline: I64,
    sets: Any,
    numbers: Any,
    begin_list: int,
    budget: int,
    starts: I32,
    order: I32,
    stored_codes: I64,
    stored_tau: I64,
    stored_deadline: I64,
    stored_sets: Any,
    window: int,
    everyone: Any,
    counts: I64,
) -> tuple[int, int]:
    """Matches of lists of partial results that look for the same key, without looking at each pair.

    List i, bounds[i] to bounds[i + 1] of the partial results, has the key codes[i]; numbers[i] counts the bits of its
    query sets. A stored row whose times fit all of the list adds the list's numbers for the queries that want the row:
    the product of two lists is the product of their numbers. Where times fit some of the list, each pair is tested.

    Returns for how many stored rows that is so, and the list to continue with."""
    found = 0
    visited = 0
    buffer, pairs = np.empty(_BUFFER, np.uint64), np.empty(_BUFFER, np.uint64)
    tested = 0
    mine = np.zeros(64, np.int64)
    shift, fine = slots_in(starts)
    width = width_of(len(stored_codes))
    with_sets = len(sets) > 0
    with_stored_sets = len(stored_sets) > 0
    own_deadline = len(stored_deadline) > 0
    for number in range(begin_list, len(codes)):
        if visited > budget:
            _add_bits(pairs, tested, counts)
            return found, number
        code = codes[number]
        slot = np.int64((np.uint64(code) * GOLDEN) >> shift)
        at, stop = slot_bounds(starts, fine, slot)
        if at == stop:
            continue
        first, end = bounds[number], bounds[number + 1]
        union = _NONE if with_sets else everyone
        oldest, newest = latest[first], latest[first]
        soonest, last = deadline[first], deadline[first]
        for one in range(first, end):
            oldest, newest = min(oldest, latest[one]), max(newest, latest[one])
            soonest, last = min(soonest, deadline[one]), max(last, deadline[one])
            if with_sets:
                union |= np.uint64(sets[one])
        earliest = oldest - window
        if stop - at > BISECT_FROM:
            at = first_from(order, width, stored_tau, at, stop, earliest)
        visited += stop - at
        used = 0
        for place in range(at, stop):
            stored = row_at(order, width, place)
            if stored_codes[stored] != code:
                continue
            tau = stored_tau[stored]
            if tau > last:
                break
            until = stored_deadline[stored] if own_deadline else tau + window
            wanted = union & np.uint64(stored_sets[stored]) if with_stored_sets else union
            if until < oldest or wanted == _NONE:
                continue
            found += 1
            if max(newest, tau) <= min(soonest, until):
                buffer[used] = wanted
                used += 1
                if used == _BUFFER:
                    _add_bits(buffer, used, mine)
                    used = 0
                continue
            visited += end - first
            for one in range(first, end):
                if max(latest[one], tau) <= min(deadline[one], until):
                    common = wanted & np.uint64(sets[one]) if with_sets else wanted
                    pairs[tested] = common
                    tested += common != _NONE
                    if tested == _BUFFER:
                        _add_bits(pairs, tested, counts)
                        tested = 0
        _add_bits(buffer, used, mine)
        for bit in range(64):
            counts[bit] += mine[bit] * numbers[number, bit]
            mine[bit] = 0
    _add_bits(pairs, tested, counts)
    return found, len(codes)
