"""`bench/run three-way`, `advertising`, `nexmark`, `tpch-5` and others: one workload, all systems, in one run."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.comparing import SYSTEMS, Figures, Problem, compare, date_files
from bench.report import show
from bench.workloads import advertising, chain, nexmark, three_way, tpch
from bench.workloads.model import Workload

ONE_QUERY = ("joint", "spark", "flink", "flink-multi", "pathway", "duckdb-loop", "duckdb")
WAYS = ("joint", "naive", "alone", "each")
MANY = (*WAYS, "spark", "flink", "flink-set", "flink-multi", "pathway", "duckdb-loop", "duckdb")
WAYS_TO_SHARE = ("joint", "naive", "alone", "duckdb")

WORKLOADS: dict[str, tuple[Callable[[Path, float], Workload], tuple[str, ...]]] = {
    "three-way": (three_way.make, ONE_QUERY),
    "three-way-10": (partial(three_way.make, count=10), MANY),
    "advertising": (advertising.make, ONE_QUERY),
    "advertising-10": (partial(advertising.make, count=10), MANY),
    "nexmark": (nexmark.make, MANY),
    "tpch-5": (partial(tpch.make, count=5), MANY),
    "tpch-10": (partial(tpch.make, count=10), MANY),
    "chain-20": (chain.make, WAYS_TO_SHARE),
}


def run(name: str, systems: str, scale: float, profile: bool) -> None:
    make, usual = WORKLOADS[name]
    chosen = [part.strip() for part in systems.split(",") if part.strip()] or list(usual)
    unknown = [part for part in chosen if part not in SYSTEMS]
    if unknown:
        raise SystemExit(f"unknown systems: {', '.join(unknown)}; there are {', '.join(SYSTEMS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended too
    folder = Path(tempfile.mkdtemp(prefix="watersmeet-bench-"))
    outcomes: list[Figures | Problem] = []
    try:
        workload = make(folder, scale)
        date_files(workload)
        outcomes.extend(compare(workload, chosen))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        found = [one for one in outcomes if isinstance(one, Figures)]
        if found:  # also when the run is interrupted: what is measured is measured
            total = sum(map(sum, workload.rows.values()))
            title = (
                f"{name}: {len(workload.queries)} queries, {total:,} rows in {workload.ticks} ticks; "
                "the number of results of each query is DuckDB's in every row"
            )
            show(name, title, found, profile)
    problems = [f"{one.title}: {one.text}" for one in outcomes if isinstance(one, Problem)]
    if problems:
        raise SystemExit("no figures of these:\n" + "\n".join(problems))
