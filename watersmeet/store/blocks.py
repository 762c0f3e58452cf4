"""The compiled loops of steps that have no equality: a range of a sorted index, or all rows in the window.

A numeric predicate is a program (see store/programs.py) for a stack of registers, each as wide as a block of rows. One
loop runs any program: an operation goes over a whole block before the next one begins, so that its inner loop is a few
vector instructions, and choosing the operation costs nothing by row. Nothing has to be compiled for a new predicate. (A
kernel of its own for each predicate would save the registers' traffic, and cost a second of compiling in every worker.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from watersmeet.store.compile_cache import CACHED  # isort: skip - before Numba is imported
from numba import njit, types
from numba.extending import overload

from watersmeet.store.kernels import (
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
    WORDS,
    first_not_below,
    read_only,
)

BLOCK = 512  # a few registers of this width fit into the first-level cache
_CHUNK = 64

_MATRIX = types.Array(types.float64, 2, "C", readonly=True)
_FOUND: Any = types.Tuple((INT, INT, INT))


def _lane_of(other: Any, lane: int) -> Any:
    """The value for a lane: of a vector its own, a number serves all lanes."""


@overload(_lane_of, inline="always")
def _lane_of_type(other, lane):  # type: ignore[no-untyped-def]  # Numba compares signatures, annotations too
    if isinstance(other, types.Array):
        return lambda other, lane: other[lane]
    return lambda other, lane: other


@njit(cache=CACHED, nogil=True)
def _combine(operation: int, one: Any, other: Any, lanes: int) -> None:
    """one = one (operation) other, lane by lane; see programs.OPERATIONS for the numbers."""
    if operation == 0:
        for lane in range(lanes):
            one[lane] += _lane_of(other, lane)
    elif operation == 1:
        for lane in range(lanes):
            one[lane] -= _lane_of(other, lane)
    elif operation in (2, 9):
        for lane in range(lanes):
            one[lane] *= _lane_of(other, lane)
    elif operation == 3:
        for lane in range(lanes):
            one[lane] = 1.0 if one[lane] < _lane_of(other, lane) else 0.0
    elif operation == 4:
        for lane in range(lanes):
            one[lane] = 1.0 if one[lane] <= _lane_of(other, lane) else 0.0
    elif operation == 5:
        for lane in range(lanes):
            one[lane] = 1.0 if one[lane] > _lane_of(other, lane) else 0.0
    elif operation == 6:
        for lane in range(lanes):
            one[lane] = 1.0 if one[lane] >= _lane_of(other, lane) else 0.0
    elif operation == 7:
        for lane in range(lanes):
            one[lane] = 1.0 if one[lane] == _lane_of(other, lane) else 0.0
    elif operation == 8:
        for lane in range(lanes):
            one[lane] = 1.0 if one[lane] != _lane_of(other, lane) else 0.0
    elif operation == 10:
        for lane in range(lanes):
            one[lane] = max(one[lane], _lane_of(other, lane))
    else:
        for lane in range(lanes):
            one[lane] = _lane_of(other, lane) - one[lane]


@njit(cache=CACHED, nogil=True)
def _run(codes: Any, registers: Any, lanes: int, rows: Any, begin: int, fixed: Any) -> None:
    """Run a program over the rows from `begin` on; its outcome is in the first register.

    A code is (how, operation, argument); see programs.arranged."""
    top = -1
    for step in range(len(codes)):
        how, operation, argument = codes[step, 0], codes[step, 1], codes[step, 2]
        if how == 0:  # push a column
            top += 1
            target, source = registers[top], rows[argument, begin : begin + lanes]
            for lane in range(lanes):
                target[lane] = source[lane]
        elif how == 1:  # push a number
            top += 1
            target, value = registers[top], fixed[argument]
            for lane in range(lanes):
                target[lane] = value
        elif how == 2:
            top -= 1
            _combine(operation, registers[top], registers[top + 1], lanes)
        elif how == 3:
            _combine(operation, registers[top], rows[argument, begin : begin + lanes], lanes)
        elif how == 4:
            _combine(operation, registers[top], fixed[argument], lanes)
        elif operation == 0:
            one = registers[top]
            for lane in range(lanes):
                one[lane] = -one[lane]
        elif operation == 1:
            one = registers[top]
            for lane in range(lanes):
                one[lane] = abs(one[lane])
        else:
            one = registers[top]
            for lane in range(lanes):
                one[lane] = 1.0 - one[lane]


@njit(cache=CACHED, inline="always")
def _first_at_least(tau: Any, by_time: Any, value: int) -> int:
    """The position in the order of time of the first row that is not before a time."""
    low, high = 0, len(tau)
    ordered = len(by_time) == 0
    while low < high:
        middle = (low + high) >> 1
        if tau[middle if ordered else by_time[middle]] < value:
            low = middle + 1
        else:
            high = middle
    return low


@njit(
    [
        _FOUND(
            *(IN64_ROWS, INT, _MATRIX, _MATRIX, IN8),
            *(IN64, IN64, read_only(word), INT, INT),
            *(IN32, IN64, IN64, read_only(word), INT),
            *(OUT32, OUT32, OUT64, OUT64, types.Array(word, 1, "C")),
        )
        for word in WORDS
    ],
    cache=CACHED,
    nogil=True,
)
def probe_all(
    codes: Any,
    depth: int,
    fixed: Any,
    rows: Any,
    valid: U8,
    latest: I64,
    deadline: I64,
    sets: Any,
    begin_row: int,
    begin_at: int,
    by_time: I32,
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
    """Pairs of partial results and stored rows of which a program is true, as `kernels.probe` gives them.

    fixed[row] are the numbers of one partial result; rows[i] is column i of the stored rows, in the order of event
    time. Rows with a 0 in `valid` (again in that order) satisfy nothing. An empty program is true."""
    found = 0
    room = len(out_left)
    registers = np.empty((max(depth, 1), BLOCK), np.float64)
    registers[0, :] = 1.0
    outcome = registers[0].view(np.int64)  # 0.0 is the only one without a bit
    ordered = len(by_time) == 0
    tested = len(codes) > 0
    with_valid = len(valid) > 0
    with_sets = len(sets) > 0
    with_stored_sets = len(stored_sets) > 0
    own_deadline = len(stored_deadline) > 0
    for row in range(begin_row, len(latest)):
        if with_sets and sets[row] == 0:
            continue
        last = deadline[row]
        stop = _first_at_least(stored_tau, by_time, last + 1)
        if row == begin_row and begin_at >= 0:
            at = begin_at
        else:
            at = _first_at_least(stored_tau, by_time, latest[row] - window)
        while at < stop:
            lanes = min(BLOCK, stop - at)
            if tested:
                _run(codes, registers, lanes, rows, at, fixed[row])
            for chunk in range(0, lanes, _CHUNK):
                end = min(chunk + _CHUNK, lanes)
                # Slices, since an index that might be negative keeps a loop from becoming vector instructions.
                part = outcome[chunk:end]
                hits = np.int64(0)
                for lane in range(len(part)):
                    hits |= part[lane]
                if hits == 0:
                    continue  # the usual case, and a loop without branches finds it out
                for lane in range(chunk, end):
                    if registers[0, lane] == 0.0:
                        continue
                    place = at + lane
                    if with_valid and valid[place] == 0:
                        continue
                    stored = place if ordered else by_time[place]
                    tau = stored_tau[stored]
                    until = stored_deadline[stored] if own_deadline else tau + window
                    if until < latest[row]:
                        continue
                    if with_sets:
                        common = sets[row] & stored_sets[stored] if with_stored_sets else sets[row]
                        if common == 0:
                            continue
                    if found == room:
                        return found, row, place
                    if with_sets:
                        out_sets[found] = common
                    out_left[found] = row
                    out_row[found] = stored
                    out_latest[found] = max(latest[row], tau)
                    out_deadline[found] = min(last, until)
                    found += 1
            at += lanes
    return found, len(latest), -1


@njit(cache=CACHED, inline="always")
def _first_above(values: Any, value: Any) -> int:
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) >> 1
        if values[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@njit(
    [
        _FOUND(
            *(read_only(key), read_only(key), IN64, IN64, read_only(word), INT, INT),
            *(read_only(key), IN32, IN64, IN64, read_only(word), INT),
            *(OUT32, OUT32, OUT64, OUT64, types.Array(word, 1, "C")),
        )
        for key in (types.int64, types.float64)
        for word in WORDS
    ],
    cache=CACHED,
    nogil=True,
)
def probe_range(
    lows: Any,
    highs: Any,
    latest: I64,
    deadline: I64,
    sets: Any,
    begin_row: int,
    begin_at: int,
    values: Any,
    order: I32,
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
    """Stored rows whose key is in the range of a partial result, lows[row] to highs[row], as `kernels.probe` does.

    Empty `lows` or `highs`, and ends that are NaN, are open: then keys that are NaN, the last ones, are found too."""
    found = 0
    room = len(out_left)
    with_sets = len(sets) > 0
    with_stored_sets = len(stored_sets) > 0
    own_deadline = len(stored_deadline) > 0
    for row in range(begin_row, len(latest)):
        if with_sets and sets[row] == 0:
            continue
        at = first_not_below(values, lows[row], 0) if len(lows) else 0
        bounded = len(highs) > 0 and highs[row] == highs[row]
        stop = _first_above(values, highs[row]) if bounded else len(values)
        if row == begin_row and begin_at >= 0:
            at = begin_at
        earliest, last = latest[row] - window, deadline[row]
        while at < stop:
            stored = order[at]
            tau = stored_tau[stored]
            until = stored_deadline[stored] if own_deadline else tau + window
            if tau >= earliest and tau <= last and until >= latest[row]:
                wanted = True
                if with_sets:
                    common = sets[row] & stored_sets[stored] if with_stored_sets else sets[row]
                    wanted = common != 0
                if wanted:
                    if found == room:
                        return found, row, at
                    if with_sets:
                        out_sets[found] = common
                    out_left[found] = row
                    out_row[found] = stored
                    out_latest[found] = max(latest[row], tau)
                    out_deadline[found] = min(last, until)
                    found += 1
            at += 1
    return found, len(latest), -1
