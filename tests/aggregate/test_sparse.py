"""Windows of many keys from lists of slices: the same as from the rows themselves, whatever the keys and aggregates."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.many_keys import as_many_keys
from watersmeet.aggregate import key_table, structure
from watersmeet.aggregate.accumulator import ROWS, Accumulator
from watersmeet.aggregate.key_table import KeyTable
from watersmeet.aggregate.matrix import Matrix
from watersmeet.aggregate.partials import partial_aggregates
from watersmeet.aggregate.slice_cache import SliceCache
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.aggregate.sparse import PartsOf, SparseSlices
from watersmeet.model.expression import ColumnRef
from watersmeet.store.bucket import Bucket
from watersmeet.store.codes import Codes

NAME, NUMBER, X, D = (ColumnRef(*each) for each in (("s", "string"), ("k", "int"), ("x", "bigint"), ("d", "double")))
PARTS = tuple(
    part
    for each in (Accumulator("sum", X), Accumulator("min", X), Accumulator("max", D), Accumulator("moments", D))
    for part in (each, each.counted)
)
STORE = SliceStore("r", (), (NAME, NUMBER), tuple(dict.fromkeys((ROWS, *PARTS))), 10)
Row = tuple[int, str | None, int | None, int | None, float | None]


def bucket(rows: list[Row]) -> Bucket:
    at, *columns = zip(*rows, strict=True)
    types = (pa.string(), pa.int32(), pa.int64(), pa.float64())
    batch = pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)], names=["s", "k", "x", "d"]
    )
    made = partial_aggregates(STORE, batch, np.array(at, np.int64)).rows
    assert made is not None
    return made


def drawn(random: Random, at: range) -> Row:
    name = random.choice([None, "", "a", "b", *(f"key {random.randint(0, 300)}" for _ in range(4))])
    number = random.choice([None, 0, 1, random.randint(-9, 9)])
    return random.choice(at), name, number, random.choice([None, -(1 << 62), 1 << 62, 7]), random.choice([None, 0.5, 3])


def expected(rows: list[Row], start: int, end: int) -> dict[tuple[str | None, int | None], tuple[Any, ...]]:
    found: dict[tuple[str | None, int | None], list[Row]] = {}
    for row in rows:
        if start <= row[0] < end:
            found.setdefault((row[1], row[2]), []).append(row)
    made = {}
    for key, some in found.items():
        integers = [row[3] for row in some if row[3] is not None]
        doubles = [row[4] for row in some if row[4] is not None]
        mean = sum(doubles) / len(doubles) if doubles else 0.0
        made[key] = (
            len(some),
            sum(integers),
            min(integers, default=None),
            max(doubles, default=None),
            mean,
            sum((each - mean) ** 2 for each in doubles),
        )
    return made


def read(cache: SliceCache, start: int, end: int) -> dict[tuple[str | None, int | None], tuple[Any, ...]]:
    made, windows = cache.read((ROWS, *PARTS), ROWS, np.array([start]), np.array([end]))
    assert not windows.any()

    def column(part: Accumulator, at: int = 0) -> list[Any]:
        values: list[Any] = made.column(STORE.columns_of(part)[at]).to_pylist()
        return values

    total, moments = Accumulator("sum", X), Accumulator("moments", D)
    sums = [low + (high << 32) for low, high in zip(column(total), column(total, 1), strict=True)]
    rows = zip(column(ROWS), sums, column(PARTS[2]), column(PARTS[4]), column(moments), column(moments, 1), strict=True)
    keys = zip(made.column("k0").to_pylist(), made.column("k1").to_pylist(), strict=True)
    found = list(zip(keys, rows, strict=True))
    assert len(dict(found)) == len(found), "a key is there once"
    return dict(found)


def equal(one: dict[Any, tuple[Any, ...]], other: dict[Any, tuple[Any, ...]]) -> bool:
    return one.keys() == other.keys() and all(
        left[:4] == right[:4] and all(map(partial(math.isclose, abs_tol=1e-9), left[4:], right[4:]))
        for left, right in ((one[key], other[key]) for key in one)
    )


@pytest.fixture
def many_keys() -> Iterator[None]:
    with as_many_keys():
        yield


@settings(max_examples=examples(40), deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from([0, 2, 1 << 12]))
def test_windows_of_keys_that_come_and_go(random: Random, few: int) -> None:
    with as_many_keys(few=few):
        rows: list[Row] = []
        buckets: list[Bucket] = []
        cache = SliceCache(STORE, 100)
        for tick in range(12):
            at = range(tick * 25, (tick + 1) * 25)
            new = [drawn(random, at) for _ in range(random.randint(1, 30))]
            rows += new
            buckets += [bucket(new[:9])] + ([bucket(new[9:])] if new[9:] else [])
            until = tick * 25
            cache.advance(lambda begin, end: buckets, until - 150, until)  # noqa: B023
            until = until // 10 * 10
            for start, end in ((until - 100, until), (until - 30, until), (until - 100, until - 40), (until, until)):
                assert equal(read(cache, start, end), expected(rows, start, end))
        assert isinstance(cache._form, SparseSlices)


@pytest.mark.usefixtures("many_keys")
def test_windows_that_end_together_are_one_pass() -> None:
    rows: list[Row] = [(at, f"k{at % 7}", 1, at, 1.0) for at in range(100)]
    cache = SliceCache(STORE, 100)
    cache.advance(lambda begin, end: [bucket(rows)], 0, 100)
    starts, ends = np.array([0, 50, 90, 20, 50]), np.array([100, 100, 100, 60, 50])
    made, windows = cache.read((Accumulator("sum", X),), ROWS, starts, ends)
    assert (np.diff(windows) >= 0).all()
    assert Counter(windows.tolist()) == {0: 7, 1: 7, 2: 7, 3: 7}
    low = np.asarray(made.column(STORE.columns_of(Accumulator("sum", X))[0]))
    totals = [int(low[windows == window].sum()) for window in range(5)]
    assert totals == [sum(range(start, end)) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


@pytest.mark.usefixtures("many_keys")
def test_keys_that_are_left_out_are_not_made() -> None:
    cache = SliceCache(STORE, 100)
    rows: list[Row] = [(at, f"k{at % 7}", 1, at, 1.0) for at in range(40)]
    cache.advance(lambda begin, end: [bucket(rows)], 0, 40)
    count = STORE.columns_of(ROWS)[0]

    def more_than_five(window: int, parts: PartsOf) -> np.ndarray | None:
        return np.asarray(parts([ROWS]).column(count)) > 5 if window == 0 else None

    made, windows = cache.read((), ROWS, np.array([0, 0]), np.array([40, 20]), more_than_five)
    assert Counter(windows.tolist()) == {0: 5, 1: 7}
    assert all(each > 5 for each in made.column(count).to_pylist()[:5])


def test_lists_that_are_empty_give_way_to_a_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix has a key of a slice once: rows of several buckets are combined before they go into one."""
    monkeypatch.setattr(structure, "SMALL", 4)
    many: list[Row] = [(at % 30, f"k{at}", 1, at, 1.0) for at in range(60)]
    one: list[Row] = [(501, "a", 1, 1, 1.0)]
    other: list[Row] = [(502, "a", 1, 2, 1.0)]
    cache = SliceCache(STORE, 100)
    cache.advance(lambda begin, end: [bucket(many)], 0, 30)
    forms: list[object] = [cache._form]
    cache.advance(lambda begin, end: [], 400, 450)
    cache.advance(lambda begin, end: [bucket(one), bucket(other)], 400, 510)
    forms.append(cache._form)
    assert [type(form) for form in forms] == [SparseSlices, Matrix]
    assert equal(read(cache, 500, 510), expected([*one, *other], 500, 510))


