"""`bench/run small-ticks`: how long a result takes from the arrival of its last row to where readers see it.

5,000 rows (of three streams together) become readable every half second; every result names its rows, so each one is
measured. Flink and Pathway are not here: Flink's files become visible with a checkpoint, so its latency is the
interval one sets, and Pathway's static mode has no arrival.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from bench.peers import duck
from bench.three_streams import COLUMNS, write_streams
from bench.workloads.model import Workload
from bench.workloads.texts import watersmeet_script
from bench.workloads.three_way import QUERY, WINDOW, streams
from watersmeet.home import layout

PERIOD = 0.5
ROWS = 5000 // len(COLUMNS)  # for each stream and period
SYSTEMS = {"joint": "Watersmeet", "spark": "Spark's joins"}
_LONGEST_WAIT = 120.0


@dataclass(frozen=True)
class Latency:
    """Seconds, over all results that were due after the warm-up."""

    p50: float
    p95: float
    p99: float
    ticks: int
    results: int


@dataclass(frozen=True)
class _Running:
    process: subprocess.Popen[bytes]
    log: Path  # a line of JSON for each tick, with `tick` and `finished_at`
    files: Callable[[int], list[Path]]  # a tick's results

    def ticks(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def found(self) -> int:
        return sum(pq.read_metadata(path).num_rows for tick in self.ticks() for path in self.files(tick["tick"]))


def measure(
    system: str, folder: Path, periods: int, warm_up: int, options: Mapping[str, str] = MappingProxyType({})
) -> Latency:
    """`options` are for Watersmeet."""
    made, source = folder / "made", folder / "in"
    write_streams(made, periods, ROWS, ticks_in_window=int(WINDOW / PERIOD), window_seconds=WINDOW)
    workload = Workload("small-ticks", str(source), streams(), (QUERY,), {name: [ROWS] * periods for name in COLUMNS})
    expected = duck.counts(replace(workload, folder=str(made)), periods)[QUERY.name]
    for name in COLUMNS:
        (source / name).mkdir(parents=True)
    running = _start(system, folder, workload, options)
    arrived: list[float] = []
    try:
        _feed(made, source, 0, arrived)
        _wait(running, lambda: bool(running.ticks()))
        for period in range(1, periods):
            due = time.time() + PERIOD
            _feed(made, source, period, arrived)
            time.sleep(max(0.0, due - time.time()))
        _wait(running, lambda: running.found() >= expected)
    finally:
        running.process.terminate()
        running.process.wait(60)
    found = running.found()
    if found != expected:
        raise SystemExit(f"{SYSTEMS[system]}: {found} results, and DuckDB says {expected}")
    return _latency(running, np.asarray(arrived), warm_up)


def _feed(made: Path, source: Path, period: int, arrived: list[float]) -> None:
    for name in COLUMNS:
        (made / name / f"{period:06d}.parquet").rename(source / name / f"{period:06d}.parquet")
    arrived.append(time.time())


def _wait(running: _Running, done: Callable[[], bool]) -> None:
    end = time.time() + _LONGEST_WAIT
    while not done():
        if running.process.poll() is not None or time.time() > end:
            raise SystemExit("the system ended, or fell behind too far, while it was fed")
        time.sleep(0.2)


def _latency(running: _Running, arrived: npt.NDArray[np.float64], warm_up: int) -> Latency:
    values, counted = [], 0
    for tick in running.ticks():
        counted += 1
        for path in running.files(tick["tick"]):
            ids = pq.read_table(path, columns=["r_id", "s_id", "t_id"])
            last = np.max([np.asarray(column) for column in ids.columns], axis=0) // ROWS
            values.append(tick["finished_at"] - arrived[last[last >= warm_up]])
    together = np.concatenate(values)
    p50, p95, p99 = np.quantile(together, (0.5, 0.95, 0.99))
    return Latency(float(p50), float(p95), float(p99), counted, len(together))


def _start(system: str, folder: Path, workload: Workload, options: Mapping[str, str]) -> _Running:
    with (folder / "log").open("w") as log:
        if system == "spark":
            (folder / "workload.json").write_text(workload.to_json())
            command = [sys.executable, "-m", "bench.small_ticks", str(folder)]
            process = subprocess.Popen(command, stdout=log, stderr=log)
            return _Running(
                process, folder / "ticks.jsonl", lambda tick: sorted((folder / "out" / str(tick)).glob("*.parquet"))
            )
        pipeline, home = folder / "pipeline.sql", folder / "home"
        pipeline.write_text(watersmeet_script(workload, workload.queries, files_a_tick=100))
        command = [sys.executable, "-m", "watersmeet.cli", "run", str(pipeline), "--home", str(home)]
        command += [part for name, value in options.items() for part in ("--set", f"{name}={value}")]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        results = home / "results" / QUERY.name
        return _Running(process, home / layout.TICKS, lambda tick: sorted(results.glob(f"{tick:012d}-*.parquet")))


def run_spark(folder: Path) -> None:
    """Spark's joins until this process is ended; a tick is in the log once its files are there."""
    from bench.peers import spark

    session = spark.session()
    workload = Workload.from_json((folder / "workload.json").read_text())

    def write(batch: Any, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(folder / "out" / str(number)))
        with (folder / "ticks.jsonl").open("a") as file:
            file.write(json.dumps({"tick": number, "finished_at": time.time()}) + "\n")

    writer = spark.joined(session, workload, workload.queries[0], files_a_tick=100).writeStream.foreachBatch(write)
    writer.option("checkpointLocation", str(folder / "check")).start().awaitTermination()


if __name__ == "__main__":
    run_spark(Path(sys.argv[1]))
