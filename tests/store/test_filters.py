"""Query sets: the index over constants and DuckDB agree with each filter evaluated by itself."""

from __future__ import annotations

import operator
from unittest import mock

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.model.expression import ColumnRef, Expression, Literal, Operation, Sql, all_of
from watersmeet.store.derived import WIDEST, Block
from watersmeet.store.filters import evaluate_block, fold, word_type
from watersmeet.store.kernels import count_bits, cut_windows

OPERATORS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
comparisons = st.tuples(st.sampled_from("abt"), st.sampled_from(sorted(OPERATORS)), st.integers(-4, 4))
values = st.lists(
    st.tuples(st.none() | st.integers(-5, 5), st.integers(-5, 5), st.none() | st.integers(-5, 5)), min_size=1
)


# DuckDB has to decide about t, which is no integer.
TYPES = {"a": ("int", pa.int32()), "b": ("bigint", pa.int64()), "t": ("double", pa.float64())}


def filter_of(parts: list[tuple[str, str, int]]) -> Expression:
    return all_of([compared(ColumnRef(name, TYPES[name][0]), symbol, constant) for name, symbol, constant in parts])


def compared(column: ColumnRef, operator: str, constant: int) -> Expression:
    number: Expression = Literal(abs(constant), "int", str(abs(constant)))
    return Operation(operator, (column, Operation("-", (number,)) if constant < 0 else number))


@given(
    values, st.lists(st.lists(st.lists(comparisons, min_size=1, max_size=3), max_size=2), min_size=1, max_size=WIDEST)
)
def test_a_bit_is_left_where_one_of_its_filters_is_true(
    rows: list[tuple[int | None, int, int | None]], wanted: list[list[list[tuple[str, str, int]]]]
) -> None:
    columns = dict(zip("abt", zip(*rows, strict=True), strict=True))
    batch = pa.record_batch({name: pa.array(list(columns[name]), TYPES[name][1]) for name in columns})
    block = Block(tuple(tuple(filter_of(parts) for parts in alternatives) for alternatives in wanted))
    words, failures = evaluate_block(batch, block)
    assert words.dtype == word_type(block)
    assert not any(failures.values())
    for at, row in enumerate(rows):
        named = dict(zip("abt", row, strict=True))

        def holds(parts: list[tuple[str, str, int]], named: dict[str, int | None] = named) -> bool:
            values = ((named[column], symbol, constant) for column, symbol, constant in parts)
            return all(value is not None and OPERATORS[symbol](value, constant) for value, symbol, constant in values)

        bits = [not alternatives or any(map(holds, alternatives)) for alternatives in wanted]
        assert int(words[at]) == sum(1 << bit for bit, passed in enumerate(bits) if passed)


def test_a_boolean_column_is_read_without_sql() -> None:
    batch = pa.record_batch({"p": pa.array([True, False, None, True]), "a": pa.array([1, 1, 1, 0], pa.int32())})
    whole = all_of([ColumnRef("p", "boolean"), compared(ColumnRef("a", "int"), ">", 0)])
    block = Block(((ColumnRef("p", "boolean"),), (), (whole,)))
    with mock.patch("watersmeet.store.filters.evaluate", side_effect=AssertionError):
        words, failures = evaluate_block(batch, block)
    assert words.tolist() == [0b111, 0b010, 0b010, 0b011]
    assert not failures


def test_a_filter_that_cannot_be_evaluated_is_false_there_and_counted() -> None:
    batch = pa.record_batch({"s": pa.array(["1", "x", "3"])})
    block = Block(((Sql(("CAST(s AS INT) > 1",)),), (Sql(("s = 'x'",)),)))
    words, failures = evaluate_block(batch, block)
    assert words.tolist() == [0b00, 0b10, 0b01]
    assert failures == {"CAST(s AS INT) > 1": 1, "s = 'x'": 0}


def test_the_same_text_over_another_type_is_another_filter() -> None:
    whole, real = (Block(((compared(ColumnRef("x", kind), ">", 1),),)) for kind in ("bigint", "double"))
    assert whole != real
    assert evaluate_block(pa.record_batch({"x": pa.array([1, 2], pa.int64())}), whole)[0].tolist() == [0, 1]
    assert evaluate_block(pa.record_batch({"x": pa.array([1.0, 1.5])}), real)[0].tolist() == [0, 1]


@given(st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5), min_size=1, max_size=70))
def test_folding_never_loses_a_row(words: list[list[int]]) -> None:
    folded = fold([np.array(each, np.uint8) for each in words], 5)
    for row in range(5):
        expected = {number % WIDEST for number, each in enumerate(words) if each[row]}
        assert {bit for bit in range(64) if int(folded[row]) >> bit & 1} == expected


@given(st.lists(st.integers(0, 2**64 - 1)), st.sampled_from((8, 16, 32, 64)))
def test_bits_are_counted(words: list[int], width: int) -> None:
    counts = np.zeros(64, np.int64)
    cut = [word % 2**width for word in words]
    count_bits(np.array(cut, f"u{width // 8}"), counts)
    assert counts.tolist() == [sum(word >> bit & 1 for word in cut) for bit in range(64)]


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=8),
)
def test_a_query_keeps_only_what_its_own_windows_hold(
    times: list[tuple[int, int]], windows: list[tuple[int, int]]
) -> None:
    words = np.full(len(times), (1 << len(windows)) - 1, np.uint8)
    masks = np.array([1 << bit for bit in range(len(windows))], np.uint64)
    cut_windows(np.array(times, np.int64).T.copy(), np.array(windows, np.int64), masks, words)
    for (left, right), word in zip(times, words.tolist(), strict=True):
        newest = max(left, right)
        inside = [newest - left <= one and newest - right <= other for one, other in windows]
        assert word == sum(1 << bit for bit, kept in enumerate(inside) if kept)
