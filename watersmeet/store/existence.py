"""The compiled loop of leaf checks: for which queries partial results have a partner in a bucket."""

from __future__ import annotations

from typing import Any

import numpy as np

from watersmeet.store.compile_cache import CACHED  # isort: skip - before Numba is imported
from numba import njit, types

from watersmeet.store.kernels import BISECT_FROM, GOLDEN, I32, I64, IN32, IN64, INT, WORDS, first_from, read_only
from watersmeet.store.packed import row_at, slot_bounds, slots_in, width_of


@njit(
    [
        types.void(
            *(IN64, IN64, IN64, IN64),
            *(IN32, IN32, IN64, IN64, read_only(word), INT),
            types.Array(word, 1, "C"),
        )
        for word in WORDS
    ],
    cache=CACHED,
    nogil=True,
)
def clear_found(
    codes: I64,
    latest: I64,
    deadline: I64,
    limits: I64,
    starts: I32,
    order: I32,
    stored_codes: I64,
    stored_tau: I64,
    stored_sets: Any,
    window: int,
    words: Any,
) -> None:
    """Clear in each word the bits of the queries that want a stored row which joins the partial result.

    The windows are those of `probe` in kernels.py. A row is left as soon as its word is 0. Where `limits` are given,
    only that many rows of the bucket count. Empty `stored_sets`: every query wants every stored row."""
    shift, fine = slots_in(starts)
    width = width_of(len(stored_codes))
    with_stored_sets = len(stored_sets) > 0
    limited = len(limits) > 0
    for row in range(len(codes)):
        if words[row] == 0:
            continue
        code = codes[row]
        slot = np.int64((np.uint64(code) * GOLDEN) >> shift)
        at, stop = slot_bounds(starts, fine, slot)
        earliest = latest[row] - window
        last = deadline[row]
        if stop - at > BISECT_FROM:
            at = first_from(order, width, stored_tau, at, stop, earliest)
        while at < stop:
            stored = row_at(order, width, at)
            if stored_codes[stored] == code:
                tau = stored_tau[stored]
                if tau > last:
                    break
                if tau >= earliest and (not limited or stored < limits[row]):
                    if with_stored_sets:
                        words[row] &= ~stored_sets[stored]
                    else:
                        words[row] = 0
                    if words[row] == 0:
                        break
            at += 1
