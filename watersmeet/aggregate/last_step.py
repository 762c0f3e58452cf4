"""The last step of windows: HAVING, the outputs, DISTINCT, ORDER BY and LIMIT, for many windows at once.

Columns are taken as they are; all that has to be computed of one relation is one request to DuckDB (and HAVING
another).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.grouping import grouped, key_codes, ordered_codes
from watersmeet.aggregate.plain import plain_output
from watersmeet.model.expression import ColumnRef, Expression, unnested
from watersmeet.model.forms import FinalStage, SortOrder
from watersmeet.model.join import Output
from watersmeet.model.types import arrow_type
from watersmeet.store.derived import Block
from watersmeet.store.evaluate import evaluate
from watersmeet.store.filters import evaluate_block
from watersmeet.store.kernels import I64


@dataclass(frozen=True)
class FinalStep:
    final: FinalStage
    outputs: tuple[Output, ...]


@dataclass
class Finished:
    rows: pa.RecordBatch  # the outputs, with the types in which the engine keeps them
    windows: I64  # the window of each row, in order
    failures: dict[str, int] = field(default_factory=dict)  # expression -> on how many rows it raised


def finished(step: FinalStep, relation: pa.RecordBatch, windows: I64) -> Finished:
    """The results of windows. `relation` has their combined partials, `windows` the window of each row, in order."""
    failures: dict[str, int] = {}
    final = step.final
    if final.having is not None:
        kept, failures = passing_having(relation, final.having)
        if not kept.all():
            relation, windows = relation.filter(pa.array(kept)), windows[kept]
    wanted = [*(output.expression for output in step.outputs), *(order.expression for order in final.order)]
    values = _computed(relation, wanted, failures)
    columns, ordering = values[: len(step.outputs)], values[len(step.outputs) :]
    arrays = [
        column if column.type == arrow_type(output.type) else column.cast(arrow_type(output.type))
        for column, output in zip(columns, step.outputs, strict=True)
    ]
    names = [output.name for output in step.outputs]
    rows = np.arange(len(windows))
    if final.distinct and len(rows):
        rows = grouped([windows, *(code for each in arrays for code in key_codes(each))]).first
    if final.order and len(rows):
        rows = _ordered(rows, windows, ordering, final.order)
    if final.limit is not None or final.offset:
        rows = _limited(rows, windows, final)
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    if len(rows) < len(windows) or final.order:
        batch, windows = batch.take(pa.array(rows)), windows[rows]
    return Finished(batch, windows, failures)


def passing_having(relation: pa.RecordBatch, having: Expression) -> tuple[np.ndarray, dict[str, int]]:
    """Which rows pass HAVING, and on how many it raised."""
    words, failed = evaluate_block(relation, Block(((having,),)))
    return words != 0, {text: count for text, count in failed.items() if count}


def _computed(relation: pa.RecordBatch, wanted: list[Expression], failures: dict[str, int]) -> list[pa.Array]:
    found: dict[Expression, pa.Array] = {}
    for each in wanted:
        inner = unnested(each)
        column = relation.column(inner.label) if isinstance(inner, ColumnRef) else plain_output(relation, inner)
        if column is not None:
            found[each] = column
    others = [each for each in dict.fromkeys(wanted) if each not in found]
    evaluated = evaluate(relation, [each.text for each in others])
    for each, values, failed in zip(others, evaluated.values, evaluated.failures, strict=True):
        found[each] = values
        if failed:
            failures[each.text] = failed
    return [found[each] for each in wanted]


def _ordered(rows: I64, windows: I64, values: list[pa.Array], orders: tuple[SortOrder, ...]) -> I64:
    keys: list[np.ndarray] = [windows[rows]]
    for column, order in zip(values, orders, strict=True):
        codes = ordered_codes(column)[rows]
        if column.null_count:
            known = np.asarray(column.is_valid())[rows]
            keys.append(known if order.nulls_first else ~known)
            codes = np.where(known, codes, 0)
        keys.append(~codes if order.descending else codes)
    chosen: I64 = rows[np.lexsort(keys[::-1])]
    return chosen


def _limited(rows: I64, windows: I64, final: FinalStage) -> I64:
    """Some rows of each window; they stand in the order of windows."""
    of_row = windows[rows]
    begins = np.searchsorted(of_row, of_row)
    place = np.arange(len(rows)) - begins
    kept = place >= final.offset
    if final.limit is not None:
        kept &= place < final.offset + final.limit
    return rows[kept]
