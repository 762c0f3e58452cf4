"""A chain of five relations, r1 ⋈ r2 ⋈ r3 ⋈ r4 ⋈ r5, with full history and a high fan-out in the middle.

All twenty queries share the inner joins r2.b = r3.b and r3.c = r4.c, of which a row has ten partners each once all
rows are there. The outer joins have about one partner; a query takes one of two attributes at either end, and filters
the rows at the ends, so that there are four classes of five queries. A row in the middle has about a hundred matches
for each query, more than anybody writes down: they are counted.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.three_streams import EPOCH
from bench.workloads.model import MICROS, Query, Stream, Table, Workload

TICKS = 8
FAN_OUT = 10
COLUMNS = {"r1": ("a", "x"), "r2": ("a0", "a1", "b"), "r3": ("b", "c"), "r4": ("c", "d0", "d1"), "r5": ("d", "x")}
PASSING = (60, 70, 80, 90, 100)  # percent of the rows at either end


def make(folder: Path, scale: float) -> Workload:
    rows = max(100, int(2000 * scale))
    rng = np.random.default_rng(5)
    for name, columns in COLUMNS.items():
        (folder / "in" / name).mkdir(parents=True)
        for tick in range(TICKS):
            times = EPOCH + np.sort(rng.integers(tick * MICROS, (tick + 1) * MICROS, rows))
            data = {"ts": pa.array(times, pa.timestamp("us", tz="UTC"))}
            data |= {column: rng.integers(0, _values(column, rows * TICKS), rows) for column in columns}
            pq.write_table(pa.table(data), folder / "in" / name / f"{tick:06d}.parquet")
    streams = tuple(
        Stream(name, {"ts": "timestamp", **dict.fromkeys(columns, "bigint")}) for name, columns in COLUMNS.items()
    )
    counts = {name: [rows] * TICKS for name in COLUMNS}
    return Workload("chain-20", str(folder / "in"), streams, queries(), counts, sink="count")


def _values(column: str, rows: int) -> int:
    """From how many values a column takes its own."""
    if column == "x":
        return 100
    return max(1, rows // FAN_OUT) if column in ("b", "c") else rows


def queries() -> tuple[Query, ...]:
    tables = tuple(Table(name, name) for name in COLUMNS)
    inner = (("r2.b", "r3.b"), ("r3.c", "r4.c"))
    return tuple(
        Query(
            f"q{first}{last}_{passing}",
            tables,
            (("r1.a", f"r2.a{first}"), *inner, (f"r4.d{last}", "r5.d")),
            ("r1.a", "r5.d"),
            (f"r1.x < {passing}", f"r5.x < {160 - passing}"),
        )
        for first, last, passing in product(range(2), range(2), PASSING)
    )
