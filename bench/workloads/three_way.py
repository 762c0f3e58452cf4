"""R(a) ⋈ S(a, b) ⋈ T(b, c), windows of 10 s, about one partner a probe: one query, or several that differ."""

from __future__ import annotations

from pathlib import Path

from bench.three_streams import COLUMNS, write_streams
from bench.workloads.model import Query, Stream, Table, Workload

WINDOW = 10
TICKS, WARM_UP = 30, 10  # Java's compiler is done, and windows are full
SELECTED = ("r.id", "s.id", "t.id", "t.c")


def streams() -> tuple[Stream, ...]:
    return tuple(
        Stream(name, {"ts": "timestamp", "id": "bigint", **dict.fromkeys(columns, "bigint")})
        for name, columns in COLUMNS.items()
    )


def query(number: int, rows: int) -> Query:
    """Number 0 is the join itself; the others have their windows and columns, and all but each third a filter.

    Keys have values below `rows`."""
    filters = ("", f"t.c < {rows // 2}", f"r.a > {rows // 2}")
    return Query(
        f"q{number}" if number else "q",
        tuple(Table(name, name, WINDOW - number % 3 * 2) for name in COLUMNS),
        (("r.a", "s.a"), ("s.b", "t.b")),
        SELECTED[number % 3 :],
        (filters[number % 3],) if number % 3 else (),
    )


QUERY = query(0, 0)


def make(
    folder: Path, scale: float, rows: int = 200_000, ticks: int = TICKS, ticks_in_window: int = 2, count: int = 1
) -> Workload:
    """`rows` of each tick and stream."""
    rows = max(1000, int(rows * scale))
    queries = tuple(query(number, rows * ticks_in_window) for number in range(count))
    write_streams(folder / "in", ticks, rows, ticks_in_window=ticks_in_window, window_seconds=WINDOW)
    counted = {name: [rows] * ticks for name in COLUMNS}
    return Workload("three-way", str(folder / "in"), streams(), queries, counted, WARM_UP)
