"""Spark's own stream-stream joins: for each query a chain of them, with private state, one query after the other."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.workloads.model import Outcome, Query, Table, Workload
from watersmeet.session import SETTINGS, make_session


def session(more: dict[str, str] | None = None) -> SparkSession:
    """Spark as we set it up for ourselves, with its own Python workers and as many partitions as cores."""
    settings = {name: value for name, value in SETTINGS.items() if name != "spark.python.daemon.module"}
    return make_session(settings={**settings, "spark.sql.shuffle.partitions": str(os.cpu_count()), **(more or {})})


def joined(spark: SparkSession, workload: Workload, query: Query, files_a_tick: int = 1) -> DataFrame:
    first = query.tables[0]
    frame = _input(spark, workload, query, first, files_a_tick)
    if query.windowed:
        frame = frame.withColumnRenamed(f"{first.alias}_at", "at")
    near = query.near("{}_us")
    for table, pairs in query.joins():
        on = [f"{left.replace('.', '_')} = {right.replace('.', '_')}" for left, right in pairs]
        right = _input(spark, workload, query, table, files_a_tick)
        if query.windowed:
            # Spark clears its state by one event time only, the first table's; the exact test is on numbers.
            at = f"{table.alias}_at"
            on += [f"{at} <= at + INTERVAL {first.seconds} SECONDS", f"{at} >= at - INTERVAL {table.seconds} SECONDS"]
        known = {*frame.columns, *right.columns}
        on += [part for part in near if all(word in known for word in part.split() if word.endswith("_us"))]
        near = [part for part in near if part not in on]
        frame = frame.join(right, f.expr(" AND ".join(on))).drop(f"{table.alias}_at")
    return frame.select(*(column.replace(".", "_") for column in query.columns))


def _input(spark: SparkSession, workload: Workload, query: Query, table: Table, files: int) -> DataFrame:
    stream = workload.stream(table.stream)
    schema = ", ".join(f"{name} {kind}" for name, kind in stream.columns.items())
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", files)
    frame = reader.parquet(f"{workload.folder}/{table.stream}").alias(table.alias)
    for filter_ in query.filters:
        if filter_.startswith(f"{table.alias}."):
            frame = frame.where(filter_)
    columns = [f.col(name).alias(f"{table.alias}_{name}") for name in query.needed(table.alias)]
    columns.append(f.expr(f"unix_micros({table.alias}.ts)").alias(f"{table.alias}_us"))
    if not query.windowed:
        return frame.select(*columns)
    frame = frame.select(*columns, f.col("ts").alias(f"{table.alias}_at"))
    # Less than the window would make Spark drop partial results of its first join as late.
    longest = max(other.seconds or 0 for other in query.tables)
    return frame.withWatermark(f"{table.alias}_at", f"{longest} seconds")


def run(workload: Workload, skip: int) -> Outcome:
    spark = session()
    spans: list[tuple[float, float]] = []
    results: dict[str, int] = {}
    state = 0
    for query in workload.queries:
        with tempfile.TemporaryDirectory(dir=Path(workload.folder).parent) as scratch:
            ended: list[float] = []

            def write(batch: Any, number: int, out: str = f"{scratch}/out", ended: list[float] = ended) -> None:
                batch.write.mode("append").parquet(out)
                ended.append(time.time())

            writer = joined(spark, workload, query).writeStream.foreachBatch(write)
            running = writer.option("checkpointLocation", f"{scratch}/check").trigger(availableNow=True).start()
            running.awaitTermination()
            # A last batch without rows only moves the watermark on.
            spans.append((ended[skip - 1], ended[min(len(ended), workload.ticks) - 1]))
            results[query.name] = spark.read.parquet(f"{scratch}/out").count()
            state += sum(path.stat().st_size for path in Path(scratch, "check", "state").rglob("*") if path.is_file())
    return Outcome(
        seconds=sum(end - begin for begin, end in spans),
        spans=spans,
        skipped=skip,
        results=results,
        state_bytes=state,
        parts={},
    )
