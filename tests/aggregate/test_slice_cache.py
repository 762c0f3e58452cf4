"""Caches of final slices: sparse keys, keys that come and go, gaps of years, and windows that are closed early."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from tests.support.windowed import containing
from watersmeet.aggregate import structure
from watersmeet.aggregate.accumulator import ROWS, Accumulator
from watersmeet.aggregate.combined import combined_buckets
from watersmeet.aggregate.matrix import Matrix
from watersmeet.aggregate.partials import partial_aggregates
from watersmeet.aggregate.slice_cache import DueRange, SliceCache
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.aggregate.sparse import SparseSlices
from watersmeet.model.expression import ColumnRef
from watersmeet.model.sliding_window import SlidingWindow
from watersmeet.store.bucket import Bucket

K, X = ColumnRef("k", "bigint"), ColumnRef("x", "bigint")
STORE = SliceStore("r", (), (K,), (ROWS, Accumulator("count", X), Accumulator("sum", X), Accumulator("min", X)), 10)


def bucket(rows: list[tuple[int, int, int]]) -> Bucket:
    at, k, x = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    made = partial_aggregates(STORE, pa.record_batch({"k": k, "x": x}), at).rows
    assert made is not None
    return made


def read(cache: SliceCache, start: int, end: int) -> Counter[tuple[int, int, int]]:
    rows, _ = cache.read((Accumulator("sum", X), Accumulator("min", X)), ROWS, np.array([start]), np.array([end]))
    low, high = (np.asarray(rows.column(name)) for name in STORE.columns_of(Accumulator("sum", X)))
    least = rows.column(STORE.columns_of(Accumulator("min", X))[0]).to_pylist()
    return Counter(zip(rows.column("k0").to_pylist(), (low + (high << 32)).tolist(), least, strict=True))


def batch(rows: list[tuple[int, int, int]], start: int, end: int) -> Counter[tuple[int, int, int]]:
    found: dict[int, list[int]] = {}
    for at, k, x in rows:
        if start <= at < end:
            found.setdefault(k, []).append(x)
    return Counter((k, sum(values), min(values)) for k, values in found.items())


@pytest.mark.parametrize("small", [1 << 16, 4])
def test_keys_that_come_and_go(small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each key is in few slices; with a small limit the matrix is given up for lists of slices."""
    monkeypatch.setattr(structure, "SMALL", small)
    chance = np.random.default_rng(15)
    rows: list[tuple[int, int, int]] = []
    buckets: list[Bucket] = []
    cache = SliceCache(STORE, 200)
    for tick in range(60):
        new = [(int(tick * 30 + chance.integers(30)), int(tick * 10 + chance.integers(12)), int(chance.integers(-9, 9)))
               for _ in range(8)]  # fmt: skip
        rows += new
        buckets.append(bucket(new))
        until = (tick + 1) * 30
        if tick % 7 == 0:
            merged = combined_buckets(STORE, buckets, until - 400)
            buckets = [merged] if merged is not None else []
        cache.advance(lambda begin, end: buckets, until - 200, until)  # noqa: B023
        for start in (until - 200, until - 170, until - 20, until - 10):
            assert read(cache, start, until) == batch(rows, start, until)
        assert read(cache, until - 120, until - 50) == batch(rows, until - 120, until - 50)
    assert isinstance(cache._form, Matrix if small > 4 else SparseSlices)


def test_years_without_rows_cost_nothing() -> None:
    year = 365 * 86_400_000_000
    rows = [(5, 1, 1), (7 * year + 3, 1, 2), (7 * year + 95, 2, 3)]
    cache = SliceCache(STORE, 100)
    cache.advance(lambda begin, end: [bucket(rows)], -100, 8 * year)
    grid = SlidingWindow(100, 10)
    _, starts = cache.due([DueRange(grid, -90, 8 * year)])
    expected = {start for at, _, _ in rows for start in containing(grid, at)}
    assert starts.tolist() == sorted(expected)
