"""HAVING, DISTINCT, ORDER BY and LIMIT of many windows at once."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.last_step import FinalStep, finished
from watersmeet.model.expression import ColumnRef, Expression, Literal, Operation
from watersmeet.model.forms import FinalStage, SortOrder
from watersmeet.model.join import Output

K, P = ColumnRef("k0", "string"), ColumnRef("p0", "double")
RELATION = pa.record_batch({
    "k0": pa.array(["a", "b", None, "c", "a", "b"]),
    "p0": pa.array([1.0, math.nan, 3.0, None, 1.0, -2.0]),
})  # fmt: skip
WINDOWS = np.array([0, 0, 0, 0, 1, 1])


def done(final: FinalStage, *outputs: Expression) -> tuple[list[tuple[object, ...]], list[int]]:
    named = tuple(Output(f"o{at}", each.type, each) for at, each in enumerate(outputs))
    found = finished(FinalStep(final, named), RELATION, WINDOWS)
    return [tuple(row.values()) for row in found.rows.to_pylist()], found.windows.tolist()


def test_outputs_are_columns_and_expressions() -> None:
    rows, windows = done(FinalStage(), K, Operation("+", (P, Literal(1, "int", "1")), "double"))
    assert windows == [0, 0, 0, 0, 1, 1]
    assert rows[0] == ("a", 2.0)
    assert rows[3] == ("c", None)


def test_having_keeps_rows_for_which_it_is_true() -> None:
    rows, windows = done(FinalStage(having=Operation(">", (P, Literal(0, "int", "0")))), K)
    assert rows == [("a",), ("b",), (None,), ("a",)]  # NaN is the largest number
    assert windows == [0, 0, 0, 1]


def test_order_and_limit_are_those_of_each_window() -> None:
    descending = FinalStage(order=(SortOrder(P, descending=True, nulls_first=False),), limit=2)
    assert done(descending, K) == ([("b",), (None,), ("a",), ("b",)], [0, 0, 1, 1])
    nulls_first = FinalStage(order=(SortOrder(K, descending=False, nulls_first=True),), limit=2, offset=1)
    assert done(nulls_first, K) == ([("a",), ("b",), ("b",)], [0, 0, 1])


def test_distinct_keeps_one_row_of_each_window() -> None:
    one = Literal(1, "int", "1")
    assert done(FinalStage(distinct=True), one) == ([(1,), (1,)], [0, 1])
