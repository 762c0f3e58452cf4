"""Many small files in an input folder: how fast they are read, and what an idle engine costs afterwards.

    ./run python -m bench.many_files --files 20000 --seconds 30

After some idle time a file arrives every second. What is printed is the CPU time of the engine's process and of all
processes below it (Spark's), as a share of one core."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet import Engine

SQL = """
CREATE STREAM x (ts TIMESTAMP, id BIGINT) TIMESTAMP BY ts LATENESS 1 DAY FROM parquet '{0}/x';
CREATE STREAM y (ts TIMESTAMP, id BIGINT) TIMESTAMP BY ts LATENESS 1 DAY FROM parquet '{0}/y';
CREATE QUERY q INTO count AS SELECT x.id FROM x, y WHERE x.id = y.id WINDOW 1 MINUTE;
"""


def cpu_seconds() -> float:
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--rows", type=int, default=10, help="rows of a file")
    parser.add_argument("--seconds", type=float, default=30, help="of the idle engine")
    parser.add_argument("--executor", default="spark")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="many-files-"))
    try:
        measure(folder, given)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure_cpu(title: str, seconds: float, act: Callable[[int], None]) -> None:
    """The CPU time of some seconds, with something done at the beginning of each."""
    before, began, own = cpu_seconds(), time.monotonic(), time.process_time()
    for number in range(int(seconds)):
        act(number)
        time.sleep(max(0.0, began + number + 1 - time.monotonic()))
    passed = time.monotonic() - began
    print(f"{title}: {100 * (cpu_seconds() - before) / passed:.2f} % of a core, ", end="")
    print(f"{100 * (time.process_time() - own) / passed:.2f} % in the engine's own process")


def arrive(folder: Path, number: int) -> None:
    draft = folder / "x" / "_draft"
    shutil.copyfile(folder / "x/0000000.parquet", draft)
    draft.rename(folder / "x" / f"{number:07d}.parquet")


def measure(folder: Path, given: argparse.Namespace) -> None:
    for name in "xy":
        (folder / name).mkdir()
    for number in range(given.files):
        ids = range(number * given.rows, (number + 1) * given.rows)
        times = pa.array([1_767_225_600_000_000 + each for each in ids], pa.timestamp("us", tz="UTC"))
        pq.write_table(pa.table({"ts": times, "id": pa.array(ids, pa.int64())}), folder / "x" / f"{number:07d}.parquet")
    shutil.copy(folder / "x/0000000.parquet", folder / "y")
    with Engine(home=folder / "home", executor=given.executor) as engine:
        engine.sql(SQL.format(folder))
        began = time.monotonic()
        engine.start()
        while sum(stream.rows for stream in engine.stats().streams) < (given.files + 1) * given.rows:
            time.sleep(0.1)
        seconds = time.monotonic() - began
        ticks = [tick.total for tick in engine.stats().ticks]
        print(f"{given.files:,} files in {seconds:.1f} s, with the start: {60 * given.files / seconds:,.0f} files/min")
        print(f"{len(ticks)} ticks, the first {ticks[0]:.2f} s, the longest {max(ticks):.2f} s")
        time.sleep(5)
        measure_cpu("idle", given.seconds, lambda number: None)
        measure_cpu("a file every second", given.seconds, lambda number: arrive(folder, given.files + number))
    print(f"positions: {sum(file.stat().st_size for file in (folder / 'home/positions').iterdir()):,} bytes")
    print(f"load average of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
