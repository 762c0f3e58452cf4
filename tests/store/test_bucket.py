"""Buckets: what is written comes back, derived parts or not."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.model import ColumnRef, Expression, KeyPart
from watersmeet.model.expression import Literal, Operation, Sql
from watersmeet.store.bucket import NO_DEADLINE, Bucket
from watersmeet.store.bucket_file import verify_file
from watersmeet.store.codes import encode
from watersmeet.store.derived import Block, Derived
from watersmeet.store.kernels import BLOCK, PAIRS, build_index, probe, slot_bits
from watersmeet.store.packed import packed

N, S = ColumnRef("n", "int"), ColumnRef("s", "string")
NUMBER = (KeyPart(N, "int"),)
TEXT = (KeyPart(S, "string"),)
BOTH = (KeyPart(N, "int"), KeyPart(Sql(("lower(", ")"), (S,)), "string"))


def compared(operator: str, number: int) -> Expression:
    return Operation(operator, (N, Literal(number, "int", str(number))))


FILTERS = Block(((compared(">", 1),), (), (Operation("=", (S, Literal("b", "string", "'b'"))), compared("=", 1))))


def some_bucket() -> Bucket:
    rows = pa.record_batch(
        {
            "n": pa.array([1, None, 3, 1], pa.int32()),
            "s": pa.array(["A", "b", None, "a"]),
            "l": pa.array([[1], [], None, [2, 3]]),
        }
    )
    return Bucket(rows, np.array([30, 10, 20, 40]))


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("begin", [0, 3])
def test_event_times_that_are_a_column_stand_in_the_file_once(tmp_path: Path, begin: int, nulls: bool) -> None:
    times = np.arange(1000, dtype=np.int64)
    rows = pa.record_batch(
        {
            "other": pa.array(times + 1, pa.timestamp("us")),
            "at": pa.array([None if nulls else 0, *range(1, 1000)], pa.timestamp("us", tz="UTC")),
        }
    ).slice(begin)
    written = {
        tau is times: Bucket(rows, tau[begin:]).write(
            tmp_path, f"state/s/{tau is times}.bucket", Derived(), store="s", first_tick=1, last_tick=1
        )
        for tau in (times, times + 7)
    }
    same = not nulls or begin > 0
    assert (written[True].bytes < written[False].bytes - 8 * (900 - begin)) == same
    for info, tau in ((written[True], times), (written[False], times + 7)):
        verify_file(tmp_path, info)
        opened = Bucket.open(tmp_path, info)
        assert opened.tau.tolist() == tau[begin:].tolist()
        assert opened.rows.equals(rows)


@pytest.mark.parametrize("derived", [Derived(), Derived((NUMBER, TEXT, BOTH), (FILTERS,))])
def test_an_opened_bucket_equals_the_one_written(tmp_path: Path, derived: Derived) -> None:
    written = some_bucket()
    info = written.write(tmp_path, "state/s/1.bucket", derived, store="s", first_tick=1, last_tick=1)
    verify_file(tmp_path, info)
    opened = Bucket.open(tmp_path, info)
    assert opened.rows.equals(written.rows)
    assert opened.tau.tolist() == [30, 10, 20, 40]
    assert (info.rows, info.tau_min, info.tau_max) == (4, 10, 40)
    for key in (NUMBER, TEXT, BOTH):
        there, here = opened.index(key), written.index(key)
        assert there.order.tolist() == here.order.tolist()
        assert there.starts.tolist() == here.starts.tolist()
        valid = here.codes.valid.astype(bool) if len(here.codes.valid) else np.ones(4, bool)
        assert there.codes.values[valid].tolist() == here.codes.values[valid].tolist()
        assert there.codes.valid.tolist() == here.codes.valid.tolist()
    assert opened.words(FILTERS).tolist() == [0b110, 0b110, 0b011, 0b110]


def test_some_rows_keep_their_times_deadlines_and_query_sets() -> None:
    whole = some_bucket()
    whole.deadline = np.array([31, 11, 21, 41])
    whole.words(FILTERS)
    some = whole.keep(np.array([2, 0]))
    assert some.rows.column("n").to_pylist() == [3, 1]
    assert (some.tau.tolist(), some.deadline.tolist()) == ([20, 30], [21, 31])
    assert some.words(FILTERS).tolist() == [0b011, 0b110]
    assert some_bucket().keep(np.array([1])).deadline is NO_DEADLINE


def test_a_bucket_forgets_what_no_plan_asks_for_any_more(tmp_path: Path) -> None:
    info = some_bucket().write(tmp_path, "b", Derived((NUMBER,), (FILTERS,)), store="s", first_tick=1, last_tick=1)
    bucket = Bucket.open(tmp_path, info)
    before = set(bucket._sections)
    other = Block(((compared(">", 7),),))
    bucket.words(other)
    bucket.folded((FILTERS, other))
    bucket.index(TEXT)
    bucket.sorted_by(*NUMBER)
    bucket.forget(Derived((NUMBER,), (FILTERS,)))
    assert set(bucket._sections) - {"by time"} == before
    assert not bucket._indexes
    assert TEXT not in bucket._codes
    assert not bucket._sorted
    assert bucket.words(FILTERS).tolist() == [0b110, 0b110, 0b011, 0b110]


def test_a_bucket_keeps_a_sorted_index_that_is_asked_for_and_forgets_the_rest_of_a_join_by_comparison() -> None:
    bucket, (number,), (text,) = some_bucket(), NUMBER, TEXT
    wanted = Derived(sorted_by=(number,))
    kept = bucket.sorted_by(number)
    bucket.sorted_by(text)
    made = {name: bucket.computed(name, object) for name in ("n", "in time order")}
    bucket.forget(wanted)
    assert bucket.sorted_by(number) is kept
    assert set(bucket._sections) - {"by time"} == {'sorted "n":int'}
    assert bucket.computed("n", object) is made["n"], "the plan so far has asked for it"
    bucket.forget(wanted)
    assert bucket.computed("n", object) is made["n"]
    assert bucket.computed("in time order", object) is not made["in time order"]


def test_a_bucket_is_never_written_twice(tmp_path: Path) -> None:
    some_bucket().write(tmp_path, "b", Derived(), store="s", first_tick=1, last_tick=1)
    with pytest.raises(FileExistsError):
        some_bucket().write(tmp_path, "b", Derived(), store="s", first_tick=1, last_tick=1)


def test_equal_values_of_different_types_have_equal_codes() -> None:
    def code(values: list[object], kind: str) -> list[int]:
        return list(encode(pa.array(values), kind).values)

    assert code([1, -5], "int") == code([1, -5], "bigint") == [1, -5]
    assert code([0.0, float("nan")], "double") == code([-0.0, -float("nan")], "double")
    sliced = pa.array(["skipped", "x", "yy"]).slice(1)
    assert encode(sliced, "string").values.tolist() == code(["x", "yy"], "string")


def test_any_bits_may_stand_where_a_double_is_null() -> None:
    signaling = np.array([0x7FF0000000000001, 0, -1 << 63], np.int64)  # 0.0 and -0.0 follow
    values = pa.Array.from_buffers(pa.float64(), 3, [pa.py_buffer(bytes([0b110])), pa.py_buffer(signaling)])
    assert values.to_pylist() == [None, 0.0, -0.0]
    codes = encode(values, "double")
    assert codes.valid.tolist() == [0, 1, 1] and codes.values[1] == codes.values[2]


@pytest.mark.parametrize(("keys", "slots"), [(1, 4), (50, 256), (3000, 1 << 14), (25_000, 1 << 16)])
def test_an_index_has_slots_for_its_keys_and_not_for_its_rows(keys: int, slots: int) -> None:
    codes = np.random.default_rng(1).integers(0, keys, 60_000)
    starts, order = build_index(codes, np.empty(0, np.uint8), np.empty(0, np.int32), 16)
    assert len(starts) - 1 == slots
    assert sorted(order.tolist()) == list(range(len(codes)))
    for begin, end in pairwise(starts.tolist()):
        held = order[begin:end]
        for code in np.unique(codes[held]):
            assert held[codes[held] == code].tolist() == np.flatnonzero(codes == code).tolist()


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 50), st.booleans(), st.integers(0, 7)), max_size=60),
    st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 50), st.integers(0, 30), st.integers(0, 7)), max_size=20),
    st.sampled_from((0, 3, 1000)),
    st.integers(1, 9),
    st.booleans(),
    st.sampled_from((np.uint8, np.uint16, np.uint32, np.uint64)),
    st.sampled_from(("both", "left", "none")),
    st.integers(1, 12),
)
def test_the_probe_loop_finds_what_nested_loops_find(
    stored: list[tuple[int, int, bool, int]],
    probing: list[tuple[int, int, int, int]],
    window: int,
    room: int,
    own_deadlines: bool,
    word: type[np.unsignedinteger[Any]],
    with_sets: str,
    slot_bits: int,
) -> None:
    codes = np.array([row[0] for row in stored], np.int64)
    tau = np.array([row[1] for row in stored], np.int64)
    valid = np.array([row[2] for row in stored], np.uint8)
    stored_sets = np.array([row[3] for row in stored], word)
    by_time = np.argsort(tau, kind="stable").astype(np.int32)
    starts, order = packed(*build_index(codes, valid, by_time, slot_bits), len(codes))
    until = np.array([row[1] + min(window, row[0] + 3) for row in stored], np.int64) if own_deadlines else NO_DEADLINE
    ends = until if len(until) else tau + window
    left = np.array([row[0] for row in probing], np.int64)
    latest = np.array([row[1] for row in probing], np.int64)
    deadline = latest + np.array([row[2] for row in probing], np.int64)
    sets = np.array([row[3] for row in probing], word)
    common = [[int(a) & int(b) for b in stored_sets] for a in sets]
    if with_sets == "left":
        common = [[int(a) for _ in stored_sets] for a in sets]
    if with_sets == "none":
        common = [[1 for _ in stored_sets] for _ in sets]
    found, row, at = [], 0, -1
    while row < len(left):
        kinds = (np.int32, np.int32, np.int64, np.int64, word)
        outs: list[Any] = [np.ones(room, kind) for kind in kinds]
        count, row, at = probe(
            left,
            latest,
            deadline,
            sets if with_sets != "none" else sets[:0],
            row,
            at,
            starts,
            order,
            codes,
            tau,
            until,
            stored_sets if with_sets == "both" else stored_sets[:0],
            window,
            *outs,
        )
        found += list(zip(*(out[:count].tolist() for out in outs), strict=True))
    expected = [
        (i, j, max(latest[i], tau[j]), min(deadline[i], ends[j]), common[i][j])
        for i in range(len(left))
        for j in range(len(stored))
        if left[i] == codes[j] and valid[j] and common[i][j] and max(latest[i], tau[j]) <= min(deadline[i], ends[j])
    ]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("room", [100, 5000, 1 << 20])
@pytest.mark.parametrize("window", [3, 10_000])
def test_slots_with_more_rows_than_a_probe_takes_at_a_time(room: int, window: int) -> None:
    chance = np.random.default_rng(room + window)
    codes, tau = chance.integers(0, 3, 2 * PAIRS + 77) ** 4, np.sort(chance.integers(0, 5000, 2 * PAIRS + 77))
    left, latest = chance.integers(0, 4, BLOCK + 44) ** 4, chance.integers(0, 5000, BLOCK + 44)
    none, rows = np.empty(0, np.uint8), len(codes)
    starts, order = packed(*build_index(codes, none, np.empty(0, np.int32), slot_bits(rows)), rows)
    found, row, at = [], 0, -1
    while row < len(left):
        outs: Any = [np.empty(room, kind) for kind in (np.int32, np.int32, np.int64, np.int64, np.uint8)]
        given: Any = (
            left,
            latest,
            latest + window,
            none,
            row,
            at,
            starts,
            order,
            codes,
            tau,
            NO_DEADLINE,
            none,
            window,
        )
        count, row, at = probe(*given, *outs)
        found += list(zip(*(out[:count].tolist() for out in outs[:4]), strict=True))
    near = np.abs(latest[:, None] - tau) <= window
    assert found == [
        (one, other, max(latest[one], tau[other]), min(latest[one], tau[other]) + window)
        for one, other in np.argwhere((left[:, None] == codes) & near).tolist()
    ]
