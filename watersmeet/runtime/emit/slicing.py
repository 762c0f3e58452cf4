"""Rows that arrive become partial aggregates: one bucket for each slice store of the stream, and partition."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.combined import combined_buckets
from watersmeet.aggregate.partials import partial_aggregates
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.errors import WatersmeetError
from watersmeet.home import layout
from watersmeet.home.counters import Counters
from watersmeet.home.manifest import BucketInfo
from watersmeet.model import Query
from watersmeet.runtime.emit.confine import reason_of
from watersmeet.runtime.tick.orders import GatherOrder, ProbeOrder
from watersmeet.runtime.tick.overload import Overload
from watersmeet.store.bucket import Bucket, Derived
from watersmeet.store.codes import combine, encode
from watersmeet.store.kernels import I64, partition_of


class Slicing:
    """What one task aggregates for some slice stores in a tick."""

    def __init__(self, order: GatherOrder | ProbeOrder, slices: Iterable[SliceStore], task: str) -> None:
        self._order, self._task = order, task
        self._made: dict[SliceStore, list[Bucket]] = {store: [] for store in slices}
        self._failures: dict[str, dict[str, int]] = {store.name: {} for store in self._made}
        self._numbers = itertools.count()

    def __bool__(self) -> bool:
        return bool(self._made)

    def add(self, rows: pa.RecordBatch, tau: I64) -> None:
        for store, made in self._made.items():
            with self._confined(store):
                found = partial_aggregates(store, rows, tau)
            if found.rows is not None:
                made.append(found.rows)
            failures = self._failures[store.name]
            for text, failed in found.failures.items():
                failures[text] = failures.get(text, 0) + failed

    def finish(self, counts: Counters) -> Iterator[BucketInfo]:
        """Write what was aggregated. Values that could not be computed count for the queries that ask for them."""
        if any(self._failures.values()):
            for query in self._order.rules.windowed:
                if failed := self._failed(query):
                    counts.failed_values[query.name] += failed
        for store, made in self._made.items():
            with self._confined(store):
                rows = made[0] if len(made) == 1 else combined_buckets(store, made)
            if rows is not None:
                yield from self._write(store, rows)

    @contextlib.contextmanager
    def _confined(self, store: SliceStore) -> Iterator[None]:
        """What is raised inside concerns the queries that read the store: the tick is repeated without them."""
        try:
            yield
        except (WatersmeetError, MemoryError, OSError):
            raise
        except Exception as problem:
            read = self._order.rules.read_slices.items()
            queries = [name for name, readings in read if any(each.store == store for each in readings)]
            raise Overload.of(queries, reason_of(problem)) from problem

    def _failed(self, query: Query) -> int:
        """Values of a row count once, though several of the stores that the query reads may need them."""
        read = {each.store.name for each in self._order.rules.read_slices.get(query.name, ())}
        failures = [failed for store, failed in self._failures.items() if store in read]
        texts = {each.text for each in query.form.over_rows}
        return sum(max((each.get(text, 0) for each in failures), default=0) for text in texts)

    def _write(self, store: SliceStore, rows: Bucket) -> Iterator[BucketInfo]:
        partitions, tick = self._order.rules.partitions, self._order.tick
        places = _places(store, rows, partitions)
        for place in np.unique(places).tolist():
            part = rows if partitions == 1 else rows.keep(np.flatnonzero(places == place))
            file = layout.bucket_file(store.name, tick, self._order.attempt, f"{self._task}-a{next(self._numbers)}")
            yield part.write(
                Path(self._order.home),
                file,
                Derived(),
                store=store.name,
                first_tick=tick,
                last_tick=tick,
                partition=place,
                layout=self._order.rules.slices_layout,
            )


def _places(store: SliceStore, rows: Bucket, partitions: int) -> np.ndarray:
    if partitions == 1 or not store.keys:
        return np.zeros(len(rows), np.int32)
    keys = zip(store.key_names, store.key_types, strict=True)
    codes = combine([encode(rows.rows.column(name), kind) for name, kind in keys])
    values = np.where(codes.valid != 0, codes.values, 0) if len(codes.valid) else codes.values
    return partition_of(values, partitions)
