"""The columns of rows that are only known by reference."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model import KeyPart
from watersmeet.plan.ruleset import kept_name
from watersmeet.runtime.probe.open_buckets import TickBuckets
from watersmeet.runtime.probe.partial_results import Refs
from watersmeet.store.codes import fixed_width
from watersmeet.store.evaluate import evaluate
from watersmeet.store.gathering import WIDTHS, gathered


class RowPlacement:
    """References to rows of a store, from which columns are put together."""

    def __init__(self, refs: Refs) -> None:
        self.refs = refs
        self.numbers: list[int] = np.flatnonzero(np.bincount(refs.bucket)).tolist()

    def columns(self, stores: TickBuckets, store: str, names: list[str]) -> pa.Table:
        if not self.numbers:
            return pa.Table.from_batches([stores.at(store, 0).rows.select(names).slice(0, 0)])
        batches = {number: stores.at(store, number).rows for number in self.numbers}
        others = [name for name in names if not all(_is_simple(batch.column(name)) for batch in batches.values())]
        found = dict(zip(others, self._taken(batches, others).columns, strict=True)) if others else {}
        arrays = [found[name] if name in found else self._gathered(batches, name) for name in names]
        return pa.table(arrays, names)

    def _gathered(self, batches: dict[int, pa.RecordBatch], name: str) -> pa.Array:
        columns = {number: batch.column(name) for number, batch in batches.items()}
        kind = columns[self.numbers[0]].type
        width = np.dtype(f"u{kind.bit_width // 8}")
        arrays = {number: fixed_width(column, width) for number, column in columns.items()}
        values = gathered(arrays, self.refs.bucket, self.refs.row, width)
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])

    def _taken(self, batches: dict[int, pa.RecordBatch], names: list[str]) -> pa.Table:
        """The columns of any type, by references sorted by bucket: each is taken from each bucket in one go."""
        if len(batches) == 1:
            return pa.Table.from_batches([batches[self.numbers[0]].select(names).take(pa.array(self.refs.row))])
        rows, bounds, back = self._sorted
        pieces = [
            batches[number].select(names).take(pa.array(rows[begin:end]))
            for number, begin, end in zip(self.numbers, bounds, [*bounds[1:], len(rows)], strict=True)
        ]
        return pa.Table.from_batches(pieces).combine_chunks().take(pa.array(back))

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rows by bucket, where each bucket begins, and where each reference is found."""
        narrow = self.refs.bucket.astype(np.uint16) if self.numbers[-1] < 1 << 16 else self.refs.bucket
        order = np.argsort(narrow, kind="stable")  # a radix sort for 16 bits
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return self.refs.row[order], np.searchsorted(self.refs.bucket[order], self.numbers), back


def _is_simple(column: pa.Array) -> bool:
    """Whether the values stand side by side, whole bytes each, without a NULL."""
    kind = column.type
    has_width = pa.types.is_primitive(kind) and kind.bit_width // 8 in WIDTHS and kind.bit_width % 8 == 0
    return has_width and not column.null_count


def key_values(
    stores: TickBuckets, store: str, rows: Refs | RowPlacement, prefix: str, part: KeyPart
) -> pa.ChunkedArray:
    """The values of a key of the rows, or of a member of materialized rows whose columns have this prefix."""
    placement = rows if isinstance(rows, RowPlacement) else RowPlacement(rows)
    if prefix or part.column is not None:
        return placement.columns(stores, store, [kept_name(prefix, part)]).column(0)
    read = [column.name for column in part.expression.columns]
    return evaluate(placement.columns(stores, store, read), [part.expression.text]).values[0]


def equal_values(left: pa.ChunkedArray, right: pa.ChunkedArray) -> np.ndarray:
    """Where two keys are equal, as in Spark: NaN is, NULL is not."""
    same = pc.equal(left, right).fill_null(False)
    if pa.types.is_floating(left.type):
        same = pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right)).fill_null(False))
    return np.asarray(same)
