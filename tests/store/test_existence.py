"""The compiled loop of leaf checks against all pairs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from watersmeet.model import ColumnRef, KeyPart
from watersmeet.store.bucket import Bucket
from watersmeet.store.existence import clear_found

KEY = (KeyPart(ColumnRef("k", "bigint"), "bigint"),)
NONE = np.empty(0, np.int64)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 7)), max_size=40),
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 8), st.integers(0, 7), st.integers(0, 40)),
        min_size=1,
        max_size=20,
    ),
    st.integers(0, 6),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=examples(200))
def test_bits_of_queries_with_a_partner_are_cleared(
    stored: list[tuple[int, int, int]],
    asking: list[tuple[int, int, int, int, int]],
    window: int,
    with_sets: bool,
    limited: bool,
) -> None:
    """Stored rows have a key, a time and a query set; those that ask also a longest wait, and how many rows count."""
    keys, times, sets = (np.array([row[at] for row in stored], np.int64) for at in range(3))
    bucket = Bucket(pa.record_batch({"k": pa.array(keys, pa.int64())}), times)
    index = bucket.index(KEY)
    codes, latest, wait, words, limits = (np.array([row[at] for row in asking], np.int64) for at in range(5))
    left = words.astype(np.uint8)
    wanted = sets.astype(np.uint8) if with_sets else np.empty(0, np.uint8)
    where = (index.starts, index.order, index.codes.values, times, wanted, window)
    clear_found(codes, latest, latest + wait, limits if limited else NONE, *where, left)
    for number, (key, time, longest, word, limit) in enumerate(asking):
        expected = word
        for at, (own, tau, bits) in enumerate(stored):
            inside = time - window <= tau <= time + longest and own == key
            if inside and not (limited and at >= limit):
                expected &= ~bits if with_sets else 0
        assert left[number] == expected
