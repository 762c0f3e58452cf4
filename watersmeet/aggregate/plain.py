"""Outputs that are no more than a sum or a mean of integers, as most are: computed here, because a request to DuckDB
takes longer than all else of a small window. What they give is what DuckDB gives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.model.expression import Cast, ColumnRef, Expression, Sql, unnested
from watersmeet.store.codes import fixed_width, fixed_width_words
from watersmeet.store.kernels import I64

_MEAN = ("CASE WHEN ", " > 0 THEN ", " / ", " END")  # see sql/lower/combine.py
_AS_DOUBLE = ("CAST(CAST(", " AS TEXT) AS DOUBLE)")  # of a decimal, see sql/functions/casts.py
_Known = tuple[np.ndarray, np.ndarray]  # values, and which of them are not NULL


def plain_output(relation: pa.RecordBatch, expression: Expression) -> pa.Array | None:
    """The values of such an output; None if it is another, or if not all values fit."""
    expression = unnested(expression)
    if isinstance(expression, Cast) and expression.type == "bigint":
        whole = _whole(relation, expression.operands[0])
        return None if whole is None else pa.array(whole[0], mask=~whole[1])
    if isinstance(expression, Sql) and expression.fragments == _MEAN:
        count, total, again = (_double(relation, operand) for operand in expression.operands)
        if count is None or total is None or again is None or expression.operands[0] != expression.operands[2]:
            return None
        known = count[1] & total[1] & (count[0] > 0)
        return pa.array(total[0] / np.where(known, count[0], 1.0), mask=~known)
    return None


def _whole(relation: pa.RecordBatch, expression: Expression) -> tuple[I64, np.ndarray] | None:
    """The values of a column of integers, or of decimals without a scale that 64 bits hold."""
    expression = unnested(expression)
    if not isinstance(expression, ColumnRef):
        return None
    column = relation.column(expression.label)
    known = np.asarray(column.is_valid())
    if column.type == pa.int64():
        return fixed_width(column, np.int64), known
    if not pa.types.is_decimal(column.type) or column.type.scale:
        return None
    words = fixed_width_words(column)
    low, high = words[:, 0], words[:, 1]
    return (low, known) if ((high == low >> 63) | ~known).all() else None


def _double(relation: pa.RecordBatch, expression: Expression) -> _Known | None:
    expression = unnested(expression)
    is_cast = isinstance(expression, Cast) and expression.type == "double"
    if not is_cast and not (isinstance(expression, Sql) and expression.fragments == _AS_DOUBLE):
        return None
    whole = _whole(relation, expression.operands[0])
    return None if whole is None else (whole[0].astype(np.float64), whole[1])
