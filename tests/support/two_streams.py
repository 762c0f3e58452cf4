"""Two streams l and r of (ts, id, k), and the query that joins them by their keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from tests.support.parquet_input import append_file, seconds_after_epoch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

JOIN = "SELECT l.id AS left_id, r.id AS right_id FROM l [RANGE 10 SECONDS], r [RANGE 10 SECONDS] WHERE l.k = r.k"


def write(folder: Path, rows: list[tuple[int, int, int]]) -> None:
    """One more file of (second, id, key) rows."""
    seconds, ids, keys = zip(*rows, strict=True)
    columns = {"ts": seconds_after_epoch(seconds), "id": pa.array(ids, pa.int64()), "k": pa.array(keys, pa.int64())}
    append_file(folder, pa.table(columns))


def create(name: str, folder: Path, options: str = "") -> str:
    return (
        f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT) TIMESTAMP BY ts "
        f"LATENESS INTERVAL '1' SECOND FROM parquet '{folder}' {options};"
    )


def create_both(folder: Path, options: str = "") -> str:
    return "".join(create(name, folder / name, options) for name in "lr")


def pairs(frame: DataFrame) -> list[tuple[int, ...]]:
    return sorted(tuple(row) for row in frame.collect())
