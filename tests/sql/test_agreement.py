"""What is made of an expression agrees with its text: programs and comparison tables answer as DuckDB does."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.model.expression import COMPARISONS, ColumnRef, Expression, Literal, Operation
from watersmeet.model.types import arrow_type
from watersmeet.sql.functions import build_call
from watersmeet.sql.programs import program_of
from watersmeet.store.derived import Block
from watersmeet.store.evaluate import evaluate
from watersmeet.store.filters import evaluate_block
from watersmeet.store.programs import computed, is_safe

COLUMNS = (
    ColumnRef("a", "int", "l"),
    ColumnRef("b", "bigint", "l"),
    ColumnRef("c", "double", "r"),
    ColumnRef("d", "tinyint", "r"),
)


def op(operator: str, *operands: Expression) -> Expression:
    """Typed as in a query, with parentheses where an operand needs them."""
    inner = [Operation("()", (each,), each.type) if isinstance(each, Operation) else each for each in operands]
    return build_call(operator.lower(), inner)


literals = st.integers(0, 200).map(lambda value: Literal(value, "int", str(value))) | st.sampled_from(
    [Literal(2.5, "double", "25e-1"), Literal(1e3, "double", "1e3")]
)
numbers = st.recursive(
    st.sampled_from(COLUMNS) | literals,
    lambda inner: (
        st.builds(op, st.sampled_from("+-*"), inner, inner) | st.builds(op, st.sampled_from(("-", "ABS")), inner)
    ),
    max_leaves=4,
)
comparisons = st.builds(op, st.sampled_from(sorted(COMPARISONS)), numbers, numbers) | st.builds(
    op, st.just("BETWEEN"), numbers, numbers, numbers
)
conditions = st.recursive(
    comparisons,
    lambda inner: (
        st.builds(op, st.sampled_from(("AND", "OR")), inner, inner, inner) | st.builds(op, st.just("NOT"), inner)
    ),
    max_leaves=4,
)
tables = st.lists(
    st.tuples(*(st.none() | st.integers(-9, 9) | st.integers(-128, 127) for _ in COLUMNS)), min_size=1, max_size=12
)


def table_of(rows: list[tuple[int | None, ...]], names: list[str]) -> pa.Table:
    columns = zip(zip(*rows, strict=True), COLUMNS, names, strict=True)
    return pa.table({name: pa.array(values, arrow_type(column.type)) for values, column, name in columns})


@given(conditions, tables)
def test_a_program_answers_as_the_text(condition: Expression, rows: list[tuple[int | None, ...]]) -> None:
    program, strict = program_of(condition, COLUMNS.index)
    assert program, "all of this can be computed with numbers"
    if not strict:
        rows = [tuple(value or 0 for value in row) for row in rows]
    done = evaluate(table_of(rows, [column.label for column in COLUMNS]), [condition.text])
    told = done.values[0].fill_null(False).to_pylist()
    operands = [np.array([float(value or 0) for value in values]) for values in zip(*rows, strict=True)]
    if is_safe(program, [float(each.min()) for each in operands], [float(each.max()) for each in operands]):
        read = [COLUMNS.index(column) for column in condition.columns]
        known = [all(row[at] is not None for at in read) for row in rows]
        passed = computed(program, operands, len(rows)) != 0.0
        assert [bool(one) and there for one, there in zip(passed, known, strict=True)] == told
        assert done.failures == [0]


bare = st.sampled_from([ColumnRef(column.name, column.type) for column in COLUMNS])
limits = st.integers(-130, 130).map(
    lambda value: op("-", Literal(-value, "int", str(-value))) if value < 0 else Literal(value, "int", str(value))
)
simple = st.builds(op, st.sampled_from(sorted(COMPARISONS)), bare, limits) | st.builds(
    op, st.just("BETWEEN"), bare, limits, limits
)
filters = simple | st.builds(op, st.just("AND"), simple, simple) | st.builds(op, st.just("OR"), simple, simple)


@given(st.lists(filters, min_size=1, max_size=5), tables)
def test_a_block_answers_as_the_texts(wanted: list[Expression], rows: list[tuple[int | None, ...]]) -> None:
    table = table_of(rows, [column.name for column in COLUMNS])
    told = [values.fill_null(False).to_pylist() for values in evaluate(table, [each.text for each in wanted]).values]
    words, _ = evaluate_block(table.to_batches()[0], Block(tuple((each,) for each in wanted)))
    assert words.tolist() == [sum(1 << bit for bit, one in enumerate(row) if one) for row in zip(*told, strict=True)]
