"""Rows that arrive, with what the slice stores of a stream ask of them. What several ask for is computed once.

Where the values of a string column are few, an expression over it alone is computed for each of them, not for each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.aggregate.grouping import as_key, key_codes
from watersmeet.model.expression import Cast, ColumnRef, Expression, unnested
from watersmeet.model.types import arrow_type
from watersmeet.store.codes import fixed_width
from watersmeet.store.derived import WIDEST, Block
from watersmeet.store.evaluate import Evaluated, evaluate
from watersmeet.store.filters import evaluate_block
from watersmeet.store.kernels import I64, U8

_SAMPLE = 1 << 12  # rows that tell whether values are few: at most half as many


class Arriving:
    def __init__(self, rows: pa.RecordBatch, expressions: Iterable[Expression] = ()) -> None:
        """`expressions`: what will be asked for. Those over one string column are computed together."""
        self.rows = rows
        self._expected = tuple(dict.fromkeys(expressions))
        self._of_texts: dict[Expression, pa.Array | None] = {}  # by entry; None where it raises on one
        self._passing: dict[Expression, U8] = {}
        self._failures: dict[str, int] = {}  # of filters
        self._texts: dict[str, Any] = {}  # by column; None: its values are many

    def passing(self, filters: Sequence[Expression]) -> tuple[dict[Expression, U8], dict[str, int]]:
        """Which rows each filter lets through, and on how many rows it raised."""
        new = [each for each in filters if each not in self._passing]
        for begin in range(0, len(new), WIDEST):
            some = new[begin : begin + WIDEST]
            words, failures = evaluate_block(self.rows, Block(tuple((each,) for each in some)), self._evaluated)
            self._failures |= failures
            for bit, each in enumerate(some):
                self._passing[each] = ((words >> words.dtype.type(bit)) & words.dtype.type(1)).astype(np.uint8)
        failed = {each.text: self._failures.get(each.text, 0) for each in filters}
        return {each: self._passing[each] for each in filters}, failed

    def some(self, chosen: I64) -> Arriving:
        """Some of the rows, for a store that takes no others."""
        taken = pa.array(chosen)
        found = Arriving(self.rows.take(taken), self._expected)
        found._of_texts = self._of_texts
        found._texts = {
            name: None if text is None else pa.DictionaryArray.from_arrays(text.indices.take(taken), text.dictionary)
            for name, text in self._texts.items()
        }
        return found

    def values(self, expressions: Sequence[Expression]) -> tuple[dict[Expression, pa.Array], dict[str, int]]:
        """The values of expressions (those of few strings as dictionaries), and on how many rows each raised."""
        found = {each: values for each in expressions if (values := self._plain(each)) is not None}
        others = [each for each in expressions if each not in found]
        computed = self._evaluated(self.rows, others, decoded=False)
        for each, values in zip(others, computed.values, strict=True):
            found[each] = _as_type(values, arrow_type(each.type))
        failed = zip(others, computed.failures, strict=True)
        return found, {each.text: count for each, count in failed}

    def _plain(self, expression: Expression) -> pa.Array | None:
        """The values of a column, perhaps in a type that holds all of them: nothing that needs DuckDB."""
        expression = unnested(expression)
        if isinstance(expression, ColumnRef):
            text = self._text(expression.label)
            return self.rows.column(expression.label) if text is None else text
        if isinstance(expression, Cast) and expression.exact and expression.type != "string":
            inner = self._plain(expression.operands[0])
            return None if inner is None else pc.cast(inner, arrow_type(expression.type))
        return None

    def _evaluated(self, rows: pa.RecordBatch, expressions: Sequence[Expression], decoded: bool = True) -> Evaluated:
        """What DuckDB computes of these rows, of few strings once for each."""
        found: dict[int, tuple[pa.Array, int]] = {}
        for at, each in enumerate(expressions):
            values = self._of_text(each)
            if values is not None:
                indices = self._texts[each.columns[0].label].indices
                one = values.take(indices) if decoded else pa.DictionaryArray.from_arrays(indices, values)
                found[at] = one, 0
        others = [at for at in range(len(expressions)) if at not in found]
        of_rows = evaluate(rows, [expressions[at].text for at in others])
        found |= dict(zip(others, zip(of_rows.values, of_rows.failures, strict=True), strict=True))
        return Evaluated(*([found[at][part] for at in range(len(expressions))] for part in range(2)))

    def _of_text(self, expression: Expression) -> pa.Array | None:
        """The values of an expression over one column of few strings, by their numbers. One that raises has none: rows
        on which it does are counted, not strings."""
        if len(expression.columns) != 1:
            return None
        name = expression.columns[0].label
        text = self._text(name)
        if text is None:
            return None
        if expression not in self._of_texts:
            alike = [each for each in (*self._expected, expression) if each.columns == expression.columns]
            some = [each for each in dict.fromkeys(alike) if not isinstance(unnested(each), ColumnRef)]
            computed = evaluate(pa.record_batch([text.dictionary], [name]), [each.text for each in some])
            for each, values, failed in zip(some, computed.values, computed.failures, strict=True):
                self._of_texts[each] = None if failed else values
        return self._of_texts[expression]

    def _text(self, name: str) -> pa.DictionaryArray | None:
        """The values of a string column by number, NULL among them, if they are few."""
        if name not in self._texts:
            column = self.rows.column(name)
            is_text = pa.types.is_string(column.type)
            few = is_text and 2 * pc.count_distinct(column.slice(0, _SAMPLE)).as_py() <= min(len(column), _SAMPLE)
            self._texts[name] = pc.dictionary_encode(column, null_encoding="encode") if few else None
        return self._texts[name]


def _as_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        return pa.DictionaryArray.from_arrays(values.indices, _as_type(values.dictionary, kind))
    return values if values.type == kind else values.cast(kind)


def decoded(values: pa.Array) -> pa.Array:
    return values.dictionary.take(values.indices) if pa.types.is_dictionary(values.type) else values


def codes_of(values: pa.Array) -> list[I64]:
    """The codes of a key's values."""
    if not pa.types.is_dictionary(values.type):
        return key_codes(as_key(values))
    numbers = fixed_width(values.indices, np.int32)
    return [codes[numbers] for codes in key_codes(as_key(values.dictionary))]


def keys_at(values: pa.Array, rows: I64) -> pa.Array:
    """The values of a key in some rows, as they are shown."""
    taken = pa.array(rows)
    if pa.types.is_dictionary(values.type):
        return as_key(values.dictionary).take(values.indices.take(taken))
    return as_key(values).take(taken)
