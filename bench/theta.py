"""Steps without an equality, on one core and without Spark: python -m bench.theta

A band join over 2 M stored rows must cost in proportion to what it finds, and a numeric predicate that no index serves
must be evaluated on 200 M pairs a second and core. Both are measured through the walk itself, as a task runs it.
Seconds are those of the processor, so that other programs on the machine do not count.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from watersmeet.home.manifest import BucketInfo
from watersmeet.model import Stream
from watersmeet.options import Options
from watersmeet.plan.planner import START, make_plan
from watersmeet.plan.ruleset import Emit, Materialize
from watersmeet.runtime.probe.open_buckets import OpenBuckets, TickBuckets
from watersmeet.runtime.probe.partial_results import PartialResults, ProbePath
from watersmeet.runtime.probe.partitions import OnlyPartition
from watersmeet.runtime.probe.walk import Walk
from watersmeet.runtime.tick.orders import ProbeOrder, RowRange
from watersmeet.sql import CreateStream, build_query, parse_script
from watersmeet.store.bucket import Bucket

STORED = 2_000_000
EPOCH = 1_767_225_600_000_000
_STREAMS = """CREATE STREAM r (ts TIMESTAMP, x DOUBLE, k BIGINT) TIMESTAMP BY ts FROM parquet 'nowhere';
CREATE STREAM s (ts TIMESTAMP, x DOUBLE, k BIGINT) TIMESTAMP BY ts FROM parquet 'nowhere';"""


def rows(count: int, seed: int) -> tuple[pa.RecordBatch, np.ndarray]:
    rng = np.random.default_rng(seed)
    tau = EPOCH + np.sort(rng.integers(0, 10_000_000, count))
    batch = pa.record_batch(
        {
            "ts": pa.array(tau, pa.timestamp("us")),
            "x": rng.random(count) * 1000,
            "k": rng.integers(0, 1_000_000, count),
        }
    )
    return batch, tau


class _Lengths:
    """Only adds up what arrives."""

    rows = 0

    def emit(self, end: Emit, partial: PartialResults, path: ProbePath) -> None:
        self.rows += len(partial)

    def materialize(self, end: Materialize, partial: PartialResults, path: ProbePath) -> None:
        raise AssertionError("nothing is materialized")

    def only_counts(self, emit: Emit) -> bool:
        return False

    def count(self, emit: Emit, counts: np.ndarray) -> None:
        raise AssertionError("no query only counts")


def measure(home: Path, condition: str, probing: int, stored: int = STORED) -> dict[str, float]:
    """New rows of r walk to the stored rows of s; the second walk is timed, when everything is loaded."""
    streams: dict[str, Stream] = {
        one.stream.name: one.stream for one in parse_script(_STREAMS) if isinstance(one, CreateStream)
    }
    query = build_query("q", f"SELECT r.k FROM r, s WHERE {condition} WINDOW 1 HOUR", streams)
    rules = make_plan(START, tuple(streams.values()), [query], Options()).rules
    buckets: dict[str, tuple[BucketInfo, ...]] = {}
    for name, count, tick in (("r", probing, 2), ("s", stored, 1)):
        bucket, derived = Bucket(*rows(count, tick)), rules.store(name).derived
        file = f"{name}-{abs(hash((condition, probing, stored)))}.bucket"
        buckets[name] = (bucket.write(home, file, derived, store=name, first_tick=tick, last_tick=tick),)
    starts = tuple(start for start in rules.starts if start.stream == "r")
    order = ProbeOrder(
        home=str(home), tick=2, attempt="a", rules=rules, phase=1, starts=starts, buckets=buckets, work=()
    )
    found, seconds = 0, 0.0
    for _ in range(2):
        ends = _Lengths()
        walk = Walk(order, TickBuckets(order, OpenBuckets()), ends, OnlyPartition())
        begun = time.process_time()
        list(walk.begin(RowRange(buckets["r"][0], 0, probing)))
        seconds, found = time.process_time() - begun, ends.rows
    return {"found": found, "seconds": seconds, "pairs a second": probing * stored / seconds}


CASES = [
    ("band, 1 match a row", "abs(r.x - s.x) < 0.00025", 20_000),
    ("band, 10 matches a row", "abs(r.x - s.x) < 0.0025", 20_000),
    ("band, 100 matches a row", "abs(r.x - s.x) < 0.025", 20_000),
    ("integer band, 10 matches a row", "abs(r.k - s.k) <= 2", 20_000),
    ("r.x * s.x < 1", "r.x * s.x < 1.0", 200),
    ("r.x * 3 + s.x > … OR r.x - s.x …", "r.x * 3 + s.x > 3950 OR r.x - s.x * 2.0 > 990", 200),
    ("r.k * s.k < 1000", "r.k * s.k < 1000", 200),
    ("r.x * s.x < 1, then SQL", "r.x * s.x < 1.0 AND ln(r.x + s.x) < 6.5", 200),
    ("SQL alone", "ln(r.x + s.x) < 2.5", 10),
]


def main() -> None:
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, condition, probing in CASES:
            got = figures[name] = measure(Path(folder), condition, probing)
            speed = f"{got['pairs a second'] / 1e6:12,.0f} M pairs/s"
            print(f"{name:34} {probing:8,} rows {got['found']:12,} found {got['seconds']:8.3f} s {speed}", flush=True)
    out = Path("bench/out")
    out.mkdir(parents=True, exist_ok=True)
    (out / "theta.json").write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
