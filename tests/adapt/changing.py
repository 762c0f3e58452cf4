"""Streams R(a), S(a,b), T(b,c), U(c) whose keys change half-way: the data of CLASH, Fig. 8, scaled.

Every tick is one Parquet file for each stream; event time advances by a fixed length from tick to tick."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = {"r": "a", "s": "ab", "t": "bc", "u": "c"}
EPOCH = 1_767_225_600_000_000  # 2026-01-01
WINDOW = 5_000_000
TICKS_IN_WINDOW = 5

Keys = Mapping[str, tuple[int, int]]  # for each column such as "s.b" the smallest key and how many there are


@dataclass(frozen=True)
class Changing:
    rows: Mapping[str, int]  # of each stream in a tick
    before: Keys
    after: Keys
    ticks: int
    change: int  # the first tick of the other kind

    def write(self, folder: Path) -> None:
        rng = np.random.default_rng(1)
        length = WINDOW // TICKS_IN_WINDOW
        for name, columns in COLUMNS.items():
            (folder / name).mkdir(parents=True, exist_ok=True)
            for tick in range(self.ticks):
                count, keys = self.rows[name], self.before if tick < self.change else self.after
                times = EPOCH + np.sort(rng.integers(tick * length, (tick + 1) * length, count))
                data = {"ts": pa.array(times, pa.timestamp("us", tz="UTC")), "id": np.arange(count) + tick * count}
                for column in columns:
                    first, many = keys[f"{name}.{column}"]
                    data[column] = first + rng.integers(0, many, count)
                file = folder / name / f"{tick:06d}.parquet"
                pq.write_table(pa.table(data), file)
                os.utime(file, (EPOCH // 1_000_000 + tick,) * 2)  # Spark takes the oldest file first


def script(folder: Path) -> str:
    streams = "".join(
        f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, {', '.join(f'{column} BIGINT' for column in columns)}) "
        f"TIMESTAMP BY ts FROM parquet '{folder / name}' WITH (maxFilesPerTrigger = 1);\n"
        for name, columns in COLUMNS.items()
    )
    window = f"[RANGE {WINDOW // 1_000_000} SECONDS]"
    listed = ", ".join(f"{name} {window}" for name in COLUMNS)
    selected = ", ".join(f"{name}.id AS {name}" for name in COLUMNS)
    return f"{streams}CREATE QUERY q AS SELECT {selected} FROM {listed} WHERE r.a = s.a AND s.b = t.b AND t.c = u.c;\n"


def right_number(folder: Path) -> int:
    """How many results there are, by DuckDB."""
    newest = f"greatest({', '.join(f'{name}.ts' for name in COLUMNS)})"
    near = " AND ".join(f"{newest} - {name}.ts <= INTERVAL {WINDOW} MICROSECOND" for name in COLUMNS)
    tables = ", ".join(f"'{folder / name}/*.parquet' AS {name}" for name in COLUMNS)
    (found,) = duckdb.sql(
        f"SELECT count(*) FROM {tables} WHERE r.a = s.a AND s.b = t.b AND t.c = u.c AND {near}"
    ).fetchall()
    return int(found[0])


def explosion(rows: int, ticks: int, change: int, partners: int = 100) -> Changing:
    """Fig. 8a: about half a partner for each probe; then S finds many in R and none in T, T many in U and none in S."""
    held = rows * TICKS_IN_WINDOW
    calm = {f"{name}.{column}": (0, 2 * held) for name, columns in COLUMNS.items() for column in columns}
    few = (0, max(1, held // partners))
    wild = {"r.a": few, "s.a": few, "s.b": (0, 2 * held), "t.b": (10 * held, 2 * held), "t.c": few, "u.c": few}
    return Changing(dict.fromkeys(COLUMNS, rows), calm, wild, ticks, change)


def small_intermediate(fast: int, slow: int, ticks: int, change: int, partners: int = 10) -> Changing:
    """Fig. 8b: R is fast, the others are slow, and S ⋈ T ⋈ U is large; then it gets tiny, and R meets S often."""
    held = slow * TICKS_IN_WINDOW
    calm = {
        "r.a": (0, 20 * held),
        "s.a": (0, 20 * held),
        "s.b": (0, held),
        "t.b": (0, held),
        "t.c": (0, 4),
        "u.c": (0, 4),
    }
    few = (0, max(1, held // partners))
    tiny = {**calm, "r.a": few, "s.a": few, "u.c": (100, 4)}
    return Changing({"r": fast, "s": slow, "t": slow, "u": slow}, calm, tiny, ticks, change)
