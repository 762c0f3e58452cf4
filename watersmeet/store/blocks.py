"""The compiled loops of steps that have no equality: a range of a sorted index, or all rows in the window.

A numeric predicate is a program for a stack of registers, each as wide as a block of rows. One loop runs any program:
an operation goes over a whole block before the next one begins, so that its inner loop is a few vector instructions,
and choosing the operation costs nothing by row. Nothing has to be compiled for a new predicate. (A kernel of its own
for each predicate would be faster by the registers' traffic, and would cost a second of compiling in every worker.)

Numbers are float64. `is_safe` says beforehand whether that gives SQL's answer for all rows at hand: from the least and
the largest value of each operand it follows how large any intermediate value can be.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit, types

from watersmeet.model.predicate import Program
from watersmeet.store.kernels import I32, I64, U8

BLOCK = 1024
EXACT = float(1 << 53)  # whole numbers up to here are float64s
_OPERATIONS = ("row", "number", "+", "-", "*", "/", "neg", "abs", "<", "<=", ">", ">=", "=", "<>", "and", "or", "not")
_CODE = {name: code for code, name in enumerate(_OPERATIONS)}
_PUSHES = ("row", "number")
_UNARY = ("neg", "abs", "not")

_IN64, _IN32, _IN8 = (types.Array(kind, 1, "C", readonly=True) for kind in (types.int64, types.int32, types.uint8))
_OUT64, _OUT32 = types.Array(types.int64, 1, "C"), types.Array(types.int32, 1, "C")
_MATRIX = types.Array(types.float64, 2, "C", readonly=True)
_CODES = types.Array(types.int64, 2, "C", readonly=True)
_NUMBERS = types.Array(types.float64, 1, "C", readonly=True)
_WORDS = (types.uint8, types.uint16, types.uint32, types.uint64)
_INT = types.int64
_FOUND: Any = types.Tuple((_INT, _INT, _INT))


@lru_cache(maxsize=4096)
def encoded(program: Program, operands: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Operations with their arguments, the constants, and how many registers are needed."""
    codes: list[tuple[int, int]] = []
    numbers: list[float] = []
    depth = deepest = 0
    for name, argument in program:
        if name == "number":
            codes.append((_CODE[name], len(numbers)))
            numbers.append(argument)
        else:
            codes.append((_CODE[name], int(argument) if name == "row" else 0))
        depth += 1 if name in _PUSHES else 0 if name in _UNARY else -1
        deepest = max(deepest, depth)
    assert depth == 1, f"{program} leaves {depth} values"
    assert all(at < operands for code, at in codes if code == 0), f"{program} reads more than {operands} operands"
    return np.array(codes, np.int64).reshape(-1, 2), np.array(numbers, np.float64), deepest


def is_safe(program: Program, lows: list[float], highs: list[float]) -> bool:
    """Whether float64 gives SQL's answer, if operand i is between lows[i] and highs[i].

    The argument of an arithmetic operation is the largest result that its type holds."""
    stack: list[tuple[float, float]] = []
    for name, argument in program:
        if name == "row":
            stack.append((lows[int(argument)], highs[int(argument)]))
        elif name == "number":
            stack.append((argument, argument))
        elif name in ("neg", "abs"):
            low, high = stack.pop()
            stack.append((-high, -low) if name == "neg" else (0.0, max(abs(low), abs(high))))
        elif name in ("+", "-", "*", "/"):
            (b, d), (a, c) = stack.pop(), stack.pop()
            if name == "/" and b <= 0 <= d:
                return False  # NULL in SQL
            with np.errstate(all="ignore"):
                corners = {
                    "+": (a + b, c + d),
                    "-": (a - d, c - b),
                    "*": (a * b, a * d, c * b, c * d),
                    "/": (a / (b or 1), a / (d or 1), c / (b or 1), c / (d or 1)),
                }[name]
            stack.append((min(corners), max(corners)))
            if not max(-stack[-1][0], stack[-1][1]) <= argument:
                return False
        elif name == "not":
            pass
        else:
            stack.pop()
            stack[-1] = (0.0, 1.0)
    return True


