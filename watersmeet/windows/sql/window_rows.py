"""The rows of windows, cut from buckets: once for all queries of a task that read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pyarrow as pa

from watersmeet.home.manifest import BucketInfo
from watersmeet.model.types import arrow_type
from watersmeet.store.bucket import Bucket
from watersmeet.store.kernels import I64

_NONE = "none"  # in place of no columns: a table of DuckDB has some


class WindowRows:
    """Rows of streams in the windows of a tick. Buckets are open for as long."""

    def __init__(self, opened: Callable[[BucketInfo], Bucket], columns: Mapping[str, Mapping[str, str]]) -> None:
        """`columns`: by stream those that are read, with their types."""
        self._open_bucket, self._columns = opened, columns
        self._buckets: dict[str, Bucket] = {}  # by file,
        self._times: dict[str, I64] = {}  # and their event times in order

    def times(self, info: BucketInfo) -> I64:
        """The event times of a bucket, in order."""
        if info.file not in self._times:
            bucket = self._opened(info)
            order = bucket.by_time()
            self._times[info.file] = bucket.tau[order] if len(order) else bucket.tau
        return self._times[info.file]

    def count(self, infos: Iterable[BucketInfo], start: int, end: int) -> tuple[int, int]:
        """How many rows of these buckets are in a window, and about how many bytes they have."""
        rows = size = 0
        for info in infos:
            first, last = self._places(info, start, end)
            rows += last - first
            size += (last - first) * info.bytes // max(1, info.rows)
        return rows, size

    def of(self, stream: str, infos: Iterable[BucketInfo], start: int, end: int) -> pa.Table:
        columns = self._columns[stream]
        schema = pa.schema([(name, arrow_type(kind)) for name, kind in columns.items()] or [(_NONE, pa.bool_())])
        places = [(info, *self._places(info, start, end)) for info in infos]
        return pa.Table.from_batches([self._cut(*each, schema) for each in places if each[1] < each[2]], schema)

    def _cut(self, info: BucketInfo, first: int, last: int, schema: pa.Schema) -> pa.RecordBatch:
        if not self._columns[info.store]:
            return pa.record_batch([pa.nulls(last - first, pa.bool_())], schema)
        bucket = self._opened(info)
        rows, order = bucket.rows.select(schema.names), bucket.by_time()
        if last - first < len(bucket):
            rows = rows.take(pa.array(np.sort(order[first:last]))) if len(order) else rows.slice(first, last - first)
        return rows if rows.schema == schema else rows.cast(schema)

    def _places(self, info: BucketInfo, start: int, end: int) -> tuple[int, int]:
        """Where the rows of a window begin and end in the order of event times."""
        if start <= info.tau_min and info.tau_max < end:
            return 0, info.rows
        if info.tau_max < start or info.tau_min >= end:
            return 0, 0
        first, last = np.searchsorted(self.times(info), (start, end))
        return int(first), int(last)

    def _opened(self, info: BucketInfo) -> Bucket:
        if info.file not in self._buckets:
            self._buckets[info.file] = self._open_bucket(info)
        return self._buckets[info.file]
