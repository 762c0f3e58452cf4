"""`bench/run runtime`: what the runtime promises, each figure with its target, in one run.

All rows are processed in Spark tasks, except in the row that says "embedded".
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench import small_ticks
from bench.comparing import Figures, Problem, compare, date_files
from bench.report import speed_bars, write_json, write_picture
from bench.scratch import in_scratch
from bench.three_streams import query_sql, streams_sql, write_streams
from bench.workloads import three_way
from bench.workloads.model import Workload
from watersmeet.home import layout

LARGE, MIDDLE, SMALL = 200_000, 50_000, 20_000  # rows a stream and tick
PARTITIONS_FROM = 10  # ticks until Java has compiled what a shuffle runs
PARTS = ("speed", "tick-sizes", "small-ticks", "partitions", "first-tick", "adaptation")
STEADY_TICKS, STEADY_FROM = 240, 80  # behind the epochs in which it learns how the data is: process, first plans


@dataclass(frozen=True)
class Target:
    what: str
    wanted: float
    measured: float
    at_most: bool = False

    @property
    def is_met(self) -> bool:
        return self.measured <= self.wanted if self.at_most else self.measured >= self.wanted


def run(
    parts: Annotated[list[str] | None, typer.Option("--part", help="one of several parts")] = None,
    peers: Annotated[bool, typer.Option(help="also Spark's own joins, Flink and Pathway")] = True,
    seconds: Annotated[float, typer.Option(min=5, help="how long rows arrive in small-ticks")] = 30.0,
) -> None:
    """Resident tasks against the peers and the embedded executor, P = 2, small ticks, the first tick, adaptation."""
    chosen = parts or list(PARTS)
    if unknown := [part for part in chosen if part not in PARTS]:
        raise SystemExit(f"unknown parts: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    others = ("spark", "flink", "pathway") if peers else ()
    runs: dict[str, dict[str, Figures]] = {}
    found: list[Target] = []
    if "speed" in chosen:
        small = runs["60,000"] = _three_way(SMALL, 30, ["joint", "embedded", *others, "duckdb"])
        if peers:
            found.append(Target("60,000 rows a tick: × Spark", 20, _ratio(small, "joint", "spark")))
        found.append(Target("60,000 rows a tick: × embedded", 0.85, _ratio(small, "joint", "embedded")))
    if "tick-sizes" in chosen:
        runs["150,000"] = _three_way(MIDDLE, 8, ["joint", *(name for name in others if name == "spark"), "duckdb"])
        runs["600,000"] = _three_way(LARGE, 16, ["joint", *(name for name in others if name != "spark"), "duckdb"])
    if "speed" in chosen and "tick-sizes" in chosen:
        found += _best(others, *runs.values())
    if "small-ticks" in chosen and peers:
        found += _small_ticks(seconds)
    if "partitions" in chosen:
        both = runs["600,000, P = 1 and 2"] = _three_way(LARGE, 40, ["joint", "partitions"], PARTITIONS_FROM)
        found.append(Target("600,000 rows a tick: P = 2 × P = 1", 0.5, _ratio(both, "partitions", "joint")))
    if "first-tick" in chosen:
        found.append(Target("first tick after Spark is up, seconds", 2.5, first_tick(), at_most=True))
    if "adaptation" in chosen:
        steady = runs["60,000, steady"] = _three_way(SMALL, STEADY_TICKS, ["joint", "adaptive"], STEADY_FROM)
        cpu = _cpu(steady, "adaptive") / _cpu(steady, "joint")
        found.append(Target("adaptation on: × CPU of off", 1.05, cpu, at_most=True))
    _show(runs, found)


def _three_way(rows: int, ticks: int, systems: list[str], warm_up: int = 2) -> dict[str, Figures]:
    def measure(folder: Path) -> dict[str, Figures]:
        write_streams(folder / "in", ticks, rows, ticks_in_window=2, window_seconds=three_way.WINDOW)
        counts = {stream.name: [rows] * ticks for stream in three_way.streams()}
        streams, queries = three_way.streams(), (three_way.QUERY,)
        workload = Workload(
            name="three-way", folder=str(folder / "in"), streams=streams, queries=queries, rows=counts, warm_up=warm_up
        )
        date_files(workload)
        outcomes = list(compare(workload, systems))
        problems = [f"{one.title}: {one.text}" for one in outcomes if isinstance(one, Problem)]
        if problems:
            raise SystemExit("no figures of these:\n" + "\n".join(problems))
        return {one.system: one for one in outcomes if isinstance(one, Figures)}

    return in_scratch(measure)


def _ratio(found: dict[str, Figures], one: str, other: str) -> float:
    return found[one].rows_per_second / found[other].rows_per_second


def _cpu(found: dict[str, Figures], system: str) -> float:
    cpu = found[system].cpu_seconds_per_million_rows
    assert cpu is not None, f"{system} ran for too short a time to see its CPU time"
    return cpu


def _best(others: tuple[str, ...], *runs: dict[str, Figures]) -> list[Target]:
    """Each system at the tick size at which it is fastest; Flink, Pathway and DuckDB read all files at once anyway."""
    wanted = {"spark": 25.0, "flink": 10.0, "pathway": 3.0, "duckdb": 0.25}

    def best(system: str) -> float:
        return max(found[system].rows_per_second for found in runs if system in found)

    return [
        Target(f"best tick size: × {system}", wanted[system], best("joint") / best(system))
        for system in (*others, "duckdb")
    ]


def _small_ticks(seconds: float) -> list[Target]:
    periods = int(seconds / small_ticks.PERIOD)
    median = {}
    for name in small_ticks.SYSTEMS:
        latency = in_scratch(partial(small_ticks.measure, name, periods=periods, warm_up=periods // 4))
        median[name] = latency.p50
    return [Target("5,000 rows every 0.5 s: p50 of Spark × ours", 20, median["spark"] / median["joint"])]


def first_tick() -> float:
    """Seconds from a Spark session that is there to the first tick that is committed, in a process of its own."""

    def measure(folder: Path) -> float:
        write_streams(folder / "in", 3, 1600, ticks_in_window=2)
        done = subprocess.run(
            [sys.executable, "-m", "bench.runtime", str(folder)], check=True, capture_output=True, text=True
        )
        return float(done.stdout.splitlines()[-1])

    return in_scratch(measure)


def _first_tick(folder: Path) -> None:
    from watersmeet import Engine

    engine = Engine(home=folder / "home")
    engine.sql(streams_sql(folder / "in") + query_sql())
    _ = engine.spark
    up = time.time()
    with engine:
        engine.run_once()
    first = json.loads((folder / "home" / layout.TICKS).read_text().splitlines()[0])
    print(first["finished_at"] - up)


def table_of(title: str, targets: Iterable[Target]) -> Table:
    table = Table("target", title=title)
    for column in ("wanted", "measured", ""):
        table.add_column(column, justify="right")
    for target in targets:
        sign = "≤" if target.at_most else "≥"
        met = "met" if target.is_met else "missed"
        table.add_row(target.what, f"{sign} {target.wanted:g}", f"{target.measured:.2f}", met)
    return table


def _show(runs: dict[str, dict[str, Figures]], found: list[Target]) -> None:
    speeds = Table("rows a tick", "system", title="three-way: input rows a second; counts of results are DuckDB's")
    for column in ("rows/s", "CPU s/M rows"):
        speeds.add_column(column, justify="right")
    for rows, systems in runs.items():
        for one in systems.values():
            cpu = one.cpu_seconds_per_million_rows
            speeds.add_row(rows, one.title, f"{one.rows_per_second:,.0f}", f"{cpu:.2f}" if cpu else "")
    Console().print(speeds, table_of("targets of the runtime", found))
    figures = {rows: {name: asdict(one) for name, one in systems.items()} for rows, systems in runs.items()}
    if "60,000" in runs:
        title = "three-way join, 60,000 rows a tick: speed of each system"
        write_picture("runtime", speed_bars(title, [*runs["60,000"].values()]))
    write_json("runtime", {"runs": figures, "targets": [asdict(target) for target in found]})


if __name__ == "__main__":
    _first_tick(Path(sys.argv[1]))