@njit(cache=True, nogil=True, fastmath=False)
def _run(codes: Any, numbers: Any, registers: Any, lanes: int, rows: Any, begin: int, fixed: Any, left: int) -> None:
    """Run a program over some lanes; its outcome is in the first register.

    Operand i of the first `left` ones is the number fixed[i]; others are rows[i - left][begin:]."""
    top = -1
    for step in range(len(codes)):
        code, argument = codes[step, 0], codes[step, 1]
        if code == 0:
            top += 1
            target = registers[top]
            if argument < left:
                value = fixed[argument]
                for lane in range(lanes):
                    target[lane] = value
            else:
                source = rows[argument - left]
                for lane in range(lanes):
                    target[lane] = source[begin + lane]
        elif code == 1:
            top += 1
            target = registers[top]
            value = numbers[argument]
            for lane in range(lanes):
                target[lane] = value
        elif code == 6:
            one = registers[top]
            for lane in range(lanes):
                one[lane] = -one[lane]
        elif code == 7:
            one = registers[top]
            for lane in range(lanes):
                one[lane] = abs(one[lane])
        elif code == 16:
            one = registers[top]
            for lane in range(lanes):
                one[lane] = 1.0 - one[lane]
        else:
            top -= 1
            one, other = registers[top], registers[top + 1]
            if code == 2:
                for lane in range(lanes):
                    one[lane] += other[lane]
            elif code == 3:
                for lane in range(lanes):
                    one[lane] -= other[lane]
            elif code == 4:
                for lane in range(lanes):
                    one[lane] *= other[lane]
            elif code == 5:
                for lane in range(lanes):
                    one[lane] /= other[lane]
            elif code == 8:
                for lane in range(lanes):
                    one[lane] = 1.0 if one[lane] < other[lane] else 0.0
            elif code == 9:
                for lane in range(lanes):
                    one[lane] = 1.0 if one[lane] <= other[lane] else 0.0
            elif code == 10:
                for lane in range(lanes):
                    one[lane] = 1.0 if one[lane] > other[lane] else 0.0
            elif code == 11:
                for lane in range(lanes):
                    one[lane] = 1.0 if one[lane] >= other[lane] else 0.0
            elif code == 12:
                for lane in range(lanes):
                    one[lane] = 1.0 if one[lane] == other[lane] else 0.0
            elif code == 13:
                for lane in range(lanes):
                    one[lane] = 1.0 if one[lane] != other[lane] else 0.0
            elif code == 14:
                for lane in range(lanes):
                    one[lane] = one[lane] * other[lane]
            else:
                for lane in range(lanes):
                    one[lane] = max(one[lane], other[lane])


@njit(types.void(_CODES, _NUMBERS, _INT, _MATRIX, types.Array(types.uint8, 1, "C")), cache=True, nogil=True)
def run_rows(codes: Any, numbers: Any, depth: int, operands: Any, passed: U8) -> None:
    """Whether the program is true of each row: operands[i] are the values of operand i."""
    registers = np.empty((depth, BLOCK), np.float64)
    fixed = np.empty(0, np.float64)
    for begin in range(0, len(passed), BLOCK):
        lanes = min(BLOCK, len(passed) - begin)
        _run(codes, numbers, registers, lanes, operands, begin, fixed, 0)
        for lane in range(lanes):
            passed[begin + lane] = registers[0, lane] != 0.0


def _read(kind: Any) -> Any:
    return types.Array(kind, 1, "C", readonly=True)


@njit(cache=True, inline="always")
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
            *(_CODES, _NUMBERS, _INT, _MATRIX, _MATRIX, _IN8),
            *(_IN64, _IN64, _read(word), _INT, _INT),
            *(_IN32, _IN64, _IN64, _read(word), _INT),
            *(_OUT32, _OUT32, _OUT64, _OUT64, types.Array(word, 1, "C")),
        )
        for word in _WORDS
    ],
    cache=True,
    nogil=True,
)
def probe_all(
    codes: Any,
    numbers: Any,
    depth: int,
    left_operands: Any,
    right_operands: Any,
    right_valid: U8,
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

    left_operands[row] are the values of one partial result; right_operands[i] those of the stored rows, in the order
    of event time. Rows with a 0 in `right_valid` (again in that order) satisfy nothing. An empty program is true."""
    found = 0
    room = len(out_left)
    registers = np.empty((max(depth, 1), BLOCK), np.float64)
    registers[0, :] = 1.0
    left = left_operands.shape[1]
    ordered = len(by_time) == 0
    tested = len(codes) > 0
    with_valid = len(right_valid) > 0
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
                _run(codes, numbers, registers, lanes, right_operands, at, left_operands[row], left)
            for lane in range(lanes):
                if registers[0, lane] == 0.0:
                    continue
                place = at + lane
                if with_valid and right_valid[place] == 0:
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


@njit(cache=True, inline="always")
def _first_not_below(values: Any, value: Any) -> int:
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, inline="always")
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
            *(_read(key), _read(key), _IN64, _IN64, _read(word), _INT, _INT),
            *(_read(key), _IN32, _IN64, _IN64, _read(word), _INT),
            *(_OUT32, _OUT32, _OUT64, _OUT64, types.Array(word, 1, "C")),
        )
        for key in (types.int64, types.float64)
        for word in _WORDS
    ],
    cache=True,
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
        at = _first_not_below(values, lows[row]) if len(lows) else 0
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
