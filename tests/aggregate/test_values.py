"""Sums are exact whatever their size, and NULL where their type does not hold them."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.aggregate.accumulator import ROWS, Accumulator
from watersmeet.aggregate.combined import combined_buckets
from watersmeet.aggregate.partials import partial_aggregates
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.aggregate.values import partial_columns
from watersmeet.model.expression import ColumnRef
from watersmeet.model.forms import PartialAggregate
from watersmeet.model.types import arrow_type

LARGEST = Decimal(10**38 - 1)
LEAST = LARGEST.copy_negate()  # a minus would round to 28 digits


def summed(values: list[Decimal | int | None], declared: str, stored: str) -> object:
    """The sum of values that come in two buckets."""
    x = ColumnRef("x", declared)
    store = SliceStore("r", (), (), (ROWS, Accumulator("count", x), Accumulator("sum", x)), 10)
    halves = (values[::2], values[1::2])
    made = [
        partial_aggregates(
            store, pa.record_batch({"x": pa.array(half, arrow_type(declared))}), np.zeros(len(half), int)
        )
        for half in halves
        if half
    ]
    rows = combined_buckets(store, [each.rows for each in made if each.rows is not None])
    assert rows is not None
    (found,) = partial_columns(store, PartialAggregate("sum", x, None, stored), rows.rows)
    return found.to_pylist()[0]


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal), min_size=1, max_size=8))
def test_sums_of_long_decimals(values: list[Decimal | int | None]) -> None:
    total = sum(int(value) for value in values if value is not None)
    expected = Decimal(total) if abs(total) < 10**38 else None
    assert summed(values, "decimal(38,0)", "decimal(38,0)") == expected


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8))
def test_sums_of_integers(values: list[Decimal | int | None]) -> None:
    known = [int(value) for value in values if value is not None]
    assert summed(values, "bigint", "decimal(38,0)") == (Decimal(sum(known)) if known else None)


@pytest.mark.parametrize(
    ("values", "declared", "stored", "expected"),
    [
        ([LARGEST, Decimal(1)], "decimal(38,0)", "decimal(38,0)", None),
        ([LARGEST, LARGEST, LEAST, LEAST, Decimal(7)], "decimal(38,0)", "decimal(38,0)", Decimal(7)),
        ([Decimal("0.5")] * 3, "decimal(2,1)", "decimal(12,1)", Decimal("1.5")),
        ([127] * 3, "tinyint", "decimal(38,0)", Decimal(381)),
        ([2**63 - 1] * 4, "bigint", "double", float(2**65)),
        ([None, None], "int", "decimal(38,0)", None),
    ],
)
def test_what_a_type_does_not_hold_is_null(
    values: list[Decimal | int | None], declared: str, stored: str, expected: object
) -> None:
    assert summed(values, declared, stored) == expected
