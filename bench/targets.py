"""What the project demands of itself: ratios within one run, which hold on any machine or do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from bench.comparing import Figures


@dataclass(frozen=True)
class Target:
    """How many times as fast as another system the joint plan has to be, or how many times less CPU time or state it
    may need."""

    other: str
    ratio: float
    figure: str = "speed"


TARGETS = {
    "three-way": (
        Target("spark", 20),
        Target("flink", 10),
        Target("flink-multi", 10),
        Target("pathway", 3),
        Target("duckdb", 1 / 4),
        Target("duckdb-loop", 1.5, "CPU time"),
    ),
    "three-way-10": (Target("duckdb-loop", 4, "CPU time"),),
    # "each" shares nothing at all, as independent queries in the CLASH paper do; "alone" shares the streams.
    "tpch-5": (
        Target("each", 2.6),
        Target("alone", 2.6),
        Target("naive", 1.5),
        Target("spark", 30),
        Target("each", 3.1, "state"),
    ),
    "tpch-10": (
        Target("each", 2.6),
        Target("alone", 2.6),
        Target("naive", 1.5),
        Target("spark", 50),
        Target("each", 5.3, "state"),
    ),
    "chain-20": (Target("alone", 3),),
}
SMALL_TICKS = 20.0  # the median latency of Spark against ours


def table(workload: str, found: Sequence[Figures]) -> Table | None:
    """The workload's targets whose systems ran, with what was measured and the same ratio in CPU time."""
    by_name = {one.system: one for one in found}
    ours = by_name.get("joint")
    wanted = [target for target in TARGETS.get(workload, ()) if target.other in by_name]
    if ours is None or not wanted:
        return None
    shown = Table("joint plan against", "figure", title="targets")
    for column in ("target", "measured", "by CPU time", ""):
        shown.add_column(column, justify="right")
    for target in wanted:
        other = by_name[target.other]
        measured = _ratio(target.figure, ours, other)
        by_cpu = _ratio("CPU time", ours, other) if target.figure == "speed" else None
        shown.add_row(
            other.title,
            target.figure,
            *(_shown(ratio) for ratio in (target.ratio, measured, by_cpu)),
            "" if measured is None else "met" if measured >= target.ratio else "missed",
        )
    return shown


def _ratio(figure: str, ours: Figures, other: Figures) -> float | None:
    """None where one of them is not known, because a run was too short."""
    if figure == "speed":
        return ours.rows_per_second / other.rows_per_second
    one, two = (each.state_bytes if figure == "state" else each.cpu_seconds_per_million_rows for each in (ours, other))
    return two / one if one and two else None


def _shown(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f} ×"
