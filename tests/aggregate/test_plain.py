"""Sums and means of integers are computed without DuckDB, and are what it gives."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.aggregate.plain import plain_output
from watersmeet.model.expression import ColumnRef
from watersmeet.sql.lower.combine import as_type, average
from watersmeet.store.evaluate import evaluate

TOTAL, COUNT = ColumnRef("p0", "decimal(38,0)"), ColumnRef("p1", "bigint")
SUM, MEAN = as_type(TOTAL, "bigint"), average("bigint", "double", TOTAL, COUNT)
WHOLE = st.integers(-(2**63), 2**63 - 1) | st.integers(-1000, 1000)


def relation(rows: list[tuple[int | None, int]]) -> pa.RecordBatch:
    totals = [None if total is None else Decimal(total) for total, _ in rows]
    return pa.record_batch(
        {"p0": pa.array(totals, pa.decimal128(38, 0)), "p1": pa.array([count for _, count in rows], pa.int64())}
    )


@given(st.lists(st.tuples(st.none() | WHOLE, st.integers(0, 10**12)), min_size=1))
def test_sums_and_means(rows: list[tuple[int | None, int]]) -> None:
    given_rows = relation([(5, 3), *rows]).slice(1)
    expected = evaluate(given_rows, [SUM.text, MEAN.text])
    assert expected.failures == [0, 0]
    for output, values in zip((SUM, MEAN), expected.values, strict=True):
        found = plain_output(given_rows, output)
        assert found is not None
        assert found.equals(values)


def test_sums_beyond_64_bits_are_left_to_duckdb() -> None:
    rows = relation([(2**63, 1), (1, 1)])
    assert plain_output(rows, SUM) is None
    assert plain_output(rows, MEAN) is None
    assert plain_output(rows, COUNT) is None
