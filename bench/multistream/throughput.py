"""Fig. 8g to 8i: input rows a second. Results are counted and not written, which no plan has an influence on."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean

from bench.charts import Panel, panels
from bench.comparing import Failed
from bench.multistream.running import Ran, Run
from bench.multistream.showing import Bench, show
from bench.workloads.model import Workload

PLANS = ("flat", "left-deep", "optimized")
COLUMNS = ["input", "plan", "partitions", "rows/s", "rows/s of probing", "probed tuples", "stored tuples"]
Label = tuple[str, str, int]  # input, plan, places


def _shown(bench: Bench, name: str, title: str, found: Mapping[Label, list[Ran]]) -> None:
    rows = []
    lines: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for (what, plan, places), runs in found.items():
        speed = mean(ran.rows_per_second for ran in runs)
        probing = mean(ran.rows_per_second_of_probing for ran in runs)
        stored = sum(runs[0].stored.values())
        rows.append([what, plan, str(places), f"{speed:,.0f}", f"{probing:,.0f}", f"{runs[0].probed:,}", f"{stored:,}"])
        lines.setdefault(what, {}).setdefault(plan, []).append((float(places), speed))
    drawn = [Panel(what, "partitions", "input rows/s", plans, grouped=True) for what, plans in lines.items()]
    show(bench, name, title, COLUMNS, rows, panels(f"Fig. {name}: {title}", drawn))


def _places(bench: Bench) -> tuple[int, ...]:
    return (1, 2) if bench.short else (1, 2, 4)


def by_plan(bench: Bench) -> None:
    """8g: Q2, and Q5 beside it."""
    many, few = (0.1, 0.02) if bench.short else (0.5, 0.05)
    cases: list[tuple[Workload, str, str, tuple[int, ...]]] = [
        (bench.inputs.tpch("q2", many, 5), f"Q2, {many:g}, hash", "hash", _places(bench)),
        (bench.inputs.tpch("q2", few, 5), f"Q2, {few:g}, theta", "theta", _places(bench)),
    ]
    factor = 0.02 if bench.short else 0.05
    cases.append((bench.inputs.tpch("q5", factor, 5), f"Q5, {factor:g}, hash", "hash", (1,) if bench.short else (1, 2)))
    if not bench.short:
        cases.append((bench.inputs.tpch("q5", 0.01, 5), "Q5, 0.01, theta", "theta", (1, 2)))
    runs = {
        (what, plan, places): Run(workload, plan, how, places)
        for workload, what, how, some in cases
        for plan in PLANS
        for places in some
    }
    _shown(bench, "8g", "throughput by plan and partitions, Q2 and Q5", bench.repeated(runs))


def by_store(bench: Bench) -> None:
    """8h: Q3, all stores in all places, or each in as many as pay off."""
    many, few = (0.05, 0.005) if bench.short else (0.1, 0.01)
    hashed, theta = bench.inputs.tpch("q3", many, 5), bench.inputs.tpch("q3", few, 5)
    runs: dict[Label, Run] = {}
    for places in _places(bench):
        runs[f"Q3, {many:g}, hash", "flat, by keys", places] = Run(hashed, "flat", "hash", places)
    for parallelism in ("all", "chosen"):
        for places in _places(bench)[parallelism == "chosen" :]:  # of one place there is no choice
            label = {"all": "flat, all stores spread", "chosen": "flat, partitions chosen"}[parallelism]
            runs[f"Q3, {few:g}, theta", label, places] = Run(theta, "flat", "theta", places, parallelism)
    _shown(bench, "8h", "throughput by how stores are spread, Q3", bench.repeated(runs))


def by_shape(bench: Bench) -> None:
    """8i: a chain with a large join in the middle, by all shapes of Fig. 6 that searchers give.

    The paper calls it MLM; there L is ten partners here, which is H in Fig. 8f and in the names of our files."""
    many, few = (30_000, 3_000) if bench.short else (100_000, 6_000)
    shapes = {
        "I flat": ("flat", 0.0, 0),
        "II one inner result": ("chain", 5.5, 1),
        "III bushy": ("chain", 7.0, 2),
        "V left-deep": ("left-deep", 0.0, 2),
        "optimized": ("optimized", 0.0, None),
    }
    runs: dict[Label, Run] = {}
    for how, rows in (("hash", many), ("theta", few)):
        workload = bench.inputs.chain("MHM", rows, 5)
        for shape, (plan, budget, _) in shapes.items():
            for places in (1,) if bench.short and how == "theta" else _places(bench):
                label = f"MLM, {rows:,}, {how}", shape, places
                runs[label] = Run(workload, plan, how, places, storage_budget=budget * rows)
    found = bench.repeated(runs)
    for (_, shape, _), (ran, *_) in found.items():
        if shapes[shape][2] not in (None, len(ran.materialized)):
            raise Failed(f"the plan of shape {shape} stores {', '.join(ran.materialized) or 'nothing'}")
    _shown(bench, "8i", "throughput by shape of the plan, custom-MLM", found)
