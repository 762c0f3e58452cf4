"""Fig. 8j to 8l: latency at a low rate, and the time of a local join.

A tick's files appear once in a while, and not before the tick before has ended. Every result counts, from the moment
at which the last of its rows could be read to the commit that shows it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench import theta
from bench.charts import Panel, boxes, panels
from bench.multistream.running import QUANTILES, Run
from bench.multistream.showing import Bench, show
from bench.workloads.model import Workload

PERIOD = 1.0
CONDITIONS = {"theta": "NOT (r.k < s.k OR r.k > s.k)", "hash": "r.k = s.k"}
STORED = 1_000_000  # rows of a full store in Fig. 8l: the paper's size
PROBES = {"theta": 100, "hash": 20_000}
SHARES = [f"{share * 100:g}" for share in QUANTILES]
ACROSS = f"latency, s ({', '.join(SHARES)} %)"
COLUMNS = ["run", *(f"{share} %" for share in SHARES), "ticks"]


def _measured(bench: Bench, name: str, title: str, runs: dict[str, Run]) -> None:
    rows, values = [], {}
    for label, run in runs.items():
        ran = bench.run(run)
        values[label] = ran.latencies
        rows.append([label, *(f"{value:.2f} s" for value in ran.latencies), str(len(ran.ticks))])
    show(bench, name, title, COLUMNS, rows, boxes(f"Fig. {name}: {title}", ACROSS, values))


def by_plan(bench: Bench) -> None:
    """8j: Q2."""
    workload: Workload = bench.inputs.tpch("q2", 0.01, ticks=12 if bench.short else 30)
    ways = (("theta", 2),) if bench.short else (("hash", 1), ("theta", 4))
    runs = {
        f"{how}, P = {places}, {plan}": Run(workload, plan, how, places, period=PERIOD)
        for how, places in ways
        for plan in ("flat", "left-deep", "optimized")
    }
    _measured(bench, "8j", "latency of results by plan, Q2, scale factor 0.01", runs)


def by_places(bench: Bench) -> None:
    """8k: custom-MMM with the left-deep plan."""
    rows = 5_000 if bench.short else 20_000
    workload = bench.inputs.chain("MMM", rows, ticks=12 if bench.short else 30)
    runs = {
        f"theta, P = {places}": Run(workload, "left-deep", "theta", places, period=PERIOD)
        for places in ((1, 2) if bench.short else (1, 2, 4))
    }
    _measured(bench, "8k", f"latency by number of partitions, custom-MMM, {rows:,} rows, left-deep", runs)


def local_join(bench: Bench) -> None:
    """8l: one probe of the rows that a place holds, as they become more. No Spark: the walk of a task itself."""
    fills = (0.25, 1.0) if bench.short else (0.1, 0.25, 0.5, 0.75, 1.0)
    lines: dict[str, list[tuple[float, float]]] = {}
    took: dict[tuple[str, int], float] = {}
    with tempfile.TemporaryDirectory(dir=bench.inputs.folder) as folder:
        for how, condition in CONDITIONS.items():
            for places in (1, 2, 4):
                for fill in fills:
                    stored = int(STORED * fill / places)
                    if (how, stored) not in took:  # a quarter of the store, or all of it in four places
                        took[how, stored] = theta.measure(Path(folder), condition, PROBES[how], stored)["seconds"]
                    point = fill * STORED, took[how, stored] / PROBES[how] * 1e6
                    lines.setdefault(f"{how}, P = {places}", []).append(point)
    rows = [
        [f"{int(STORED * fill):,}", *(f"{line[at][1]:,.2f}" for line in lines.values())]
        for at, fill in enumerate(fills)
    ]
    title = "µs of processor time for a probe in one partition, by rows of the whole store"
    scanned = {name: line for name, line in lines.items() if name.startswith("theta")}
    columns = ["rows stored", *lines]
    drawn = Panel("theta: processor time for a probe in one partition", "rows of the whole store", "µs", scanned)
    show(bench, "8l", title, columns, rows, panels("Fig. 8l", [drawn]))
