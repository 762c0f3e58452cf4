"""Rows of a slice store that have the same slice (or window) and key become one: a merge of buckets, or a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.accumulate import combined_part
from watersmeet.aggregate.accumulator import Accumulator
from watersmeet.aggregate.grouping import grouped, key_codes
from watersmeet.store.bucket import Bucket
from watersmeet.store.kernels import I64


class SliceColumns(Protocol):
    """The columns of a slice store."""

    @property
    def parts(self) -> tuple[Accumulator, ...]: ...

    @property
    def row_names(self) -> tuple[str, ...]: ...

    def columns_of(self, part: Accumulator) -> tuple[str, ...]: ...


def combined_buckets(store: SliceColumns, buckets: Sequence[Bucket], begin: int | None = None) -> Bucket | None:
    """The rows of buckets of a slice store, one for each slice and key, in the order of slices.

    Rows of slices before `begin` are left out; None where there are no others."""
    kept = [(rows, tau) for rows, tau in (_since(bucket, begin) for bucket in buckets) if len(tau)]
    if not kept:
        return None
    rows = pa.Table.from_batches([rows for rows, _ in kept]).combine_chunks().to_batches()[0]
    rows, tau = combined_rows(store, rows, np.concatenate([tau for _, tau in kept]))
    return Bucket(rows, tau)


def _since(bucket: Bucket, begin: int | None) -> tuple[pa.RecordBatch, I64]:
    if begin is None or bucket.tau.min(initial=begin) >= begin:
        return bucket.rows, bucket.tau
    chosen = np.flatnonzero(bucket.tau >= begin)
    return bucket.rows.take(pa.array(chosen)), bucket.tau[chosen]


def combined_rows(
    store: SliceColumns, rows: pa.RecordBatch, numbers: I64, parts: Sequence[Accumulator] | None = None
) -> tuple[pa.RecordBatch, I64]:
    """One row for each number and key, in the order of numbers, with some or all parts; and the numbers."""
    keys = [rows.column(name) for name in store.row_names]
    codes = [numbers, *(code for key in keys for code in key_codes(key))]
    groups = grouped(codes)
    chosen = store.parts if parts is None else parts
    names, columns = list(store.row_names), [key.take(pa.array(groups.first)) for key in keys]
    for part in chosen:
        own = store.columns_of(part)
        counts = rows.column(store.columns_of(part.counted)[0]) if part.function == "moments" else None
        names += own
        columns += combined_part(part, [rows.column(name) for name in own], counts, groups)
    made = pa.RecordBatch.from_arrays(columns, names=names)
    found = numbers[groups.first]
    order = np.argsort(found, kind="stable")
    if (order[1:] < order[:-1]).any():
        made, found = made.take(pa.array(order)), found[order]
    return made, found
