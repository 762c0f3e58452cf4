"""R(a) ⋈ S(a, b) ⋈ T(b, c), windows of 10 s, about one partner a probe, one query."""

from __future__ import annotations

from pathlib import Path

from bench.three_streams import COLUMNS, write_streams
from bench.workloads.model import Query, Stream, Table, Workload

WINDOW = 10
QUERY = Query(
    "q",
    tuple(Table(name, name, WINDOW) for name in COLUMNS),
    (("r.a", "s.a"), ("s.b", "t.b")),
    ("r.id", "s.id", "t.id", "t.c"),
)


def streams() -> tuple[Stream, ...]:
    return tuple(
        Stream(name, {"ts": "timestamp", "id": "bigint", **dict.fromkeys(columns, "bigint")})
        for name, columns in COLUMNS.items()
    )


def make(folder: Path, scale: float, rows: int = 200_000, ticks: int = 10, ticks_in_window: int = 2) -> Workload:
    """`rows` of each tick and stream."""
    rows = max(1000, int(rows * scale))
    write_streams(folder / "in", ticks, rows, ticks_in_window=ticks_in_window, window_seconds=WINDOW)
    return Workload("three-way", str(folder / "in"), streams(), (QUERY,), {name: [rows] * ticks for name in COLUMNS})
