"""The columns of rows that are only known by reference."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model import KeyPart
from watersmeet.plan.ruleset import kept_name
from watersmeet.runtime.probe.open_buckets import TickBuckets
from watersmeet.runtime.probe.partial_results import Refs
from watersmeet.store.evaluate import evaluate


class RowPlacement:
    """References sorted by bucket once, so that each column is taken from each bucket in one go."""

    def __init__(self, refs: Refs) -> None:
        self.refs = refs
        self.numbers = np.flatnonzero(np.bincount(refs.bucket))
        if len(self.numbers) > 1:
            narrow = refs.bucket.astype(np.uint16) if self.numbers[-1] < 1 << 16 else refs.bucket
            self.order = np.argsort(narrow, kind="stable")  # a radix sort for 16 bits
            self.bounds = np.searchsorted(refs.bucket[self.order], self.numbers)
            self.back = np.empty(len(self.order), np.int64)
            self.back[self.order] = np.arange(len(self.order))

    def columns(self, stores: TickBuckets, store: str, names: list[str]) -> pa.Table:
        if len(self.numbers) == 0:
            return pa.Table.from_batches([stores.at(store, 0).rows.select(names).slice(0, 0)])
        if len(self.numbers) == 1:
            rows = stores.at(store, int(self.numbers[0])).rows.select(names)
            return pa.Table.from_batches([rows.take(pa.array(self.refs.row))])
        sorted_rows = self.refs.row[self.order]
        ends = [*self.bounds[1:], len(sorted_rows)]
        pieces = [
            stores.at(store, int(number)).rows.select(names).take(pa.array(sorted_rows[begin:end]))
            for number, begin, end in zip(self.numbers, self.bounds, ends, strict=True)
        ]
        return pa.Table.from_batches(pieces).combine_chunks().take(pa.array(self.back))


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
