"""Sketches of keys: exact while all keys fit, close to the truth beyond that, and mergeable in any order."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sketches import join_size, validate
from watersmeet.store.codes import Codes
from watersmeet.store.sketch import KEYS, SKETCH_ROWS, Sketch, sketch

few_keys = st.lists(st.integers(-100, 100), max_size=200)


def of(keys: list[int] | np.ndarray) -> Sketch:
    made = sketch(Codes(np.asarray(keys, np.int64)), len(keys))
    validate(made)
    return made


def exact_join(left: list[int], right: list[int]) -> int:
    there = Counter(right)
    return sum(count * there[key] for key, count in Counter(left).items())


@given(few_keys, few_keys)
def test_few_keys_are_known_exactly(left: list[int], right: list[int]) -> None:
    one, other = of(left), of(right)
    assert join_size(one, other) == pytest.approx(exact_join(left, right))
    assert one.distinct == len(set(left))
    assert one.rows == len(left) == one.groups.sum()


@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([1000, 5000, 20_000]))
def test_merging_pieces_gives_the_sketch_of_the_whole(seed: int, pieces: int, keys: int) -> None:
    values = np.random.default_rng(seed).integers(0, keys, 30_000)
    merged = of([])
    for piece in np.array_split(values, pieces):
        merged = of(piece).merged(merged)
        validate(merged)
    whole = of(values)
    below = whole.hashes < merged.threshold
    np.testing.assert_array_equal(merged.hashes, whole.hashes[below][: len(merged.hashes)])
    np.testing.assert_allclose(merged.counts, whole.counts[below][: len(merged.counts)])
    np.testing.assert_allclose(merged.groups, whole.groups)


@given(st.integers(0, 10**6), st.integers(2000, 40_000))
def test_join_sizes_of_many_keys_are_close(seed: int, keys: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = rng.integers(0, keys, 40_000), rng.integers(keys // 2, keys * 2, 30_000)
    truth = exact_join(left.tolist(), right.tolist())
    assert truth / 2 < join_size(of(left), of(right)) < truth * 2
    assert of(left).distinct == pytest.approx(len(set(left.tolist())), rel=0.3)


@pytest.mark.parametrize("seed", range(5))
def test_popular_keys_do_not_blur_a_join_with_one_partner_for_each_row(seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys = rng.permutation(10**6)[:8000]
    popular = np.where(rng.random(40_000) < 0.9, rng.choice(keys[:80], 40_000), rng.choice(keys, 40_000))
    one, other = of(keys), of(popular)
    assert join_size(one, other) == pytest.approx(40_000, rel=0.01)
    assert join_size(other, one) == pytest.approx(40_000, rel=0.01)
    assert other.joined(one).deviation < 1


def test_disjoint_keys_join_nothing() -> None:
    left, right = of(np.arange(20_000)), of(np.arange(20_000, 40_000))
    assert join_size(left, right) == 0
    assert left.joined(right)[1] > 10_000, "that nothing was found rests on many pairs"


def test_rows_beyond_the_limit_are_stood_for_by_the_first() -> None:
    values = np.random.default_rng(0).integers(0, 300, 4 * SKETCH_ROWS)
    made = of(values)
    assert made.rows == 4 * SKETCH_ROWS
    assert made.counts.sum() == pytest.approx(4 * SKETCH_ROWS)
    assert join_size(made, made) == pytest.approx(exact_join(values.tolist(), values.tolist()), rel=0.1)


def test_nulls_have_no_key() -> None:
    made = sketch(Codes(np.array([1, 1, 2]), np.array([1, 0, 0], np.uint8)), 3)
    assert (made.rows, made.distinct, made.counts.tolist()) == (3, 1, [1.0])


def test_a_heavy_key_shows_as_skew() -> None:
    assert of(np.arange(KEYS * 20)).skew < 1.6
    assert of(np.r_[np.arange(1000), np.zeros(9000)]).skew > 30