@pytest.mark.usefixtures("many_keys")
def test_a_pass_that_is_broken_off_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without memory it is tried again."""
    rows: list[Row] = [(at, f"k{at % 7}", 1, at, 1.0) for at in range(40)]
    cache = SliceCache(STORE, 100)
    cache.advance(lambda begin, end: [bucket(rows)], 0, 40)
    with monkeypatch.context() as patched:
        patched.setattr(SparseSlices, "_window", mock.Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            read(cache, 0, 40)
    assert equal(read(cache, 0, 40), expected(rows, 0, 40))


def test_keys_with_the_same_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def encode(values: pa.Array, kind: str) -> Codes:
        return Codes(np.zeros(len(values), np.int64), np.asarray(values.is_valid()).astype(np.uint8))

    monkeypatch.setattr(key_table, "encode", encode)
    names = ["a", "b", "a", "c", "b", None]
    table = KeyTable(pa.schema([("k", pa.string())]))
    for _ in range(2):
        numbers = table.numbers(pa.record_batch({"k": pa.array(names)})).tolist()
        assert table.column(0, np.array(numbers)).to_pylist() == names
    assert len(table) == len(set(names))
    table.keep(np.array([1, 3]))
    kept = table.column(0, np.array([0, 1])).to_pylist()
    for name, number in zip(names, table.numbers(pa.record_batch({"k": pa.array(names)})).tolist(), strict=True):
        assert table.column(0, np.array([number])).to_pylist() == [name]
        assert name not in kept or number == kept.index(name)


def test_more_columns_than_a_word_has_bits() -> None:
    names = [f"k{at}" for at in range(70)]
    table = KeyTable(pa.schema([(name, pa.int64()) for name in names]))
    batch = pa.RecordBatch.from_arrays(
        [pa.array([None if row == at else 0 for row in range(70)], pa.int64()) for at in range(70)], names=names
    )
    assert table.numbers(batch).tolist() == list(range(70))
    assert table.numbers(batch.slice(60)).tolist() == list(range(60, 70))
