"""Keys that are looked up without an index: every loop finds the same as with one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.model import ColumnRef, KeyPart
from watersmeet.store.bucket import MOST_PASSES, Bucket
from watersmeet.store.derived import FEWEST_ROWS, MOST_KEYS, Derived, Key
from watersmeet.store.kernels import probe

KEY: Key = (KeyPart(ColumnRef("k", "bigint"), "bigint"),)
ROWS = 3 * FEWEST_ROWS
NO_SETS = np.empty(0, np.uint64)


def made(keys: int, nulls: bool, in_order: bool, seed: int = 0) -> Bucket:
    rng = np.random.default_rng(seed)
    tau = rng.integers(0, 10**9, ROWS)
    values = pa.array(rng.integers(0, keys, ROWS), mask=rng.random(ROWS) < 0.3 if nulls else None)
    return Bucket(pa.record_batch({"k": values}), np.sort(tau) if in_order else tau)


def found(bucket: Bucket, codes: np.ndarray, few: bool) -> list[tuple[int, int]]:
    """Matches in a window of half of the time, in the order in which the loop finds them."""
    index = bucket.index_for(KEY, codes) if few else bucket.index(KEY)
    latest = np.full(len(codes), 6 * 10**8)
    room = 4 * ROWS
    left, row = np.empty(room, np.int32), np.empty(room, np.int32)
    outputs = (left, row, np.empty(room, np.int64), np.empty(room, np.int64), NO_SETS.copy())
    stored = (index.starts, index.order, index.codes.values, bucket.tau, bucket.deadline, NO_SETS)
    count, _, _ = probe(codes, latest, latest + 10**8, NO_SETS, 0, -1, *stored, 5 * 10**8, *outputs)
    return list(zip(left[:count].tolist(), row[:count].tolist(), strict=True))


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize(("keys", "wanted"), [(5, 3), (1000, 1), (1000, 200), (10**6, 500), (10**6, 0)])
def test_a_pass_finds_what_an_index_finds(keys: int, wanted: int, nulls: bool, in_order: bool) -> None:
    codes = np.random.default_rng(1).integers(0, keys, wanted)
    bucket = made(keys, nulls, in_order)
    few = found(bucket, codes, few=True)
    assert not bucket.has_index(KEY)
    assert few == found(bucket, codes, few=False)


def test_an_index_that_is_there_is_used(tmp_path: Path) -> None:
    info = made(10, False, True).write(tmp_path, "b", Derived((KEY,)), store="s", first_tick=1, last_tick=1)
    bucket = Bucket.open(tmp_path, info)
    assert bucket.has_index(KEY)
    assert bucket.index_for(KEY, np.arange(1)) is bucket.index(KEY)


def test_an_index_is_made_where_many_keys_are_looked_up_or_few_rows_are_there() -> None:
    many = made(10, False, True)
    many.index_for(KEY, np.arange(min(MOST_KEYS, ROWS // 16) + 1))
    assert many.has_index(KEY)
    small = made(10, False, True).keep(np.arange(FEWEST_ROWS - 1))
    small.index_for(KEY, np.arange(1))
    assert small.has_index(KEY)


def test_a_bucket_that_is_asked_again_and_again_gets_an_index() -> None:
    bucket = made(10, False, True)
    for _ in range(MOST_PASSES):
        assert not bucket.has_index(KEY)
        bucket.index_for(KEY, np.arange(2))
    assert bucket.index_for(KEY, np.arange(2)) is bucket.index(KEY)
