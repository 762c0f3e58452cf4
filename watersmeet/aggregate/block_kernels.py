"""Tables of blocks: what any run of slices combines to, in one step, for aggregates that cannot be subtracted.

Level j cuts the slices into blocks of 2^(j + 1). In the first half of a block an entry combines its slice and all
behind it in that half, in the second half its slice and all before it in that half. So a run of slices [a, b] is entry
a and entry b of the level of the highest bit in which a and b differ; level 0 has the slices themselves. No run is
longer than 2^top, so the last two levels, `top` and `top + 1`, cut the slices into blocks of 2^top and have in each of
them what begins it and what ends it: they serve all runs that differ in higher bits. An entry is
table[level, slice - offset, key].

A slice is appended when no row of it can come any more, so entries never change.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from watersmeet.store.compile_cache import CACHED  # isort: skip - before Numba is imported
from numba import njit, types

from watersmeet.store.kernels import I64, INT

_DOUBLES, _INTEGERS = types.Array(types.float64, 3, "C"), types.Array(types.int64, 3, "C")


def entries(table: np.ndarray, offset: int, begins: I64, ends: I64, keys: I64) -> tuple[np.ndarray, np.ndarray]:
    """The two entries of each run of slices, from begins[r] to before ends[r], of a key; the same one for one slice."""
    last = ends - 1
    top = len(table) - 2
    level = np.frexp((begins ^ last).astype(np.float64))[1].astype(np.int64) - 1
    level[begins == last] = 0
    far = level >= top
    left = table[np.where(far, top + 1, level), begins - offset, keys]
    right = table[np.where(far, top, level), last - offset, keys]
    return left, right


@njit(inline="always")
def _run(level: Any, top: Any, at: Any, offset: Any) -> tuple[int, int, int]:
    """Which entries of a level follow from slice `at`: back from there to `last`, each with the one beside it."""
    half = 1 << min(level, top)
    if level == top or (level < top and at & half):
        return -1, at - 1, half
    if at & (half - 1) == half - 1:
        return 1, max(at - half, offset - 1), half
    return 0, at, half


@njit(inline="always")
def _joined(n: Any, mean: Any, m2: Any, more: Any, other: Any, squares: Any) -> tuple[float, float, float]:
    if n == 0.0:
        return more, other, squares
    if more == 0.0:
        return n, mean, m2
    distance = other - mean
    share = more / (n + more)
    return n + more, mean + distance * share, m2 + squares + distance * distance * n * share


@njit(types.void(_DOUBLES, INT, INT, INT, INT), cache=CACHED, nogil=True)
def extend_sums(table: Any, offset: int, begin: int, end: int, keys: int) -> None:
    """Fill the levels above 0 for the slices from begin to end."""
    for level in range(1, len(table)):
        for at in range(begin, end):
            step, last, half = _run(level, len(table) - 2, at, offset)
            for back in range(at, last, -1):
                edge = (back & (half - 1) == 0 or back == offset) if step < 0 else back == at
                for key in range(keys):
                    beside = 0.0 if edge else table[level, back + step - offset, key]
                    table[level, back - offset, key] = beside + table[0, back - offset, key]


@njit(types.void(_INTEGERS, INT, INT, INT, INT, types.boolean), cache=CACHED, nogil=True)
def extend_extremes(table: Any, offset: int, begin: int, end: int, keys: int, largest: bool) -> None:
    for level in range(1, len(table)):
        for at in range(begin, end):
            step, last, half = _run(level, len(table) - 2, at, offset)
            for back in range(at, last, -1):
                edge = (back & (half - 1) == 0 or back == offset) if step < 0 else back == at
                for key in range(keys):
                    value = table[0, back - offset, key]
                    if not edge:
                        beside = table[level, back + step - offset, key]
                        value = max(value, beside) if largest else min(value, beside)
                    table[level, back - offset, key] = value


@njit(types.void(_DOUBLES, _DOUBLES, _DOUBLES, INT, INT, INT, INT), cache=CACHED, nogil=True)
def extend_moments(n: Any, mean: Any, m2: Any, offset: int, begin: int, end: int, keys: int) -> None:
    for level in range(1, len(n)):
        for at in range(begin, end):
            step, last, half = _run(level, len(n) - 2, at, offset)
            for back in range(at, last, -1):
                here, beside = back - offset, back + step - offset
                edge = (back & (half - 1) == 0 or back == offset) if step < 0 else back == at
                for key in range(keys):
                    count, average, squares = n[0, here, key], mean[0, here, key], m2[0, here, key]
                    if not edge:
                        count, average, squares = _joined(
                            n[level, beside, key], mean[level, beside, key], m2[level, beside, key],
                            count, average, squares,
                        )  # fmt: skip
                    n[level, here, key], mean[level, here, key], m2[level, here, key] = count, average, squares


def paired_moments(left: list[np.ndarray], right: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and squares of two runs together."""
    (n, mean, m2), (more, other, squares) = left, right
    with np.errstate(divide="ignore", invalid="ignore"):  # runs without values, which are left out below
        distance, share = other - mean, more / (n + more)
        both = mean + distance * share, m2 + squares + distance * distance * n * share
    first, second = n == 0.0, more == 0.0
    return (
        np.where(first, other, np.where(second, mean, both[0])),
        np.where(first, squares, np.where(second, m2, both[1])),
    )
