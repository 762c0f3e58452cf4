"""From rows to partial aggregates: what gather tasks do with the rows that arrive."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.aggregate.accumulate import accumulated
from watersmeet.aggregate.grouping import as_key, grouped, key_codes
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.model.expression import Cast, ColumnRef, Expression, unnested
from watersmeet.model.types import arrow_type
from watersmeet.store.bucket import Bucket
from watersmeet.store.codes import EVERY_ROW
from watersmeet.store.derived import WIDEST, Block
from watersmeet.store.evaluate import evaluate
from watersmeet.store.filters import evaluate_block
from watersmeet.store.kernels import I64, U8


@dataclass(frozen=True)
class SlicedRows:
    rows: Bucket | None  # of the slice store, in the order of slices; None where no row passes
    failures: dict[str, int] = field(default_factory=dict)  # expression -> on how many rows it raised


def partial_aggregates(store: SliceStore, rows: pa.RecordBatch, tau: I64) -> SlicedRows:
    """One row for each slice and key among these rows."""
    arriving = _Rows(rows, tau)
    passing = arriving.keep_passing(store)
    if not len(arriving.tau):
        return SlicedRows(None, arriving.failures)
    needed = [*store.keys, *(part.argument for part in store.parts if part.argument is not None)]
    values = arriving.values(list(dict.fromkeys(needed)))
    keys = [as_key(values[key]) for key in store.keys]
    slices = arriving.tau // store.width
    codes = [slices, *(code for key in keys for code in key_codes(key))]
    groups = grouped(codes)
    order = np.argsort(slices[groups.first], kind="stable")
    columns = [key.take(pa.array(groups.first)) for key in keys]
    for part in store.parts:
        argument = None if part.argument is None else values[part.argument]
        columns += accumulated(part, argument, EVERY_ROW if part.filter is None else passing[part.filter], groups)
    made = pa.RecordBatch.from_arrays(columns, schema=store.schema)
    starts = slices[groups.first] * store.width
    if (order[1:] < order[:-1]).any():
        made, starts = made.take(pa.array(order)), starts[order]
    return SlicedRows(Bucket(made, starts), arriving.failures)


class _Rows:
    def __init__(self, rows: pa.RecordBatch, tau: I64) -> None:
        self.rows = rows
        self.tau = tau
        self.failures: dict[str, int] = {}

    def keep_passing(self, store: SliceStore) -> dict[Expression, U8]:
        """Leave out the rows that no query of the store wants; which of the others each filter lets through."""
        of_parts = [part.filter for part in store.parts if part.filter is not None]
        passing = self._passing(list(dict.fromkeys((*store.filters, *of_parts))))
        if not store.filters:
            return passing
        wanted = np.zeros(len(self.tau), np.uint8)
        for each in store.filters:
            wanted |= passing[each]
        if wanted.all():
            return passing
        chosen = np.flatnonzero(wanted)
        self.rows, self.tau = self.rows.take(pa.array(chosen)), self.tau[chosen]
        return {each: passing[each][chosen] for each in of_parts}

    def _passing(self, filters: list[Expression]) -> dict[Expression, U8]:
        passing = {}
        for begin in range(0, len(filters), WIDEST):
            some = filters[begin : begin + WIDEST]
            words, failures = evaluate_block(self.rows, Block(tuple((each,) for each in some)))
            self._count(failures)
            for bit, each in enumerate(some):
                passing[each] = ((words >> words.dtype.type(bit)) & words.dtype.type(1)).astype(np.uint8)
        return passing

    def values(self, expressions: list[Expression]) -> dict[Expression, pa.Array]:
        plain = {each: found for each in expressions if (found := self._plain(each)) is not None}
        others = [each for each in expressions if each not in plain]
        evaluated = evaluate(self.rows, [each.text for each in others])
        for each, values, failed in zip(others, evaluated.values, evaluated.failures, strict=True):
            self._count({each.text: failed})
            plain[each] = values if values.type == arrow_type(each.type) else values.cast(arrow_type(each.type))
        return plain

    def _plain(self, expression: Expression) -> pa.Array | None:
        """The values of a column, perhaps in a type that holds all of them: nothing that needs DuckDB."""
        expression = unnested(expression)
        if isinstance(expression, ColumnRef):
            return self.rows.column(expression.label)
        if isinstance(expression, Cast) and expression.exact and expression.type != "string":
            inner = self._plain(expression.operands[0])
            return None if inner is None else pc.cast(inner, arrow_type(expression.type))
        return None

    def _count(self, failures: dict[str, int]) -> None:
        for text, failed in failures.items():
            if failed:
                self.failures[text] = self.failures.get(text, 0) + failed
