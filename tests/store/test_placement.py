"""In which partition a row is stored."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.home.manifest import BucketInfo
from watersmeet.model import ColumnRef, KeyPart
from watersmeet.store.bucket import Bucket
from watersmeet.store.placement import Placement

K, S = (KeyPart(ColumnRef(name, kind), kind) for name, kind in (("k", "bigint"), ("s", "string")))


def bucket(keys: list[int | None], texts: list[str | None]) -> Bucket:
    rows = pa.record_batch({"k": pa.array(keys, pa.int64()), "s": pa.array(texts, pa.string())})
    return Bucket(rows, np.arange(len(keys), dtype=np.int64))


@given(
    st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 9)), st.one_of(st.none(), st.text(max_size=1)))),
    st.integers(1, 5),
    st.sampled_from(["key", "turn", "all", "none"]),
)
def test_every_row_is_in_one_partition_and_equal_keys_in_the_same(
    rows: list[tuple[int | None, str | None]], partitions: int, way: str
) -> None:
    placement = {
        "key": Placement.by_key(K, partitions),
        "turn": Placement.in_turn(tuple(range(partitions)), partitions),
        "all": Placement.by_all((K, S), partitions),
        "none": Placement.by_all((), partitions),
    }[way]
    given_rows = bucket([key for key, _ in rows], [text for _, text in rows])
    divided = list(placement.divided(given_rows))
    assert all(0 <= partition < partitions for partition, _ in divided)
    taken = sorted(time for _, part in divided for time in part.tau.tolist())
    assert taken == list(range(len(rows)))
    if way == "turn":
        return
    where: dict[object, set[int]] = {}
    for partition, part in divided:
        for row in part.rows.to_pylist():
            key = {"key": row["k"], "all": (row["k"], row["s"]), "none": None}[way]
            where.setdefault(key, set()).add(partition)
    assert all(len(found) == 1 for found in where.values())


@pytest.mark.parametrize(
    ("placement", "text"),
    [
        (Placement.by_key(K, 3), '"k" % 3'),
        (Placement.in_turn((0, 1, 2), 3), "at random % 3"),
        (Placement.in_turn((1, 2), 3), "at random % 3 at 1,2"),
        (Placement.by_all((K,), 3), "all keys % 3"),
        (Placement.by_all((), 3), "all keys % 3"),
        (Placement.in_turn((0,), 1), ""),
        (Placement.by_all((K,), 1), ""),
    ],
)
def test_buckets_remember_a_placement_by_texts_that_stay(placement: Placement, text: str) -> None:
    assert placement.text == text
    info = BucketInfo("r", "file", 1, 1, 0, 0, 0, 1, 1, layout=text)
    assert placement.covers(info)
    assert not Placement.by_key(S, 4).covers(info)


def test_a_key_without_a_value_has_no_partition_to_look_into() -> None:
    codes = bucket([1, None, 2], ["", "", ""]).codes((K,))
    found = Placement.by_key(K, 4).of_codes(codes).tolist()
    assert found[1] == -1 and found[0] >= 0 and found[2] >= 0
