"""`python -m bench.adaptive [--short]`: a plan that stays against one that follows the data (CLASH, Fig. 8).

8a: four streams of one rate; then S finds 100 partners in R and none in T, and T finds 100 in U and none in S.
8b: R is fast and S, T, U are slow; then S ⋈ T ⋈ U, which was large, gets tiny while R meets S often.

Both runs read the same files and start with the same statistics, under which the plan is right for the first half. The
number of results is compared with DuckDB's before a figure is shown."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench.adaptive.replay import Run, replay
from bench.charts import Panel, panels
from bench.report import write_json, write_picture
from tests.support.changing_streams import (
    TICKS_IN_WINDOW,
    Changing,
    explosion,
    right_number,
    script,
    small_intermediate,
)

EPOCH = 5  # ticks: as long as a window
WARM = 5  # first ticks, which compile and fill caches
BUSY = 2.0  # files come at half of the pace that the machine manages in the first half

LIKE_BEFORE = 1.3  # times the median tick of the first half


@dataclass(frozen=True)
class Experiment:
    name: str
    title: str
    data: Changing
    statistics: dict[str, Any]


def selectivity(left: str, right: str, value: float) -> dict[str, Any]:
    return {"left": left, "right": right, "value": value}


def experiments(short: bool) -> list[Experiment]:
    ticks, change = (25, 10) if short else (60, 25)
    rows = 30_000 if short else 50_000
    held = rows * TICKS_IN_WINDOW
    equal = explosion(rows, ticks, change)
    fast, slow = 100_000, 400
    few = slow * TICKS_IN_WINDOW
    return [
        Experiment(
            "8a",
            f"R, S, T, U: {rows:,} rows a tick each; S finds 100 in R and none in T, T 100 in U and none in S",
            equal,
            {
                "sizes": dict.fromkeys("rstu", held),
                "selectivities": [
                    selectivity("r.a", "s.a", 0.9 / held),
                    selectivity("s.b", "t.b", 1.1 / held),
                    selectivity("t.c", "u.c", 0.9 / held),
                ],
            },
        ),
        Experiment(
            "8b",
            f"R: {fast:,} rows a tick; S, T, U: {slow:,}; S ⋈ T ⋈ U gets tiny, and R meets S often",
            small_intermediate(fast, slow, ticks, change),
            {
                "sizes": {"r": fast * TICKS_IN_WINDOW, "s": few, "t": few, "u": few},
                "selectivities": [
                    selectivity("r.a", "s.a", 1 / (40 * few)),
                    selectivity("s.b", "t.b", 51 / (4 * few)),
                    selectivity("t.c", "u.c", 1 / 160),
                ],
            },
        ),
    ]


def behind(seconds: list[float], period: float) -> list[float]:
    """How long after its files came each tick ends, if they come at this pace and a tick waits for the one before.

    The first ticks, which warm up, count as if they had been on time."""
    late, found = 0.0, []
    for number, took in enumerate(seconds):
        late = max(0.0, late - period) + (took if number >= WARM else min(took, period))
        found.append(late)
    return found


def recovery(seconds: list[float], change: int) -> int | None:
    """Epochs from the one with the change until one from which on ticks take about as long as before; None: never."""
    limit = LIKE_BEFORE * median(seconds[WARM:change])
    first, last = change // EPOCH, len(seconds) // EPOCH
    medians = {epoch: median(seconds[epoch * EPOCH : (epoch + 1) * EPOCH]) for epoch in range(first + 1, last)}
    good = [epoch for epoch in medians if all(medians[later] < limit for later in range(epoch, last))]
    return good[0] - first if good else None


def compare(experiment: Experiment, number: int) -> dict[str, Any]:
    """Which plan runs first alternates from run to run."""
    plans = [("static", "off"), ("adaptive", "on")]
    folder = Path(tempfile.mkdtemp(prefix="watersmeet-bench-"))
    try:
        experiment.data.write(folder / "in")
        right = right_number(folder / "in")
        runs = {}
        for name, adaptive in plans if number % 2 == 0 else reversed(plans):
            runs[name] = replay(
                script(folder / "in"), str(folder / name), experiment.statistics, adaptive=adaptive, epoch=EPOCH
            )
            if runs[name].results != right:
                raise SystemExit(f"{name}: {runs[name].results} results, and DuckDB has {right}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return show(experiment, runs, right)


def show(experiment: Experiment, runs: dict[str, Run], right: int) -> dict[str, Any]:
    change = experiment.data.change
    period = BUSY * median(runs["static"].seconds[WARM:change])
    title = f"Fig. {experiment.name}: {experiment.title}; a tick each {period:.2f} s; {right:,} results, as DuckDB"
    columns = (
        "plan",
        "tick before",
        "tick after",
        "last ticks",
        "most behind",
        "behind at the end",
        "state at the end",
    )
    table = Table(*columns, "as fast as before", title=title)
    figures: dict[str, Any] = {"title": experiment.title, "period": period, "change": change, "results": right}
    for name, run in runs.items():
        late = behind(run.seconds, period)
        epochs = recovery(run.seconds, change)
        table.add_row(
            name,
            f"{median(run.seconds[WARM:change]):.2f} s",
            f"{max(run.seconds[change:]):.2f} s at most",
            f"{median(run.seconds[-EPOCH:]):.2f} s",
            f"{max(late[change:]):.1f} s",
            f"{late[-1]:.1f} s",
            f"{run.state_rows[-1]:,} rows",
            "never" if epochs is None else f"after {epochs} epochs",
        )
        figures[name] = {**asdict(run), "behind": late, "epochs_to_recover": epochs}
    Console(width=160).print(table)
    for one in runs["adaptive"].decisions:
        adopted = "adopted" if one["adopted"] else "left"
        print(f"  tick {one['tick']}, epoch {one['epoch']}, {adopted}: {one['reason']}; keeps {one['materialized']}")
    write_picture(f"adaptive-{experiment.name}", picture(experiment, runs, period))
    return figures


def picture(experiment: Experiment, runs: dict[str, Run], period: float) -> str:
    """Tick time, delay and state over the ticks, of both runs, one above the other."""

    def panel(title: str, up: str, values: dict[str, list[float]]) -> Panel:
        # The first tick compiles: its time would dwarf all others.
        lines = {plan: [(at + 1.0, value) for at, value in enumerate(told) if at > 0] for plan, told in values.items()}
        return Panel(title, "tick", up, lines, marks={experiment.data.change + 0.5: "the data changes"})

    late = {name: behind(run.seconds, period) for name, run in runs.items()}
    megabytes = {name: [size / 1e6 for size in run.state_bytes] for name, run in runs.items()}
    return panels(
        f"Fig. {experiment.name}: static and adaptive plan, epochs of {EPOCH} ticks",
        [
            panel("time of a tick", "s", {name: run.seconds for name, run in runs.items()}),
            panel(f"delay behind the input, which has files for a tick every {period:.2f} s", "s", late),
            panel("state", "MB", megabytes),
        ],
    )


def main(
    short: Annotated[bool, typer.Option("--short", help="fewer ticks: about four minutes")] = False,
    only: Annotated[str, typer.Option(help="8a or 8b")] = "",
    runs: Annotated[int, typer.Option(min=1, help="runs of each experiment")] = 1,
) -> None:
    chosen = [one for one in experiments(short) if only in ("", one.name)]
    figures = {one.name: [compare(one, number) for number in range(runs)] for one in chosen}
    table = Table("experiment", "run", title="static ÷ adaptive: CPU time of all processes, and median tick")
    for column in ("CPU before the change", "CPU after it", "tick before", "tick after"):
        table.add_column(column, justify="right")
    for name, found in figures.items():
        for number, one in enumerate(found, 1):
            ratios = (*ahead(one, "cpu", fmean), *ahead(one, "seconds", median))
            table.add_row(name, str(number), *(f"{ratio:.2f} ×" for ratio in ratios))
    Console().print(table)
    write_json("adaptive", {"figures": figures})


def ahead(figures: dict[str, Any], what: str, middle: Callable[[list[float]], float]) -> tuple[float, float]:
    """How many times as much as the adaptive plan the static plan takes, before and after the change."""
    parts = slice(WARM, figures["change"]), slice(figures["change"], None)
    before, after = (middle(figures["static"][what][part]) / middle(figures["adaptive"][what][part]) for part in parts)
    return before, after


if __name__ == "__main__":
    typer.run(main)
