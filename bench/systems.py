"""The systems under test, each in a process of its own.

`python -m bench.systems NAME ARGUMENTS` prints one line of JSON."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.three_streams import COLUMNS
from watersmeet.runtime.spark import TICK_LOG
from watersmeet.store.manifest import load_newest


@dataclass(frozen=True)
class Measured:
    """Ticks of one run: when each ended (seconds), how many input rows it had; all results; bytes of state."""

    ended: list[float]
    rows: list[int]
    results: int
    state_bytes: int
    details: dict[str, Any]

    def rows_per_second(self, skip: int) -> float:
        """Input rows a second over the ticks after the first `skip`, which warm up compilers and caches."""
        return sum(self.rows[skip:]) / (self.ended[-1] - self.ended[skip - 1])

    def seconds_per_tick(self, last: int) -> float:
        return (self.ended[-1] - self.ended[-1 - last]) / last


def measure(system: str, **arguments: Any) -> Measured:
    command = [sys.executable, "-m", "bench.systems", system, json.dumps(arguments, default=str)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise SystemExit(f"{system} failed:\n{done.stderr[-3000:]}")
    return Measured(**json.loads(lines[-1]))


def run_watersmeet(script: str, home: str, **options: Any) -> Measured:
    """`watersmeet run --once` on a pipeline, as a person runs it; the log of its ticks is read afterwards."""
    pipeline = Path(home).with_suffix(".sql")
    pipeline.write_text(script)
    sets = [part for name, value in options.items() for part in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "watersmeet.cli", "run", str(pipeline), "--once", "--home", home, *sets]
    subprocess.run(command, check=True, stdout=sys.stderr)
    ticks = [json.loads(line) for line in (Path(home) / TICK_LOG).read_text().splitlines()]
    manifest = load_newest(Path(home))
    return Measured(
        [tick["finished_at"] for tick in ticks],
        [tick["rows"] for tick in ticks],
        sum(count for name, count in manifest.totals.items() if name.startswith("results/")),
        sum(bucket.bytes for bucket in manifest.buckets),
        {part: sum(tick[part] for tick in ticks[-5:]) / 5 for part in ("gather", "probe", "commit")},
    )


def run_spark(folder: str, ticks: int, window_seconds: int = 10) -> Measured:
    """Spark's own chained stream-stream joins, with a watermark so that its state is bounded too."""
    from pyspark.sql import functions as f

    from watersmeet.session import SETTINGS, make_session

    settings = {name: value for name, value in SETTINGS.items() if name != "spark.python.daemon.module"}
    spark = make_session(settings={**settings, "spark.sql.shuffle.partitions": "2"})
    frames = {}
    for name, columns in COLUMNS.items():
        schema = "ts timestamp, id long, " + ", ".join(f"{column} long" for column in columns)
        frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"{folder}/{name}")
        frames[name] = frame.select(*(f.col(column).alias(f"{name}_{column}") for column in frame.columns))
        # Less than the window would make Spark drop partial results of its first join as late.
        frames[name] = frames[name].withWatermark(f"{name}_ts", f"{window_seconds} seconds")

    def near(left: str, right: str) -> Any:
        span = f.expr(f"INTERVAL {window_seconds} SECONDS")
        return (f.col(left) >= f.col(right) - span) & (f.col(left) <= f.col(right) + span)

    first = frames["r"].join(frames["s"], (f.col("r_a") == f.col("s_a")) & near("r_ts", "s_ts"))
    # Spark allows one event time after a join; the other goes on as a number.
    first = first.select("r_id", "r_ts", "s_id", "s_b", f.unix_micros("s_ts").alias("s_us"))
    apart = f.abs(f.unix_micros("t_ts") - f.col("s_us"))
    joined = first.join(
        frames["t"],
        (f.col("s_b") == f.col("t_b")) & near("r_ts", "t_ts") & (apart <= window_seconds * 1_000_000),
    ).select("r_id", "s_id", "t_id", "t_c")
    with tempfile.TemporaryDirectory() as scratch:
        ended: list[float] = []

        def write(batch: Any, number: int) -> None:
            batch.write.mode("append").parquet(f"{scratch}/out")
            ended.append(time.time())

        writer = joined.writeStream.foreachBatch(write).option("checkpointLocation", f"{scratch}/check")
        running = writer.trigger(availableNow=True).start()
        while running.isActive and len(ended) < ticks:
            time.sleep(0.1)
        if running.exception() is not None:
            raise SystemExit(str(running.exception())[:2000])
        running.stop()
        rows = [progress["numInputRows"] for progress in running.recentProgress][: len(ended)]
        rows += rows[-1:] * (len(ended) - len(rows))  # the last one was stopped before it told
        results = spark.read.parquet(f"{scratch}/out").count()
        sizes = [path.stat().st_size for path in Path(scratch, "check", "state").rglob("*") if path.is_file()]
    return Measured(ended, rows, results, sum(sizes), {})


def run_duckdb(folder: str, window_seconds: int = 10) -> Measured:
    """One batch query over the finite input: the limit of what a join can do here."""
    import duckdb

    newest = "greatest(r.ts, s.ts, t.ts)"
    near = " AND ".join(f"{newest} - {name}.ts <= INTERVAL {window_seconds} SECOND" for name in COLUMNS)
    tables = ", ".join(f"'{folder}/{name}/*.parquet' AS {name}" for name in COLUMNS)
    connection = duckdb.connect()
    began = time.time()
    (results,) = connection.execute(
        f"SELECT count(*) FROM {tables} WHERE r.a = s.a AND s.b = t.b AND {near}"
    ).fetchone() or (0,)
    ended = time.time()
    counts = [connection.execute(f"SELECT count(*) FROM '{folder}/{name}/*.parquet'").fetchone() for name in COLUMNS]
    return Measured([began, ended], [0, sum(row[0] for row in counts if row)], results, 0, {})


if __name__ == "__main__":
    runner = {"watersmeet": run_watersmeet, "spark": run_spark, "duckdb": run_duckdb}[sys.argv[1]]
    outcome = runner(**json.loads(sys.argv[2]))
    print(re.sub(r"\s+", " ", json.dumps(outcome.__dict__)))
