"""Packed indexes: everything that was put in is read, in fewer bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.model import ColumnRef, KeyPart
from watersmeet.store.bucket import Bucket
from watersmeet.store.bucket_file import MAGIC
from watersmeet.store.derived import Derived
from watersmeet.store.kernels import build_index, slot_bits
from watersmeet.store.packed import BLOCK, packed, row_at, slot_bounds, slots_in, width_of

KEY = (KeyPart(ColumnRef("k", "bigint"), "bigint"),)


def check(codes: np.ndarray, bits: int, valid: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    nulls = np.empty(0, np.uint8) if valid is None else valid
    starts, order = build_index(codes, nulls, np.empty(0, np.int32), bits)
    few_starts, few_order = packed(starts, order, len(codes))
    shift, fine = slots_in(few_starts)
    slots, width = 1 << (64 - int(shift)), width_of(len(codes))
    assert slots == len(starts) - 1
    bounds = [slot_bounds(few_starts, fine, slot) for slot in range(slots)]
    assert bounds == list(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True))
    assert [row_at(few_order, width, at) for at in range(len(order))] == order.tolist()
    return few_starts, few_order


@given(st.lists(st.integers(-20, 20), max_size=400), st.integers(1, 9), st.integers(0, 3))
def test_what_was_packed_is_read(keys: list[int], bits: int, nulls: int) -> None:
    codes = np.array(keys, np.int64)
    check(codes, bits, (np.arange(len(codes)) % 4 >= nulls).astype(np.uint8))


@pytest.mark.parametrize("rows", [255, 256, 257, 65_535, 65_537])
def test_an_index_of_many_keys_has_a_third_of_the_bytes(rows: int) -> None:
    codes = np.random.default_rng(rows).permutation(rows)
    starts, order = check(codes, slot_bits(rows))
    assert starts.nbytes + order.nbytes <= (4 * rows * width_of(rows) / 32) + 1.13 * (1 << slot_bits(rows)) + 16


def test_a_block_with_too_many_rows_leaves_positions_as_they_are() -> None:
    codes = np.random.default_rng(0).integers(10**6, 10**9, 600)  # of many keys, so that there are many slots
    assert len(check(codes, 10)[0]) == 9 * 1024 // BLOCK + 1
    assert len(check(np.r_[codes, np.zeros(250, np.int64)], 10)[0]) == 1025


def test_a_bucket_of_the_format_before_has_its_indexes_made_again(tmp_path: Path) -> None:
    keys = np.random.default_rng(2).integers(0, 50, 300)
    bucket = Bucket(pa.record_batch({"k": keys}), np.arange(300))
    info = bucket.write(tmp_path, "b", Derived((KEY,)), store="s", first_tick=1, last_tick=1)
    path = tmp_path / "b"
    content = path.read_bytes()
    assert content.endswith(MAGIC)
    path.write_bytes(content.removesuffix(MAGIC) + b"WMBUCKT1")
    opened = Bucket.open(tmp_path, info)
    assert not opened.has_index(KEY), "what the file has of it is not packed"
    assert opened.index(KEY).order.tolist() == bucket.index(KEY).order.tolist()
    assert opened.rows.equals(bucket.rows)
