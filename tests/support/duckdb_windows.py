"""Windows that only Spark computes: DuckDB computes them instead, in this process."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from watersmeet import points
from watersmeet.model.types import arrow_type
from watersmeet.runtime.emit.result_files import ResultFiles
from watersmeet.runtime.exec.executor import Executor
from watersmeet.runtime.tick.orders import TaskReport
from watersmeet.store.bucket import Bucket
from watersmeet.windows.sql.spark import SparkWindows
from watersmeet.windows.sql.tick import BatchOrder


class DuckdbWindows(SparkWindows):
    """For texts that both understand. `computed` has the windows of each call: of a tick."""

    def __init__(self, executor: Executor) -> None:
        super().__init__(executor)
        self.computed: list[list[tuple[str, int]]] = []

    def compute(self, asked: Iterable[Sequence[BatchOrder]]) -> list[TaskReport]:
        orders = [order for orders in asked for order in orders]
        self.computed.append([(order.query.name, order.start) for order in orders])
        return [_computed(order, f"w{at}") for at, order in enumerate(orders)]


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    """One for hundreds of windows: making one takes longer than a window."""
    return duckdb.connect()


def _computed(order: BatchOrder, task: str) -> TaskReport:
    text = order.sql.text.replace("`", '"').replace("timestamp_micros", "make_timestamp")
    text = text.replace("try_", "").replace(":window_start", str(order.start)).replace(":window_end", str(order.end))
    report = TaskReport()
    results = ResultFiles(order, task, report, {order.query.name: order.query})
    with _database().cursor() as connection:
        for view in order.sql.views:
            connection.register(view.name, _rows(order, view.stream))
        results.add(order.query.name, connection.sql(text).to_arrow_table())
    results.finish()
    points.reach("window.after")
    return report


def _rows(order: BatchOrder, stream: str) -> pa.Table:
    pieces = []
    for info in order.buckets[stream]:
        bucket = Bucket.open(Path(order.home), info)
        inside = np.flatnonzero((bucket.tau >= order.start) & (bucket.tau < order.end))
        pieces.append(bucket.rows.take(pa.array(inside)))
    declared = order.rules.store(stream).columns
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in declared])
    return pa.Table.from_batches([piece.select(schema.names).cast(schema) for piece in pieces], schema)
