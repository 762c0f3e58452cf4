"""Fig. 8a to 8c: what is stored."""

from __future__ import annotations

from bench.charts import Line, Panel, bars, panels
from bench.multistream.running import Run
from bench.multistream.showing import Bench, show

PLANS = ("flat", "left-deep")
SECONDS = 100  # of event time in Fig. 8b


def by_plan(bench: Bench) -> None:
    """8a: tuples stored by the plans that store least and most."""
    factors = (0.01, 0.02) if bench.short else (0.01, 0.02, 0.05, 0.1)
    rows: list[list[str]] = []
    values: dict[str, float] = {}
    for name in ("q2", "q3", "q5"):
        for factor in factors:
            workload = bench.inputs.tpch(name, factor, ticks=2)
            came = sum(workload.counted().values())
            stored = {plan: sum(bench.run(Run(workload, plan)).stored.values()) for plan in PLANS}
            values |= {f"{name.upper()}, {factor:g}, {plan}": float(count) for plan, count in stored.items()}
            more = stored["left-deep"] / stored["flat"]
            rows.append(
                [
                    name.upper(),
                    f"{factor:g}",
                    f"{came:,}",
                    *(f"{count:,}" for count in stored.values()),
                    f"{more:.2f} ×",
                ]
            )
    title = "tuples stored after the whole input, full history"
    columns = ["query", "scale factor", "input rows", "flat", "left-deep", "left-deep ÷ flat"]
    show(bench, "8a", title, columns, rows, bars(f"Fig. 8a: {title}", "tuples", values))


def over_time(bench: Bench) -> None:
    """8b: tuples stored while windows fill, move on and let go."""
    factor, ticks = (0.01, 10) if bench.short else (0.05, 20)
    length = SECONDS // ticks
    lines: dict[str, Line] = {}
    for window in (25, 50):
        for plan in PLANS:
            ran = bench.run(Run(bench.inputs.tpch("q3", factor, ticks, length, window), plan, watched=True))
            totals = [sum(map(sum, stores.values())) for stores in ran.places]
            lines[f"{window} s, {plan}"] = [((at + 1.0) * length, float(total)) for at, total in enumerate(totals)]
    rows = [
        [f"{(at + 1) * length} s", *(f"{line[at][1]:,.0f}" for line in lines.values())]
        for at in range(min(map(len, lines.values())))
    ]
    title = f"tuples stored over time, Q3, scale factor {factor:g}, rows spread over {SECONDS} s"
    picture = panels("Fig. 8b", [Panel(title, "event time, s", "tuples", lines)])
    show(bench, "8b", title, ["event time", *lines], rows, picture)


def by_place(bench: Bench) -> None:
    """8c: how evenly one store's rows are spread in turn."""
    workload = bench.inputs.tpch("q3", 0.005 if bench.short else 0.01, ticks=6 if bench.short else 10)
    ran = bench.run(Run(workload, "flat", "theta", partitions=4, watched=True))
    held = [stores["lineitem"] for stores in ran.places]
    rows = [
        [str(at + 1), *(f"{count:,}" for count in places), f"{max(places) / min(places) - 1:.2%}"]
        for at, places in enumerate(held)
    ]
    lines = {f"P{place + 1}": [(at + 1.0, float(h[place])) for at, h in enumerate(held)] for place in range(4)}
    title = "rows of lineitem in each of four partitions, round-robin, Q3"
    columns = ["tick", "P1", "P2", "P3", "P4", "most over least"]
    show(bench, "8c", title, columns, rows, panels("Fig. 8c", [Panel(title, "tick", "rows", lines)]))
