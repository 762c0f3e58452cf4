"""`bench/run calibrate`: the weights of the optimizer's costs on this machine, by CPU time, as they are shipped.

Probes are measured through the walk itself, as a task runs it; reading, indexing, results and materialized rows by what
tasks report of their own stages; a tick and a phase by the CPU time of all processes of an engine, with resident tasks
and without Spark tasks.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console

from bench.observe import observe
from bench.pipeline import run_pipeline
from bench.report import write_json
from bench.scratch import in_scratch
from bench.three_streams import EPOCH, query_sql, streams_sql, write_streams
from bench.windows.estimated import WINDOWED
from watersmeet.adapt.weight_fit import DONE
from watersmeet.engine import Engine
from watersmeet.home import counters as stages
from watersmeet.home import layout
from watersmeet.home.counters import Counters
from watersmeet.home.manifest import BucketInfo, load_newest
from watersmeet.model import ColumnRef, KeyPart, Stream
from watersmeet.optimize.weights import NEAR, SHIPPED, Weights
from watersmeet.options import Options
from watersmeet.plan.planner import START, make_plan
from watersmeet.plan.ruleset import Emit, Materialize, StreamStore
from watersmeet.runtime.probe.open_buckets import OpenBuckets, TickBuckets
from watersmeet.runtime.probe.partial_results import PartialResults, ProbePath
from watersmeet.runtime.probe.partitions import OnlyPartition
from watersmeet.runtime.probe.walk import Walk
from watersmeet.runtime.tick.orders import ProbeOrder, RowRange
from watersmeet.sql import CreateStream, build_query, parse_script
from watersmeet.store.bucket import Bucket
from watersmeet.store.derived import Derived
from watersmeet.store.kernels import I64
from watersmeet.store.merge import MergeJob, merge
from watersmeet.store.placement import Placement

PROBES = 200_000
SIZES = (NEAR, NEAR << 4, NEAR << 7, NEAR << 10)
MERGES = 2  # of each row while it is in its window
TICKS = 300  # enough to see the CPU time of all processes
_FILES = itertools.count()
_STREAMS = """CREATE STREAM r (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts FROM parquet 'nowhere';
CREATE STREAM s (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts FROM parquet 'nowhere';"""


def run(spark: bool = True) -> None:
    """Measure the weights of the optimizer's costs (--no-spark: without a tick and a phase of Spark tasks)."""
    weights = in_scratch(probing)
    weights = with_weights(weights, in_scratch(storing))
    weights = with_weights(weights, in_scratch(partial(stages_of_tasks, weights=weights)))
    weights = with_weights(weights, in_scratch(windows))
    embedded = in_scratch(partial(rounds, weights=weights, executor="local"))
    if spark:
        weights = with_weights(weights, in_scratch(partial(rounds, weights=weights, executor="spark")))
        weights = with_weights(weights, in_scratch(windows_by_spark))
    Console().print("SHIPPED = Weights(")
    for name, value in as_json(weights).items():
        Console().print(f"    {name}={value:.4g},")
    Console().print(")")
    Console().print(f"EMBEDDED = replace(SHIPPED, {', '.join(f'{k}={v:.4g}' for k, v in embedded.items())})")
    write_json("calibrate", {"weights": as_json(weights), "embedded": embedded})


def as_json(weights: Weights) -> dict[str, float]:
    return {name: value for name, value in asdict(weights).items() if name != "once"}


def with_weights(weights: Weights, measured: Mapping[str, float]) -> Weights:
    return Weights(**{**as_json(weights), **measured}, once=weights.once)


def least(measure: Callable[[], float], times: int = 5) -> float:
    """The least of several measurements: others on the machine only add to it."""
    return min(measure() for _ in range(times))


# Probes ------------------------------------------------------------------------------------------


def probing(folder: Path) -> Weights:
    missed, hit, more = {}, {}, {}
    for size in SIZES:
        missed[size] = _probe(folder, f"m{size}", size, keys=(size, 2 * size))
        hit[size] = _probe(folder, f"h{size}", size, keys=(0, size))
        more[size] = _probe(folder, f"f{size}", size, keys=(0, size // 4), partners=4)
    match = float(np.median([(more[size] - hit[size]) / 3 for size in SIZES]))
    doublings = np.log2(np.array(SIZES) / NEAR)
    far, first = np.polyfit(doublings, [hit[size] for size in SIZES], 1)
    one, several = _calls(folder, "one", 1), _calls(folder, "several", 9)
    bucket = (several - one) / 8
    return replace(
        SHIPPED,
        miss=min(missed.values()),
        hit=max(min(missed.values()), first - match),
        far=max(0.0, far),
        match=match,
        step=one - bucket,
        bucket=bucket,
    )


def _rows(keys: np.ndarray) -> Bucket:
    tau = EPOCH + np.sort(np.random.default_rng(len(keys)).integers(0, 10_000_000, len(keys)))
    return Bucket(pa.record_batch({"ts": pa.array(tau, pa.timestamp("us")), "k": keys}), tau)


def _order(folder: Path, name: str, stored: list[np.ndarray], probing: np.ndarray) -> ProbeOrder:
    streams: dict[str, Stream] = {
        one.stream.name: one.stream for one in parse_script(_STREAMS) if isinstance(one, CreateStream)
    }
    query = build_query("q", "SELECT r.k FROM r, s WHERE r.k = s.k WINDOW 1 HOUR", streams)
    rules = make_plan(START, tuple(streams.values()), [query], Options(searcher="greedy")).rules

    def written(store: str, keys: np.ndarray, tick: int) -> BucketInfo:
        derived = rules.store(store).derived
        file = f"{name}-{store}-{next(_FILES)}.bucket"
        return _rows(keys).write(folder, file, derived, store=store, first_tick=tick, last_tick=tick)

    buckets = {
        "s": tuple(written("s", keys, 1) for keys in stored),
        "r": (written("r", probing, 2),),
    }
    starts = tuple(start for start in rules.starts if start.stream == "r")
    return ProbeOrder(str(folder), 2, "a", rules, phase=1, starts=starts, buckets=buckets, work=())


def _probe(folder: Path, name: str, size: int, keys: tuple[int, int], partners: int = 1) -> float:
    """Microseconds of a probe of a store of so many rows, each key with some partners."""
    rng = np.random.default_rng(size)
    stored = rng.permutation(np.arange(size) // partners)
    order = _order(folder, name, [stored], rng.integers(*keys, PROBES))
    return least(lambda: _walk(order, PROBES)) / PROBES


def _calls(folder: Path, name: str, buckets: int) -> float:
    """Microseconds of a step of one row over so many buckets of few rows."""
    order = _order(folder, name, [np.arange(16)] * buckets, np.arange(1))
    return least(lambda: _walk(order, 1), 200)


class Nothing:
    """Ends of paths that take what they get, and do nothing."""

    def emit(self, end: Emit, partial: PartialResults, path: ProbePath) -> None: ...

    def materialize(self, end: Materialize, partial: PartialResults, path: ProbePath) -> None: ...

    def only_counts(self, emit: Emit) -> bool:
        return False

    def count(self, emit: Emit, counts: I64) -> None: ...


def _walk(order: ProbeOrder, rows: int) -> float:
    opened = OpenBuckets()
    micros = 0.0
    for _ in range(2):  # the first one opens the buckets
        walk = Walk(order, TickBuckets(order, opened), Nothing(), OnlyPartition())
        began = time.process_time_ns()
        list(walk.begin(RowRange(order.buckets["r"][0], 0, rows)))
        micros = (time.process_time_ns() - began) / 1000
    return micros


# Rows that are stored ----------------------------------------------------------------------------


def storing(folder: Path) -> dict[str, float]:
    """An index entry: of a new bucket, and of the merges of it."""
    key = (KeyPart(ColumnRef("k", "bigint"), "bigint"),)
    rows = 20_000
    keys = [np.random.default_rng(at).integers(0, 4 * rows, rows) for at in range(4)]

    def write(derived: Derived) -> float:
        bucket = _rows(keys[0])
        began = time.process_time_ns()
        bucket.write(folder, f"w{next(_FILES)}.bucket", derived, store="s", first_tick=1, last_tick=1)
        return (time.process_time_ns() - began) / 1000 / rows

    def merged(derived: Derived) -> float:
        inputs = tuple(
            _rows(one).write(folder, f"i{next(_FILES)}.bucket", derived, store="s", first_tick=at, last_tick=at)
            for at, one in enumerate(keys)
        )
        began = time.process_time_ns()
        merge(
            folder,
            MergeJob(inputs, EPOCH - 1),
            f"m{next(_FILES)}.bucket",
            StreamStore("s", (), derived.keys, (), Placement()),
        )
        return (time.process_time_ns() - began) / 1000 / (rows * len(keys))

    plain, indexed = Derived((), (), ()), Derived((key,), (), ())
    new, kept = (least(lambda d=d: write(d)) for d in (indexed, plain))  # type: ignore[misc]
    again, alone = (least(lambda d=d: merged(d)) for d in (indexed, plain))  # type: ignore[misc]
    return {"index_entry": max(0.001, new - kept + MERGES * (again - alone)), "filter_bit": SHIPPED.filter_bit}


def stages_of_tasks(folder: Path, weights: Weights) -> dict[str, float]:
    """What tasks report of an engine without Spark tasks: many rows, few rows, and rows with many columns."""
    wide = ", ".join(f"{alias}.{column} AS {alias}{at}" for alias, column in ("ra", "sb", "tc") for at in range(6))
    many = _totals(folder, "many", 40_000)
    matches = _match(folder / "home-many", weights)
    broad = _totals(folder, "wide", 40_000, selected=wide)
    few = _totals(folder, "few", 100)
    kept = _totals(folder, "kept", 40_000, searcher="left-deep")
    kept_few = _totals(folder, "kept-few", 100, searcher="left-deep")

    def one(run: Counters, stage: str, what: str) -> float:
        return run.spent[stage] / max(1, run.done[what])

    entries = many.done[stages.INDEX_ENTRIES] / many.done[stages.ROWS]
    file = one(few, stages.RESULTS, stages.RESULT_FILES)
    rows, more = many.done[stages.RESULT_ROWS], broad.done[stages.RESULT_BYTES] - many.done[stages.RESULT_BYTES]
    byte = max(0.0001, (broad.spent[stages.RESULTS] - many.spent[stages.RESULTS]) / max(1, more))
    results = many.spent[stages.RESULTS] - many.done[stages.RESULT_FILES] * file
    kept_file = one(kept_few, stages.KEEPING, stages.KEPT_FILES)
    keeping = kept.spent[stages.KEEPING] - kept.done[stages.KEPT_FILES] * kept_file
    per_entry = weights.index_entry * kept.done[stages.KEPT_ENTRIES]
    return {
        "match": max(weights.match, matches),
        "row": one(many, stages.GATHER, stages.ROWS) - entries * weights.index_entry / (1 + MERGES),
        "result_byte": byte,
        "result_row": max(0.05, results / rows - byte * many.done[stages.RESULT_BYTES] / rows),
        "result_file": file,
        "kept_row": max(0.1, (keeping - per_entry / (1 + MERGES)) / max(1, kept.done[stages.KEPT_ROWS])) * 1.5,
        "file": kept_file,
    }


def _match(home: Path, weights: Weights) -> float:
    """A match with what it carries on to later steps, by what is left of the time of steps."""
    manifest = load_newest(home)
    steps, held = manifest.totals, [bucket for bucket in manifest.buckets if bucket.store == "s"]
    rows, buckets = sum(bucket.rows for bucket in held), max(1.0, 0.75 * len(held))  # fewer in the first ticks
    found = []
    for number, came in steps.step_in.items():
        hits = min(1.0, steps.step_out[number] / came)
        probes = came * weights.probe(rows, hits, buckets)
        calls = manifest.tick * (weights.step + weights.bucket * buckets)
        found.append((steps.step_micros[number] - probes - calls) / max(1, steps.step_out[number]))
    return float(np.median(found))


def _totals(
    folder: Path, name: str, rows: int, selected: str = "r.id AS r, s.id AS s, t.id AS t", **options: str
) -> Counters:
    write_streams(folder / name, 10, rows, ticks_in_window=4)
    script = streams_sql(folder / name) + query_sql(selected=selected)
    settings = {"executor": "local", "adaptive": "off", "searcher": "flat", **options}
    run_pipeline(script, folder / f"home-{name}", **settings)
    return load_newest(folder / f"home-{name}").totals


# Windows -----------------------------------------------------------------------------------------


def windows(folder: Path) -> dict[str, float]:
    """Slices and windows of an engine without Spark tasks: of few and many rows, keys, queries and streams."""
    chosen = {
        "slices, 5 keys": 0.2,
        "slices, 1,000 keys": 1.0,
        "slices, 100,000 keys": 0.5,
        "slices, small ticks": 1.0,
        "slices, 100 queries": 0.2,
        "slices, 20 lengths": 1.0,
        "distinct values": 0.5,
        "factorized": 1.0,
        "aggregates of a join": 1.0,
    }
    runs = [_windowed(folder, name, scale, 20) for name, scale in [("distinct values", 0.1), *chosen.items()]]
    runs = runs[1:]  # the first one had to compile the loops
    scales = [("tasks", 0.1), ("tasks", 6.0), ("TPC-H, tasks", 0.1), ("TPC-H, tasks", 1.0)]
    by_tasks = [_windowed(folder, name, scale, 20) for name, scale in scales]
    return {
        **explained(runs, stages.SLICING),
        **explained(runs, stages.WINDOWS),
        **explained(by_tasks, stages.TASK_WINDOWS),
    }


def windows_by_spark(folder: Path) -> dict[str, float]:
    """A job and a row: of small and large windows. What the JVM compiles in the first windows is a part of it."""
    runs = [
        _windowed(folder, "Spark, each fifth tick", 0.1, 60, "spark"),
        _windowed(folder, "Spark, each fifth tick", 6.0, 60, "spark"),
    ]
    return explained(runs, stages.SPARK_WINDOWS)


def _windowed(folder: Path, name: str, scale: float, ticks: int, executor: str = "local") -> Counters:
    place = folder / f"{name} {scale}"
    made = WINDOWED[name](place, scale, ticks=ticks)
    with Engine(home=place / "home", executor=executor, adaptive="off") as engine:
        engine.sql(made.text)
        engine.run_once()
    return load_newest(place / "home").totals


def explained(runs: Sequence[Counters], stage: str) -> dict[str, float]:
    """The weights of a stage that explain its time in all runs best, by least squares of what each run is off by."""
    names = DONE[stage]
    parts = np.array([[run.done[what] / run.spent[stage] for what in names] for run in runs if run.spent[stage]])
    found = 1 / (len(names) * np.maximum(1e-12, parts.max(axis=0)))
    for _ in range(20_000):  # steps that multiply keep weights above 0
        found *= parts.sum(axis=0) / np.maximum(1e-12, parts.T @ (parts @ found))
    return {name: max(1e-4, float(weight)) for name, weight in zip(names.values(), found, strict=True)}


# Ticks and phases, by who carries out orders -----------------------------------------------------


def rounds(folder: Path, weights: Weights, executor: str) -> dict[str, float]:
    write_streams(folder / "in", TICKS, 50, ticks_in_window=10)
    script = folder / "pipeline.sql"
    script.write_text(streams_sql(folder / "in") + query_sql())
    flat, deep = (1e6 * _seconds_a_tick(folder, script, searcher, executor) for searcher in ("flat", "left-deep"))
    # Six steps and a result file are paid by weights of their own.
    others = weights.result_file + 6 * (weights.step + 4 * weights.bucket)
    # One store of two relations: rows of three starts in two buckets, and a phase more.
    return {"tick": flat - others, "phase": max(500.0, deep - flat - 2 * weights.file - 2 * weights.step)}


def _seconds_a_tick(folder: Path, script: Path, searcher: str, executor: str) -> float:
    home = folder / searcher
    sets = ("--set", "adaptive=off", "--set", f"searcher={searcher}", "--set", f"executor={executor}")
    command = [sys.executable, "-m", "watersmeet.cli", "run", str(script), "--once", "--home", str(home), *sets]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
    seen, thread = observe(running, None)
    running.wait()
    thread.join()
    ended = [json.loads(line)["finished_at"] for line in (home / layout.TICKS).read_text().splitlines()]
    first = TICKS // 3
    return seen.cpu_within(ended[first], ended[-1]) / (len(ended) - 1 - first)


if __name__ == "__main__":
    run()
