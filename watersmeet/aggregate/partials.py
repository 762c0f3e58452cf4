"""From rows to partial aggregates: what gather tasks do with the rows that arrive."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.aggregate.accumulate import accumulated
from watersmeet.aggregate.grouping import as_key, grouped, key_codes
from watersmeet.aggregate.slice_store import EARLIEST, SliceStore
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


class Passing:
    """Which of some rows each filter lets through: several stores may ask for the same filters."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self._rows = rows
        self._known: dict[Expression, U8] = {}
        self.failures: dict[str, int] = {}

    def of(self, filters: list[Expression]) -> dict[Expression, U8]:
        new = [each for each in filters if each not in self._known]
        for begin in range(0, len(new), WIDEST):
            some = new[begin : begin + WIDEST]
            words, failures = evaluate_block(self._rows, Block(tuple((each,) for each in some)))
            self.failures |= failures
            for bit, each in enumerate(some):
                self._known[each] = ((words >> words.dtype.type(bit)) & words.dtype.type(1)).astype(np.uint8)
        return {each: self._known[each] for each in filters}


def partial_aggregates(
    store: SliceStore, rows: pa.RecordBatch, tau: I64, earliest: I64 | None = None, passing: Passing | None = None
) -> SlicedRows:
    """One row for each slice and key among these rows. `earliest`: of results of a join, the oldest members' times;
    `passing`: what other stores know of these rows."""
    known = passing or Passing(rows)
    if store.spread:
        assert earliest is not None
        rows = rows.append_column(EARLIEST, pa.array(earliest // store.width * store.width))
    arriving = _Rows(rows, tau, known)
    chosen = arriving.keep_passing(store)
    if not len(arriving.tau):
        return SlicedRows(None, arriving.failures)
    needed = [*store.keys, *(part.argument for part in store.parts if part.argument is not None)]
    values = arriving.values(list(dict.fromkeys(needed)))
    keys = [as_key(values[key]) for key in store.keys]
    slices = arriving.tau // store.width
    if store.spread:
        keys.append(arriving.rows.column(EARLIEST))
    codes = [slices, *(code for key in keys for code in key_codes(key))]
    groups = grouped(codes)
    order = np.argsort(slices[groups.first], kind="stable")
    columns = [key.take(pa.array(groups.first)) for key in keys]
    for part in store.parts:
        argument = None if part.argument is None else values[part.argument]
        columns += accumulated(part, argument, EVERY_ROW if part.filter is None else chosen[part.filter], groups)
    made = pa.RecordBatch.from_arrays(columns, schema=store.schema)
    starts = slices[groups.first] * store.width
    if (order[1:] < order[:-1]).any():
        made, starts = made.take(pa.array(order)), starts[order]
    return SlicedRows(Bucket(made, starts), arriving.failures)


class _Rows:
    def __init__(self, rows: pa.RecordBatch, tau: I64, passing: Passing) -> None:
        self.rows = rows
        self.tau = tau
        self._passing = passing
        self.failures: dict[str, int] = {}

    def keep_passing(self, store: SliceStore) -> dict[Expression, U8]:
        """Leave out the rows that no query of the store wants; which of the others each filter lets through."""
        of_parts = [part.filter for part in store.parts if part.filter is not None]
        filters = list(dict.fromkeys((*store.filters, *of_parts)))
        passing = self._passing.of(filters)
        self._count({each.text: self._passing.failures.get(each.text, 0) for each in filters})
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
