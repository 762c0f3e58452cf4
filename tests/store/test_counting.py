"""The loop that counts matches agrees with a look at every pair: windows, filters, deadlines, slots of several keys."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.store.counting import bits_of_lists, count_matches, count_products, slots_of_one_key
from watersmeet.store.kernels import build_index
from watersmeet.store.packed import packed

QUERIES = 5
times = st.integers(0, 12)
words = st.integers(0, 2**QUERIES - 1)
rows = st.lists(st.tuples(st.integers(0, 3), times, times, words), max_size=20)  # code, time, span to deadline, set
kinds = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), words), max_size=3)  # windows of both sides, queries
BITS = st.sampled_from((1, 6))  # of slots: plain, and in blocks


@given(
    rows,
    rows,
    st.integers(6, 8),
    kinds,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from((0, 3, 1000)),
    BITS,
)
def test_every_pair_that_a_query_wants_is_counted(
    probing: list[tuple[int, int, int, int]],
    stored: list[tuple[int, int, int, int]],
    window: int,
    narrower: list[tuple[int, int, int]],
    materialized: bool,
    filtered: bool,
    stored_filtered: bool,
    budget: int,
    slot_bits: int,
) -> None:
    filtered = filtered or stored_filtered
    masks: list[int] = []  # a query has one kind
    for _, _, wanted in narrower:
        masks.append(wanted & ~sum(masks))
    codes, latest, span, sets = (np.array([row[at] for row in probing], np.int64) for at in range(4))
    deadline = latest + (span if materialized else 6)
    stored_codes, tau, until, stored_sets = (np.array([row[at] for row in stored], np.int64) for at in range(4))
    until = tau + np.minimum(until, window)
    by_time = np.argsort(tau, kind="stable").astype(np.int32)
    starts, order = packed(*build_index(stored_codes, np.empty(0, np.uint8), by_time, slot_bits), len(tau))
    windows = np.array([kind[1] for kind in narrower], np.int64)
    own = np.array([latest + kind[0] for kind in narrower], np.int64).reshape(len(narrower), len(latest))
    stored_own = np.array([np.minimum(until, tau + kind[1]) for kind in narrower], np.int64)
    counts, found, row = np.zeros(64, np.int64), 0, 0
    while row < len(codes):
        more, row = count_matches(
            codes,
            latest,
            deadline,
            own,
            sets.astype(np.uint8) if filtered else np.empty(0, np.uint8),
            row,
            budget,
            starts,
            order,
            slots_of_one_key(starts, order, stored_codes),
            stored_codes,
            tau,
            until if materialized else np.empty(0, np.int64),
            stored_own.reshape(len(narrower), len(tau) if materialized and narrower else 0)
            if materialized
            else np.empty((len(narrower), 0), np.int64),
            stored_sets.astype(np.uint8) if stored_filtered else np.empty(0, np.uint8),
            window,
            windows,
            np.array(masks, np.uint64),
            np.uint64(2**QUERIES - 1),
            counts,
        )
        found += more
    expected, pairs = [0] * QUERIES, 0
    for one in range(len(probing)):
        for other in range(len(stored)):
            newest = max(latest[one], tau[other])
            ends = until[other] if materialized else tau[other] + window
            if codes[one] != stored_codes[other] or newest > min(deadline[one], ends):
                continue
            word = int(sets[one]) if filtered else 2**QUERIES - 1
            word &= int(stored_sets[other]) if stored_filtered else word
            pairs += word != 0
            if narrower:
                inside = 0
                for kind, (_, last, _) in enumerate(narrower):
                    ends = stored_own[kind, other] if materialized else tau[other] + last
                    inside |= masks[kind] if newest <= min(own[kind, one], ends) else 0
                word &= inside
            expected = [count + (word >> bit & 1) for bit, count in enumerate(expected)]
    assert counts[:QUERIES].tolist() == expected
    assert not counts[QUERIES:].any()
    assert found == pairs


lists = st.lists(
    st.tuples(st.integers(0, 3), st.lists(st.tuples(times, st.integers(0, 8), words), min_size=1, max_size=6)),
    max_size=5,
)


@given(lists, rows, st.integers(0, 8), st.booleans(), st.booleans(), st.booleans(), st.sampled_from((0, 1000)), BITS)
def test_products_are_what_their_pairs_are(
    probing: list[tuple[int, list[tuple[int, int, int]]]],
    stored: list[tuple[int, int, int, int]],
    window: int,
    materialized: bool,
    filtered: bool,
    stored_filtered: bool,
    budget: int,
    slot_bits: int,
) -> None:
    flat = [one for _, members in probing for one in members]
    latest, span, sets = (np.array([one[at] for one in flat], np.int64) for at in range(3))
    bounds = np.cumsum([0, *(len(members) for _, members in probing)])
    codes, tau, until, stored_sets = (np.array([row[at] for row in stored], np.int64) for at in range(4))
    until = tau + np.minimum(until, window)
    by_time = np.argsort(tau, kind="stable").astype(np.int32)
    starts, order = packed(*build_index(codes, np.empty(0, np.uint8), by_time, slot_bits), len(tau))
    numbers = np.zeros((len(probing), 64), np.int64)
    given_sets = sets.astype(np.uint8) if filtered else np.full(len(flat), 2**QUERIES - 1, np.uint8)
    bits_of_lists(bounds, given_sets, numbers)
    counts, at = np.zeros(64, np.int64), 0
    while at < len(probing):
        _, at = count_products(
            np.array([code for code, _ in probing], np.int64),
            bounds,
            latest,
            latest + span,
            given_sets if filtered else np.empty(0, np.uint8),
            numbers,
            at,
            budget,
            starts,
            order,
            codes,
            tau,
            until if materialized else np.empty(0, np.int64),
            stored_sets.astype(np.uint8) if stored_filtered else np.empty(0, np.uint8),
            window,
            np.uint64(2**QUERIES - 1),
            counts,
        )
    expected = [0] * QUERIES
    for code, members in probing:
        for newest, length, word in members:
            for other in range(len(stored)):
                ends = until[other] if materialized else tau[other] + window
                if code == codes[other] and max(newest, tau[other]) <= min(newest + length, ends):
                    wanted = word if filtered else 2**QUERIES - 1
                    wanted &= int(stored_sets[other]) if stored_filtered else wanted
                    expected = [count + (wanted >> bit & 1) for bit, count in enumerate(expected)]
    assert counts[:QUERIES].tolist() == expected
    assert not counts[QUERIES:].any()
