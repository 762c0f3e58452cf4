"""The rows of the stream r (ts, k, x): one file for each tick of one second."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from bench.windows.workload import MICROS


def write_rows(folder: Path, ticks: int, rows: int, keys: int, seed: int = 15) -> None:
    chance = np.random.default_rng(seed)
    for kind in ("r", "csv"):
        (folder / kind).mkdir(parents=True)
    for tick in range(ticks):
        at = np.sort(chance.integers(tick * MICROS, (tick + 1) * MICROS, rows))
        at[-1] = (tick + 1) * MICROS - 1  # so that each tick closes the same windows in every system
        k, x = chance.integers(0, keys, rows), chance.integers(0, 1000, rows)
        instants = pa.array(at, pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC"))
        pa.parquet.write_table(pa.table({"ts": instants, "k": k, "x": x}), folder / "r" / f"{tick:06d}.parquet")
        pa.csv.write_csv(
            pa.table({"ts": at, "k": k, "x": x}),
            folder / "csv" / f"{tick:06d}.csv",
            pa.csv.WriteOptions(include_header=False),
        )
