"""Looking up a few keys without an index: one pass over the codes of a bucket finds the rows that may have them.

An index costs time and space for every row that arrives. Where a store is probed by a key seldom (the regions of a
company look up their orders), a pass over its rows in the few ticks that ask costs less. What it finds becomes an index
of these rows alone, so that all loops that probe work as with any other index.
"""

from __future__ import annotations

import numpy as np

from watersmeet.store.compile_cache import CACHED  # isort: skip - before Numba is imported
from numba import njit

from watersmeet.store.codes import EVERY_ROW, Codes
from watersmeet.store.derived import FEWEST_ROWS, MOST_KEYS
from watersmeet.store.kernels import GOLDEN, I32, I64, IN8, IN32, IN64, INT, OUT32, U8, build_index, slot_bits

_SPARE_BITS = 4  # entries of the table for each key, as a power of two: few rows are taken for their entry alone


def is_few(codes: I64, rows: int) -> bool:
    """Whether so few keys are looked up in a bucket of so many rows that a pass over them may cost less."""
    return rows >= FEWEST_ROWS and len(codes) <= min(MOST_KEYS, rows // 16)


def index_of_few(wanted: I64, codes: Codes, by_time: I32) -> tuple[I32, I32]:
    """An index (starts, order) of the rows that may have one of the wanted codes."""
    bits = slot_bits(len(wanted)) + _SPARE_BITS
    table = np.zeros(1 << bits, np.uint8)
    table[(wanted.astype(np.uint64) * GOLDEN) >> np.uint64(64 - bits)] = 1
    rows = _rows_in(codes.values, codes.valid, by_time, table, bits)
    starts, order = build_index(codes.values[rows], EVERY_ROW, _IN_ORDER, slot_bits(len(rows)))
    return starts, rows[order]


_IN_ORDER = np.empty(0, np.int32)


@njit(OUT32(IN64, IN8, IN32, IN8, INT), cache=CACHED, nogil=True)
def _rows_in(codes: I64, valid: U8, by_time: I32, table: U8, bits: int) -> I32:
    """The rows whose codes have an entry in the table, in the order of event time."""
    shift = np.uint64(64 - bits)
    all_valid = len(valid) == 0
    sorted_already = len(by_time) == 0
    found = np.empty(len(codes), np.int32)
    count = 0
    for at in range(len(codes)):
        row = np.int32(at) if sorted_already else by_time[at]
        # Written always and counted where it is one of them: a branch that is hard to foresee costs more.
        found[count] = row
        there = table[np.int64((np.uint64(codes[row]) * GOLDEN) >> shift)]
        count += int(there if all_valid else there & valid[row])
    return found[:count].copy()
