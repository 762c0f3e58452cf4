"""`bench/run durability`: what it costs that a committed tick survives a loss of power (durability=power).

Ratios of power to process, in rounds that take turns, so that what else the machine does concerns both. How fast the
disk is decides: the table begins with it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench import ajoin, small_ticks
from bench.pipeline import run_pipeline
from bench.report import write_json
from bench.runtime import Target, table_of
from bench.scratch import in_scratch
from bench.three_streams import query_sql, streams_sql, write_streams
from watersmeet.home.disk import sync_written

MODES = ("power", "process")
WARM_UP = 5  # ticks
QUERIES = 200


def run(
    rounds: Annotated[int, typer.Option(min=1, help="of each part and mode")] = 3,
    ticks: Annotated[int, typer.Option(min=10, help="of the parts that are measured by their speed")] = 40,
    seconds: Annotated[float, typer.Option(min=5, help="how long rows arrive in small ticks")] = 20.0,
    parts: Annotated[str, typer.Option(help="three-way, small-ticks, files; with commas between them")] = "",
) -> None:
    """What a tick costs that survives a loss of power, against one that survives the end of any process."""
    chosen = [name for name in PARTS if not parts or name in parts.split(",")]
    disk = in_scratch(_disk)
    found: dict[str, dict[str, list[float]]] = {name: {mode: [] for mode in MODES} for name in chosen}
    for name in chosen:
        for number in range(rounds):
            for mode in MODES if number % 2 else reversed(MODES):
                value = in_scratch(partial(PARTS[name][0], mode=mode, ticks=ticks, seconds=seconds))
                found[name][mode].append(value)
                print(f"{name}, round {number + 1}, {mode}: {value:,.4f}", flush=True)
    targets = []
    for name, by_mode in found.items():
        _, what, wanted, at_most = PARTS[name]
        targets.append(Target(what, wanted, median(by_mode["power"]) / median(by_mode["process"]), at_most))
    _show(disk, found, targets)


def _three_way(folder: Path, mode: str, ticks: int, seconds: float) -> float:
    rows = 20_000
    write_streams(folder / "in", ticks, rows, ticks_in_window=2)
    ours = run_pipeline(streams_sql(folder / "in") + query_sql(), folder / "home", durability=mode)
    return 3 * rows / ours.seconds_per_tick(ticks - WARM_UP)


def _small_ticks(folder: Path, mode: str, ticks: int, seconds: float) -> float:
    periods = int(seconds / small_ticks.PERIOD)
    return small_ticks.measure("joint", folder, periods, periods // 4, {"durability": mode}).p50


def _files(folder: Path, mode: str, ticks: int, seconds: float) -> float:
    """Each query writes a result file in each tick."""
    rows = 2000
    ajoin.write_streams(folder / "in", ticks, rows)
    queries = "".join(f"CREATE QUERY q{at} AS {text};\n" for at, text in enumerate(ajoin.selects(QUERIES)))
    ours = run_pipeline(ajoin.streams_sql(folder / "in") + queries, folder / "home", durability=mode)
    return 2 * rows / ours.seconds_per_tick(ticks - WARM_UP)


Part = tuple[Callable[..., float], str, float, bool]
PARTS: dict[str, Part] = {
    "three-way": (_three_way, "three-way at 60,000 rows a tick, rows/s: power × process", 0.9, False),
    "small-ticks": (_small_ticks, "5,000 rows every 0.5 s, p50: power × process", 1.5, True),
    "files": (_files, f"{QUERIES} queries with files, rows/s: power × process", 0.7, False),
}


def _disk(folder: Path) -> dict[str, float]:
    """Milliseconds to force files of 10 kB to disk, as the engine does it; the median of some tries."""
    found = {}
    for count in (1, 4, 200):
        times = []
        for number in range(7):
            paths = [folder / f"{count}-{number}-{at}" for at in range(count)]
            for path in paths:
                path.write_bytes(os.urandom(10_000))
            began = time.perf_counter()
            sync_written(paths)
            times.append(1000 * (time.perf_counter() - began))
        found[f"{count} files"] = median(times)
    return found


def _show(disk: dict[str, float], found: dict[str, dict[str, list[float]]], targets: list[Target]) -> None:
    print("forced to disk: " + ", ".join(f"{name} in {value:.2f} ms" for name, value in disk.items()))
    rounds = Table("part", "durability", "median", "rounds", title="rows a second, or seconds of latency")
    for name, by_mode in found.items():
        for mode, values in by_mode.items():
            shown = [f"{value:,.0f}" if value > 100 else f"{value:.3f}" for value in (median(values), *values)]
            rounds.add_row(name, mode, shown[0], " ".join(shown[1:]))
    Console().print(rounds, table_of("targets of durable commits", targets))
    figures: dict[str, Any] = {"disk": disk, "rounds": found, "targets": [asdict(target) for target in targets]}
    write_json("durability", figures)
