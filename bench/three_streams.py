"""The streams R(ts,id,a), S(ts,id,a,b), T(ts,id,b,c) as Parquet files, one a tick, with about one partner a probe."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = {"r": ("a",), "s": ("a", "b"), "t": ("b", "c")}
EPOCH = 1_767_225_600_000_000  # 2026-01-01


def write_streams(folder: Path, ticks: int, rows: int, ticks_in_window: int, window_seconds: int = 10) -> None:
    """`rows` for each tick and stream. Keys come from as many values as a window holds rows."""
    rng = np.random.default_rng(1)
    length = window_seconds * 1_000_000 // ticks_in_window
    for name, columns in COLUMNS.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for tick in range(ticks):
            times = EPOCH + np.sort(rng.integers(tick * length, (tick + 1) * length, rows))
            data = {"ts": pa.array(times, pa.timestamp("us", tz="UTC")), "id": np.arange(rows) + tick * rows}
            data |= {column: rng.integers(0, rows * ticks_in_window, rows) for column in columns}
            pq.write_table(pa.table(data), folder / name / f"{tick:06d}.parquet")


def streams_sql(folder: Path) -> str:
    return "".join(
        f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, {', '.join(f'{column} BIGINT' for column in columns)}) "
        f"TIMESTAMP BY ts FROM parquet '{folder / name}' WITH (maxFilesPerTrigger = 1);\n"
        for name, columns in COLUMNS.items()
    )


def query_sql(name: str = "q", window_seconds: int = 10, selected: str = "r.id AS r, s.id AS s, t.id AS t, t.c") -> str:
    window = f"[RANGE {window_seconds} SECONDS]"
    return (
        f"CREATE QUERY {name} AS SELECT {selected} FROM r {window}, s {window}, t {window} "
        "WHERE r.a = s.a AND s.b = t.b;\n"
    )
