"""Queries whose windows are due, their windows, and the combined partials of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.last_step import FinalStep
from watersmeet.aggregate.reading import SliceRead
from watersmeet.aggregate.slice_cache import DueRange, SliceCache
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.aggregate.sparse import Keep
from watersmeet.model.expression import Expression
from watersmeet.model.forms import END, START
from watersmeet.model.query import Query
from watersmeet.store.kernels import I64

Caches = Callable[[SliceStore], SliceCache]


@dataclass(frozen=True)
class DueQuery:
    """A query, what it reads, and which of its windows are due."""

    query: Query
    reads: tuple[SliceRead, ...]
    span: DueRange

    @cached_property
    def stores(self) -> tuple[SliceStore, ...]:
        return tuple(dict.fromkeys(reading.store for reading in self.reads))

    @property
    def step(self) -> FinalStep:
        form: Any = self.query.form  # one of aggregates
        return FinalStep(form.final, form.outputs)

    @cached_property
    def pushed_having(self) -> Expression | None:
        """HAVING, if it can be decided by the partials of one read: keys that it leaves out are not made then."""
        having = self.step.final.having
        if having is None or len(self.reads) > 1:
            return None
        columns = having.columns
        return having if columns and all(column.label in self.partial_of for column in columns) else None

    @cached_property
    def partial_of(self) -> dict[str, int]:
        """The numbers of the partials of the first read, by the names of their columns."""
        return {name: at for at, partial in enumerate(self.reads[0].partials) for name, _ in partial.columns(at)}


@dataclass(frozen=True)
class CombinedPartials:
    """Combined partials of windows of several queries: `k0`, …, `p0`, …, `window_start`, `window_end`."""

    rows: pa.RecordBatch
    queries: I64  # of each row, in order; numbers of `DueQuery`s
    windows: I64  # of each row, by their starts or numbers; in order for each query
    left_out: Mapping[int, int] = field(default_factory=dict)  # by query, keys that HAVING has left out already


@dataclass(frozen=True)
class Windows:
    """Windows of several queries, in order."""

    spans: I64  # of each window, the number of its query among those at hand
    starts: I64
    ends: I64

    @classmethod
    def of(cls, spans: Sequence[DueRange], cache: SliceCache) -> Windows:
        """The due windows that have slices."""
        numbers, starts = cache.due(spans)
        ranges = np.array([span.grid.range for span in spans], np.int64)
        return cls(numbers, starts, starts + ranges[numbers])

    @classmethod
    def joined(
        cls, spans: Sequence[DueRange], members: Sequence[SliceRead], present: Sequence[SliceRead], caches: Caches
    ) -> Windows:
        """The due windows of a factorized join: those with rows of all members; without keys, of some stream."""
        candidates = [cls.of(spans, caches(reading.store)) for reading in present or members]
        return cls.united(candidates)[0] if present else cls.common(candidates)

    @classmethod
    def united(cls, candidates: Sequence[Windows]) -> tuple[Windows, list[I64]]:
        """The windows that are in at least one of several lists; and for each list the numbers that they have now."""
        tables = np.concatenate([each._table() for each in candidates], axis=1)
        every, numbers = np.unique(tables, axis=1, return_inverse=True)
        ends = np.cumsum([len(each.starts) for each in candidates])[:-1]
        found = cls(*(np.ascontiguousarray(column) for column in every))
        return found, np.split(numbers.reshape(-1).astype(np.int64), ends)

    @classmethod
    def common(cls, candidates: Sequence[Windows]) -> Windows:
        """The windows that are in all of several lists."""
        tables = [each._table() for each in candidates]
        every, counts = np.unique(np.concatenate(tables, axis=1), axis=1, return_counts=True)
        return cls(*(np.ascontiguousarray(column[counts == len(tables)]) for column in every))

    def _table(self) -> np.ndarray:
        return np.stack((self.spans, self.starts, self.ends))

    def read(self, reading: SliceRead, caches: Caches, keep: Keep | None = None) -> tuple[pa.RecordBatch, I64]:
        return caches(reading.store).read(reading.parts, reading.present, self.starts, self.ends, keep)

    def relation(self, rows: pa.RecordBatch, chosen: I64, numbers: list[int]) -> CombinedPartials:
        """Rows with their windows, as the last step reads them."""
        starts = self.starts[chosen]
        times = [pa.array(each, pa.timestamp("us")) for each in (starts, self.ends[chosen])]
        whole = pa.RecordBatch.from_arrays([*rows.columns, *times], names=[*rows.schema.names, START, END])
        return CombinedPartials(whole, np.array(numbers, np.int64)[self.spans[chosen]], starts)
