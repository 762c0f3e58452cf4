"""`python -m bench.windows.spark_peer WORKLOAD.json OUT`: Spark's own window() aggregation, one query after the other.

The last line printed is when the ticks of each query ended."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import functions as f

from bench.peers.spark import session
from bench.windows.workload import Workload


def run(workload: Workload, out: Path) -> list[list[float]]:
    spark = session()
    ended = []
    for each in workload.aggregations:
        times: list[float] = []

        def write(batch: Any, number: int, name: str = each.name, times: list[float] = times) -> None:
            batch.write.mode("append").parquet(f"{out}/{name}")
            times.append(time.time())

        reader = spark.readStream.schema("ts TIMESTAMP, k BIGINT, x BIGINT").option("maxFilesPerTrigger", 1)
        rows = reader.parquet(f"{workload.folder}/r").withWatermark("ts", "0 seconds")
        window = f.window("ts", f"{each.range} seconds", f"{each.slide} seconds")
        grouped = rows.groupBy(window, "k").agg(f.expr(f"CAST({each.value} AS DOUBLE)").alias("v"))
        found = grouped.select(f.expr("unix_micros(window.start)").alias("w"), "k", "v")
        writer = found.writeStream.outputMode("append").foreachBatch(write)
        check = f"{out}/check-{each.name}"
        writer.option("checkpointLocation", check).trigger(availableNow=True).start().awaitTermination()
        ended.append(times)
    return ended


if __name__ == "__main__":
    print(json.dumps(run(Workload.from_json(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))))
