"""Due windows in rounds: every window once, in order, and sizes that are known before it is made."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.aggregate.test_slice_cache import STORE, bucket
from tests.support.examples import examples
from watersmeet.aggregate import rounds as module
from watersmeet.aggregate import structure
from watersmeet.aggregate.accumulator import ROWS
from watersmeet.aggregate.due import DueQuery
from watersmeet.aggregate.matrix import Matrix
from watersmeet.aggregate.reading import SliceRead
from watersmeet.aggregate.rounds import rounds
from watersmeet.aggregate.slice_cache import DueRange, SliceCache
from watersmeet.aggregate.sparse import SparseSlices
from watersmeet.model import ColumnRef, Output, Query
from watersmeet.model.forms import SliceAggregates
from watersmeet.model.sliding_window import SlidingWindow

HOUR = 3_600_000_000
OUTPUTS = (Output("k", "bigint", ColumnRef("k0", "bigint")),)


def due(name: str, span: DueRange) -> DueQuery:
    form = SliceAggregates("r", None, STORE.keys, (), outputs=OUTPUTS)
    return DueQuery(Query(name, form, span.grid), (SliceRead(STORE, ROWS, ()),), span)


@settings(max_examples=examples(80))
@given(
    st.sampled_from([SlidingWindow(100, 10), SlidingWindow(30, 30), SlidingWindow(70, 20)]),
    st.sampled_from([1, 400, 3000, 1 << 40]),
    st.randoms(),
)
def test_each_window_is_in_one_round(grid: SlidingWindow, most: int, random: Random) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_WINDOWS", random.choice([3, 1 << 16]))
        check_rounds(grid, most, random)


def check_rounds(grid: SlidingWindow, most: int, random: Random) -> None:
    rows = [(random.randint(-500, 900), random.randint(1, 9), 1) for _ in range(random.randint(1, 40))]
    cache = SliceCache(STORE, grid.range)
    cache.advance(lambda begin, end: [bucket(rows)], -1000, 2000)
    spans = [DueRange(grid, random.randint(-900, 200) // grid.slide * grid.slide, random.randint(1, 99) * grid.slide)]
    spans += [DueRange(grid, -(1 << 61), 1 << 61)]
    wanted = [due(f"q{at}", span) for at, span in enumerate(spans)]
    covered: dict[str, list[int]] = {"q0": [], "q1": []}
    for some in rounds(wanted, lambda store: cache, most):
        sizes = []
        assert len({each.query.name for each in some}) == len(some)
        for each in some:
            _, starts = cache.due([each.span])
            covered[each.query.name] += starts.tolist()
            sizes.append(int(cache.sizes(starts, starts + grid.range).sum()) * cache.row_bytes)
            if len(starts):
                made, _ = cache.read((), ROWS, starts, starts + grid.range)
                assert made.num_rows * cache.row_bytes <= sizes[-1]
        one = sum(len(cache.due([each.span])[1]) for each in some) == 1
        assert sum(sizes) <= most or one, "more only where a window alone has more"
    for span, found in zip(spans, covered.values(), strict=True):
        expected = cache.due([span])[1].tolist()
        assert found == expected
        assert cache.count(span) == len(expected)
        assert cache.bound(span) >= cache.sizes(np.array(expected, np.int64), np.array(expected, np.int64) + 1).sum()


def test_windows_without_number_are_counted_and_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows are in billions of windows: each round has some of them, and nobody waits for the last."""
    fine = replace(STORE, width=1)
    cache = SliceCache(fine, HOUR)
    cache.advance(lambda begin, end: [bucket([(10, 1, 1), (HOUR, 2, 1)])], -HOUR, 3 * HOUR)
    span = DueRange(SlidingWindow(HOUR, 1), -HOUR, 2 * HOUR)
    assert cache.count(span) == 2 * HOUR - 10
    monkeypatch.setattr(module, "_WINDOWS", 1000)
    (piece,) = next(iter(rounds([due("q", span)], lambda store: cache, 1500 * cache.row_bytes)))
    assert (piece.span.opened, piece.span.until) == (11 - HOUR, 1011 - HOUR)


@pytest.mark.parametrize("keys", [1000, 10])
def test_a_matrix_that_would_be_mostly_empty_is_not_made(keys: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of a few keys, and then one with many: known before the matrix has room for all of them."""
    monkeypatch.setattr(structure, "SMALL", 4)
    sizes: list[int] = []
    reserve = Matrix._reserve

    def noting(matrix: Matrix, slices: int) -> None:
        sizes.append(slices * matrix.most_keys)
        reserve(matrix, slices)

    monkeypatch.setattr(Matrix, "_reserve", noting)
    few = [(10 * at, key, 1) for at in range(60) for key in range(4)]
    many = [(600, key, 1) for key in range(keys)]
    cache = SliceCache(STORE, 1000)
    cache.advance(lambda begin, end: [bucket(few)], 0, 600)
    assert isinstance(cache._form, Matrix)
    cache.advance(lambda begin, end: [bucket(few + many)] if begin < 600 else [bucket(many)], 0, 610)
    assert isinstance(cache._form, SparseSlices if keys == 1000 else Matrix)
    assert max(sizes) <= 4 * structure.DENSE * len(few + many)
    made, _ = cache.read((), ROWS, np.array([0]), np.array([610]))
    assert made.num_rows == keys


def test_a_matrix_that_would_be_too_large_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structure, "MATRIX_BYTES", 1000)
    cache = SliceCache(STORE, 1000)
    cache.advance(lambda begin, end: [bucket([(10 * at, at % 5, 1) for at in range(60)])], 0, 600)
    assert isinstance(cache._form, SparseSlices)
