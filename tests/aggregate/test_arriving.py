"""What is computed for each of few strings is what it is for each row, failures too."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.aggregate.accumulator import ROWS, Accumulator
from watersmeet.aggregate.arriving import Arriving, decoded
from watersmeet.aggregate.partials import partial_aggregates
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.model.expression import ColumnRef, Expression, Sql
from watersmeet.store.evaluate import evaluate

S, X = ColumnRef("s", "string"), ColumnRef("x", "bigint")
LENGTH = Sql(("length(", ")"), (S,), "bigint")
NUMBER = Sql(("CAST(", " AS BIGINT)"), (S,), "bigint", raises=True)
INITIAL = Sql(("substring(coalesce(", ", 'none'), 1, 1)"), (S,), "string")
SHORT = Sql(("length(", ") < 3"), (S,), "boolean")
ODD = Sql(("CAST(", " AS BIGINT) % 2 = 1"), (S,), "boolean", raises=True)


def arriving(few: bool, rows: int = 3000) -> pa.RecordBatch:
    chance = np.random.default_rng(28)
    texts = ["1", "22", "333", "x", "", None, "1"] if few else [*map(str, range(10_000))]
    chosen = [texts[at] for at in chance.integers(0, len(texts), rows)]
    return pa.record_batch({"s": pa.array(chosen, pa.string()), "x": chance.integers(0, 9, rows)})


@pytest.mark.parametrize("few", [True, False])
def test_values_and_filters(few: bool) -> None:
    rows = arriving(few)
    expressions: list[Expression] = [LENGTH, NUMBER, INITIAL, SHORT, ODD]
    known = Arriving(rows, expressions)
    values, failures = known.values(expressions)
    expected = evaluate(rows, [each.text for each in expressions])
    for each, computed, failed in zip(expressions, expected.values, expected.failures, strict=True):
        assert decoded(values[each]).equals(computed), each
        assert pa.types.is_dictionary(values[each].type) is (few and not failed), each
        assert failures[each.text] == failed
    passing, failures = known.passing([SHORT, ODD])
    for each in (SHORT, ODD):
        at = expressions.index(each)
        assert passing[each].tolist() == expected.values[at].fill_null(False).cast(pa.uint8()).to_pylist()
        assert failures[each.text] == expected.failures[at]


@pytest.mark.parametrize("few", [True, False])
def test_keys_of_strings(few: bool) -> None:
    """A store that takes some of the rows has their keys as they are."""
    rows = arriving(few)
    parts = (ROWS, Accumulator("count", X, ODD), Accumulator("max", S), Accumulator("sum", X))
    store = SliceStore("r", (SHORT,), (S, INITIAL), parts, 10)
    made = partial_aggregates(store, rows, np.zeros(rows.num_rows, np.int64)).rows
    assert made is not None
    expected: dict[tuple[str | None, str], list[int]] = {}
    for text, x in zip(rows.column("s").to_pylist(), rows.column("x").to_pylist(), strict=True):
        if text is not None and len(text) < 3:
            found = expected.setdefault((text, text[:1]), [0, 0, 0])
            found[0] += 1
            found[1] += text.isdigit() and int(text) % 2
            found[2] += x
    columns = [made.rows.column(name).to_pylist() for part in parts for name in store.columns_of(part)[:1]]
    keys = zip(made.rows.column("k0").to_pylist(), made.rows.column("k1").to_pylist(), strict=True)
    found_rows = {key: list(row) for key, row in zip(keys, zip(*columns, strict=True), strict=True)}
    assert {key: [row[0], row[1], row[3]] for key, row in found_rows.items()} == expected
    assert all(row[2] == key[0] for key, row in found_rows.items())
