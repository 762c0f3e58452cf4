"""Which buckets are merged, and that nothing alive is lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.home.manifest import BucketInfo
from watersmeet.model import ColumnRef, KeyPart
from watersmeet.model.expression import Literal, Operation
from watersmeet.plan.ruleset import StreamStore
from watersmeet.store import bucket
from watersmeet.store.bucket import Bucket
from watersmeet.store.derived import Block, Derived
from watersmeet.store.merge import FAN_IN, MAX_BYTES, MergeJob, choose_merges, merge
from watersmeet.store.placement import Placement


def info(tick: int, rows: int = 100, partition: int = 0, size: int = 1000) -> BucketInfo:
    return BucketInfo("s", f"f{tick}-{partition}-{rows}", rows, size, 0, tick, tick, tick, tick, partition)


def store(derived: Derived) -> StreamStore:
    return StreamStore("s", (), derived.keys, derived.blocks, Placement())


def test_too_few_buckets_of_one_size_are_left_alone() -> None:
    assert choose_merges([info(tick) for tick in range(1, FAN_IN)], {}) == []


def test_buckets_of_one_size_are_merged_oldest_first() -> None:
    buckets = [info(tick) for tick in range(FAN_IN, 0, -1)]
    (job,) = choose_merges([*buckets, info(50, rows=1_000_000)], {"s": 7})
    assert [bucket.first_tick for bucket in job.inputs] == list(range(1, FAN_IN + 1))
    assert job.horizon == 7


def test_partitions_are_not_mixed_and_large_buckets_stay() -> None:
    assert choose_merges([info(tick, partition=tick % 2) for tick in range(1, 2 * FAN_IN - 1)], {}) == []
    assert choose_merges([info(tick, size=MAX_BYTES) for tick in range(1, 20)], {}) == []


def test_the_number_of_buckets_grows_with_the_logarithm_of_the_ticks() -> None:
    buckets: list[BucketInfo] = []
    for tick in range(1, 1001):
        buckets.append(info(tick, rows=5000))
        for job in choose_merges(buckets, {}):
            rows = sum(bucket.rows for bucket in job.inputs)
            buckets = [bucket for bucket in buckets if bucket not in job.inputs]
            buckets.append(info(job.inputs[-1].last_tick, rows=rows))
    assert sum(bucket.rows for bucket in buckets) == 5_000_000
    assert len(buckets) <= 4 * FAN_IN


def sliced(tick: int, rows: int, first: int | None = None, begin: int = 0, end: int = 0) -> BucketInfo:
    """A large bucket of a slice store, of one tick or of all since the first, with slices from `begin` to `end`."""
    return BucketInfo("s", f"f{tick}-{rows}", rows, 8 << 20, 0, begin, end, first or tick, tick)


def test_large_buckets_of_slices_wait_unless_they_have_rows_of_the_same_slices_that_become_fewer() -> None:
    apart = [sliced(tick, 100_000, begin=tick, end=tick + 1) for tick in range(1, 10)]
    assert choose_merges(apart, {}, {"s"}) == []
    together = [sliced(tick, 100_000) for tick in range(11, 20)]
    (job,) = choose_merges(together, {}, {"s"})
    assert job.inputs == tuple(together)
    fewer = sliced(10, 100_000, first=7)
    (job,) = choose_merges([fewer, *together], {}, {"s"})
    assert set(together) <= set(job.inputs)
    as_many = sliced(10, 400_000, first=7)
    assert choose_merges([as_many, *together], {}, {"s"}) == []
    assert choose_merges([as_many, *together], {}), "a store that is probed"


def test_a_merge_keeps_the_live_rows_and_leaves_the_expired_ones(tmp_path: Path) -> None:
    inputs = []
    for number, taus in enumerate(([5, 1], [3, 9], [2])):
        rows = pa.record_batch({"v": pa.array(taus)})
        written = Bucket(rows, np.array(taus))
        inputs.append(
            written.write(tmp_path, f"in{number}", Derived(), store="s", first_tick=number + 1, last_tick=number + 1)
        )
    merged = merge(tmp_path, MergeJob(tuple(inputs), 3), "out", store(Derived()))
    assert merged is not None
    assert Bucket.open(tmp_path, merged).rows.column(0).to_pylist() == [5, 3, 9]
    assert (merged.first_tick, merged.last_tick, merged.tau_min, merged.tau_max) == (1, 3, 3, 9)
    assert merge(tmp_path, MergeJob(tuple(inputs), 10), "none", store(Derived())) is None
    assert not (tmp_path / "none").exists()


def test_what_is_known_of_rows_is_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes of keys and query sets of the inputs, also of those of which only some rows are alive."""
    text = (KeyPart(ColumnRef("s", "string"), "string"),)
    is_b = Operation("=", (ColumnRef("s", "string"), Literal("b", "string", "'b'")))
    derived = Derived((text,), (Block(((is_b,),)),))
    inputs = []
    for number, texts in enumerate((["a", "b"], ["b", None], ["c", "b"])):
        rows = pa.record_batch({"s": pa.array(texts, pa.string())})
        written = Bucket(rows, np.array([number, number + 1]))
        inputs.append(written.write(tmp_path, f"in{number}", derived, store="s", first_tick=1, last_tick=1))

    def no_more(*_: object) -> None:
        raise AssertionError("it is known already")

    for name in ("encode", "evaluate_block"):
        monkeypatch.setattr(bucket, name, no_more)
    merged = merge(tmp_path, MergeJob(tuple(inputs), 1), "out", store(derived))
    monkeypatch.undo()
    assert merged is not None
    opened = Bucket.open(tmp_path, merged)
    fresh = Bucket(opened.rows, opened.tau)
    assert opened.rows.column(0).to_pylist() == ["b", "b", None, "c", "b"]
    assert opened.words(derived.blocks[0]).tolist() == fresh.words(derived.blocks[0]).tolist() == [1, 1, 0, 0, 1]
    here, there = opened.index(text), fresh.index(text)
    assert here.order.tolist() == there.order.tolist() and here.starts.tolist() == there.starts.tolist()
    assert here.codes.valid.tolist() == there.codes.valid.tolist() == [1, 1, 0, 1, 1]
