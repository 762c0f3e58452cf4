"""Slice stores run by hand, tick by tick, as the engine runs them."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from watersmeet.aggregate import structure
from watersmeet.aggregate.answers import answers
from watersmeet.aggregate.choice import slice_stores
from watersmeet.aggregate.combined import combined_buckets
from watersmeet.aggregate.due import DueQuery
from watersmeet.aggregate.partials import partial_aggregates
from watersmeet.aggregate.slice_cache import DueRange, SliceCache
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.model import Query
from watersmeet.store.bucket import Bucket

BEGIN, END = -(1 << 40), 1 << 40


class Slices:
    """The column `at` of all streams is the event time."""

    def __init__(self, queries: list[Query], form: str = "") -> None:
        self.queries = queries
        self.readings = slice_stores(queries)
        self.stores = list(dict.fromkeys(each.store for found in self.readings.values() for each in found))
        self.buckets: dict[SliceStore, list[Bucket]] = {store: [] for store in self.stores}
        self.caches: dict[SliceStore, SliceCache] = {}
        self.closed = BEGIN
        self.found: dict[str, list[pa.RecordBatch]] = {query.name: [] for query in queries}
        self._fits = {"matrix": True, "tree": False}.get(form)

    def tick(self, rows: pa.Table | dict[str, pa.Table], watermark: int | None) -> None:
        """New rows, then the windows that end at or before the watermark."""
        by_stream = {"r": rows} if isinstance(rows, pa.Table) else rows
        for store in self.stores:
            for batch in by_stream.get(store.source, pa.table({})).to_batches():
                made = partial_aggregates(store, batch, np.asarray(batch.column("at")))
                if made.rows is not None:
                    self.buckets[store].append(made.rows)
        if watermark is not None and watermark > self.closed:
            self._close(watermark)

    def flush(self) -> None:
        self._close(END)

    def _close(self, until: int) -> None:
        due = [
            DueQuery(
                query,
                self.readings[query.name],
                DueRange(query.grid, query.grid.first(self.closed), query.grid.first(until)),
            )
            for query in self.queries
        ]
        for query, answer in zip(self.queries, answers(due, lambda store: self._cache(store, until)), strict=True):
            assert answer.query == query.name
            assert answer.problem is None
            assert answer.rows is not None
            self.found[query.name].append(answer.rows)
        self.closed = until

    def _cache(self, store: SliceStore, until: int) -> SliceCache:
        longest = max(query.grid.range for query in self.queries)
        cache = self.caches.setdefault(store, SliceCache(store, longest))
        force = (
            mock.patch.object(structure, "MATRIX_BYTES", -1)
            if self._fits is False
            else mock.patch.object(structure, "SMALL", 1 << 30)
        )
        with force:
            cache.advance(lambda begin, end: self.buckets[store], max(BEGIN, self.closed - longest), until)
        return cache

    def merge(self) -> None:
        """All buckets of each store become one."""
        for store, buckets in self.buckets.items():
            merged = combined_buckets(store, buckets, self.closed - max(query.grid.range for query in self.queries))
            self.buckets[store] = [] if merged is None else [merged]

    def forget_caches(self) -> None:
        self.caches = {}

    def results(self, query: str) -> pa.RecordBatch:
        (batch,) = pa.Table.from_batches(self.found[query]).combine_chunks().to_batches() or [self.found[query][0]]
        return batch


def as_text(row: tuple[Any, ...]) -> tuple[Any, ...]:
    def text(value: Any) -> str:
        if isinstance(value, float):
            return repr(round(value, 6) + 0.0)
        return str(value) if not isinstance(value, Decimal) else str(value.normalize() + 0)

    return tuple(map(text, row))


def given_by(answer: pa.RecordBatch | None) -> Counter[tuple[Any, ...]]:
    assert answer is not None
    return Counter(as_text(tuple(row.values())) for row in answer.to_pylist())
