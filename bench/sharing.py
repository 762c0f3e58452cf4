"""`bench/run sharing`: what sharing of work saves, by CPU time of all processes: alternating runs, medians.

Each round runs every system once, in an order that turns from round to round, so that what else happens on the machine
meets all of them. The number of results of each query is DuckDB's in every run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.comparing import SYSTEMS, Figures, date_files, measure
from bench.peers import duck
from bench.report import write_json
from bench.scratch import in_scratch
from bench.workloads import chain, nexmark, three_way, tpch
from bench.workloads.model import Workload


@dataclass(frozen=True)
class Target:
    """How many times the CPU time, or the state, of one system another one has, at least."""

    of: str
    against: str
    ratio: float
    figure: str = "CPU time"


NOTHING_LOST = (Target("joint", "alone", 0.97),)
STEADY = (Target("adaptive", "joint", 0.97),)
LARGE_TICKS = (
    Target("joint", "each", 2.6),
    Target("joint", "alone", 1.3),
    Target("joint", "each", 5.3, "state"),
)
WORKLOADS: dict[str, tuple[Callable[[Path, float], Workload], tuple[Target, ...]]] = {
    "three-way": (three_way.make, NOTHING_LOST),
    "nexmark": (nexmark.make, NOTHING_LOST),
    "tpch-5": (partial(tpch.make, count=5), NOTHING_LOST),
    "tpch-10": (partial(tpch.make, count=10), NOTHING_LOST),
    "tpch-10, large ticks": (lambda folder, scale: tpch.make(folder, 2 * scale, 10), LARGE_TICKS),
    "three-way, many ticks": (
        lambda folder, scale: _many_ticks(three_way.make(folder, scale, 20_000, 200, 10)),
        STEADY,
    ),
    "tpch-5, many ticks": (lambda folder, scale: _many_ticks(tpch.make(folder, scale, 5, 120)), STEADY),
    "chain-20": (chain.make, (Target("joint", "alone", 3.0),)),
}


def _many_ticks(workload: Workload) -> Workload:
    """What counts begins when the search for a plan has ended."""
    return replace(workload, warm_up=workload.ticks // 2)


def run(
    names: Annotated[list[str] | None, typer.Option("--workload", help="one of several workloads")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="runs of each system")] = 5,
    scale: Annotated[float, typer.Option(min=0.001, help="how much input, against the usual amount")] = 1.0,
    embedded: Annotated[bool, typer.Option("--embedded", help="without Spark: less CPU time beside the ticks")] = False,
) -> None:
    """CPU time of plans that share work, against those that do not: medians of alternating runs."""
    unknown = [name for name in names or () if name not in WORKLOADS]
    if unknown:
        raise SystemExit(f"unknown workloads: {', '.join(unknown)}; there are {', '.join(WORKLOADS)}")
    table = Table("workload", "system", "against", "figure", title=f"sharing: medians of {rounds} alternating runs")
    for column in ("", "", "lowest", "ratio", "highest", "target", ""):
        table.add_column(column, justify="right")
    figures: dict[str, dict[str, list[Figures]]] = {}
    for name in names or list(WORKLOADS):
        make, targets = WORKLOADS[name]
        systems = list(dict.fromkeys(system for target in targets for system in (target.of, target.against)))
        found = in_scratch(partial(_of_workload, make, systems, scale, rounds, embedded))
        figures[name] = found
        for target in targets:
            table.add_row(name, *_row(target, found))
    Console(width=None if Console().is_terminal else 150).print(table)
    written = {
        name: {system: [asdict(one) for one in runs] for system, runs in found.items()}
        for name, found in figures.items()
    }
    write_json("sharing", {"embedded": embedded, "workloads": written})


def _of_workload(
    make: Callable[[Path, float], Workload],
    systems: list[str],
    scale: float,
    rounds: int,
    embedded: bool,
    folder: Path,
) -> dict[str, list[Figures]]:
    workload = replace(make(folder, scale), embedded=embedded)
    date_files(workload)
    expected = duck.counts(workload, workload.ticks)
    found: dict[str, list[Figures]] = {system: [] for system in systems}
    console = Console(stderr=True)
    for number in range(rounds):
        turn = number % len(systems)
        for system in systems[turn:] + systems[:turn]:
            one = measure(SYSTEMS[system], workload, expected)
            found[system].append(one)
            console.print(f"{workload.name}, round {number + 1}: {one.title}: {_figure(one, 'CPU time'):.2f} s/M rows")
    return found


def _figure(one: Figures, figure: str) -> float:
    value = one.state_bytes if figure == "state" else one.cpu_seconds_per_million_rows
    if not value:
        raise SystemExit(f"{one.title}: the run was too short for its {figure}")
    return float(value)


def _row(target: Target, found: dict[str, list[Figures]]) -> list[str]:
    ours, theirs = ([_figure(one, target.figure) for one in found[name]] for name in (target.of, target.against))
    ratio = median(theirs) / median(ours)
    by_round = [their / our for our, their in zip(ours, theirs, strict=True)]
    shown = "{:.1f} s/M rows" if target.figure == "CPU time" else "{:,.0f} bytes"
    return [
        SYSTEMS[target.of].title,
        SYSTEMS[target.against].title,
        target.figure,
        shown.format(median(ours)),
        shown.format(median(theirs)),
        f"{min(by_round):.2f} ×",
        f"{ratio:.2f} ×",
        f"{max(by_round):.2f} ×",
        f"{target.ratio:.2f} ×",
        "met" if ratio >= target.ratio else "missed",
    ]
