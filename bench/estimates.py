"""`bench/run estimates`: the estimated CPU time of a tick against the measured one, for several workloads and plans.

Each plan runs twice, the second time with the statistics of the first. Measured is the CPU time of all processes over
the last half of the ticks; estimated is what the plan costs by the statistics of the second run, with the shipped
weights and with those that the engine measured.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as Shown

from bench.observe import CLOSELY, observe
from bench.peers.ours import ALONE, JOINT
from bench.report import write_json
from bench.research import command, engine_options
from bench.scratch import in_scratch
from bench.windows.estimated import WINDOWED, Script
from bench.workloads import nexmark, three_way, tpch
from bench.workloads.model import Workload
from bench.workloads.texts import watersmeet_script
from watersmeet.adapt.statistics_file import recall
from watersmeet.home import layout
from watersmeet.optimize.solution import priced
from watersmeet.optimize.statistics import Statistics
from watersmeet.options import read_options
from watersmeet.pipeline import Pipeline
from watersmeet.plan.planner import START, Plan, make_plan

PLANS = {"joint": JOINT, "alone": ALONE, "left-deep": {"searcher": "left-deep", "adaptive": "off"}}
WITHIN = 1.5  # times more or less


@dataclass(frozen=True)
class Estimate:
    workload: str
    plan: str
    rows: int  # of a tick
    measured: float  # CPU seconds of a tick
    shipped: float
    fitted: float
    phases: int

    @property
    def is_near(self) -> bool:
        return self.fitted / WITHIN <= self.measured <= self.fitted * WITHIN


WORKLOADS: dict[str, Callable[[Path, float], Workload]] = {
    "three-way-3000": partial(three_way.make, rows=1000, ticks=40, ticks_in_window=10),
    "three-way-60000": partial(three_way.make, rows=20_000, ticks=40, ticks_in_window=10),
    "three-way-300000": partial(three_way.make, rows=100_000, ticks=40, ticks_in_window=10),
    "nexmark": nexmark.make,
    "tpch-5": partial(tpch.make, count=5),
    "tpch-10": partial(tpch.make, count=10),
}


def run(
    names: Annotated[list[str] | None, typer.Option("--workload", help="one of several workloads")] = None,
    plans: Annotated[list[str] | None, typer.Option("--plan", help="one of several plans")] = None,
    scale: Annotated[float, typer.Option(help="share of the input")] = 1.0,
    embedded: Annotated[bool, typer.Option("--embedded", help="without Spark tasks")] = False,
) -> None:
    """Estimated against measured CPU time of a tick."""
    found = []
    chosen = {plan: {**PLANS[plan], **({"executor": "local"} if embedded else {})} for plan in plans or PLANS}
    for name in names or [*WORKLOADS, *WINDOWED]:
        # Windows are computed in one way: other plans of joins tell nothing of them.
        some = chosen if name in WORKLOADS else {plan: chosen[plan] for plan in list(chosen)[:1]}
        found += in_scratch(partial(_of_workload, name=name, plans=some, scale=scale))
        Console().print(found[-1])
    table = Shown("workload", "plan", title="CPU seconds of a tick; estimates with shipped and fitted weights")
    for column in ("rows", "phases", "measured", "shipped", "fitted", ""):
        table.add_column(column, justify="right")
    for one in found:
        cells = (f"{one.measured:.4f}", f"{one.shipped:.4f}", f"{one.fitted:.4f}", "" if one.is_near else "far")
        table.add_row(one.workload, one.plan, f"{one.rows:,}", str(one.phases), *cells)
    Console().print(table)
    near = sum(one.is_near for one in found)
    Console().print(f"{near} of {len(found)} within {WITHIN} ×")
    write_json("estimates", {"estimates": [one.__dict__ for one in found]})


def _of_workload(folder: Path, name: str, plans: dict[str, dict[str, str]], scale: float) -> list[Estimate]:
    return list(_estimates(folder, name, plans, scale))


def _estimates(folder: Path, name: str, plans: dict[str, dict[str, str]], scale: float) -> Iterator[Estimate]:
    made = WINDOWED[name](folder, scale) if name in WINDOWED else _script(WORKLOADS[name](folder, scale))
    script = folder / "pipeline.sql"
    script.write_text(made.text)
    for plan, given in plans.items():
        options = {**given, "epoch": str(max(1, made.ticks // 4))}
        first, second = folder / f"{plan}-1", folder / f"{plan}-2"
        _run(script, first, options)
        second.mkdir()
        shutil.copy(first / layout.STATISTICS, second)
        measured = _run(script, second, options)
        known = recall(second)
        assert known is not None
        fitted, phases = _estimated(script, options, known)
        shipped, _ = _estimated(script, options, replace(known, weights={}))
        yield Estimate(name, plan, made.rows, measured=measured, shipped=shipped, fitted=fitted, phases=phases)


def _script(workload: Workload) -> Script:
    rows = sum(map(sum, workload.rows.values())) // workload.ticks
    return Script(watersmeet_script(workload, workload.queries), rows, workload.ticks)


def _estimated(script: Path, options: dict[str, str], known: Statistics) -> tuple[float, int]:
    given = Pipeline.read(script.read_text(), script, read_options(engine_options(options))[0])
    plan = make_plan(START, tuple(given.streams.values()), list(given.queries.values()), given.options, known)
    shown = plan.rendered()
    more = _not_shared(plan) if options.get("sharing") == "none" else 0.0
    return sum(shown.estimate.values()) + more, shown.phases


def _not_shared(plan: Plan) -> float:
    """CPU seconds of a tick that steps cost more where each query takes its own."""
    problem, paths, layouts = plan.problem, plan.solution.paths, plan.solution.layouts
    each = 0.0
    for query in problem.queries:
        own = {(start, query.whole): paths[start, query.whole] for start in query.relations}
        each += sum(move.cost for move in priced(problem, own, layouts).values())
    return (each - plan.solution.probe_cost) / problem.ticks / 1e6


def _run(script: Path, home: Path, options: dict[str, str]) -> float:
    running = subprocess.Popen(command(script, home, options), stdout=subprocess.DEVNULL, text=True)
    seen, thread = observe(running, None, CLOSELY)
    if running.wait():
        raise SystemExit(f"{script} failed")
    thread.join()
    ended = [json.loads(line)["finished_at"] for line in (home / layout.TICKS).read_text().splitlines()]
    half = len(ended) // 2
    return seen.cpu_within(ended[half - 1], ended[-1]) / (len(ended) - half)
