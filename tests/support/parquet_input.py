"""Parquet files as input of streams."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

EPOCH = datetime(2026, 1, 1)
TIMESTAMP = pa.timestamp("us", tz="UTC")
ONE_FILE_A_TICK = "WITH (maxFilesPerTrigger = 1)"
_FIRST_WRITTEN = 1_700_000_000  # seconds


def seconds_after_epoch(seconds: Iterable[float]) -> pa.Array:
    """Event times."""
    return pa.array([EPOCH + timedelta(seconds=second) for second in seconds], TIMESTAMP)


def write_file(folder: Path, number: int, rows: pa.Table) -> None:
    """The file of that number: Spark takes files in the order of their times, the engine in that of their names."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / "_draft"  # of which an engine that is running takes no notice
    pq.write_table(rows, draft)
    os.utime(draft, (_FIRST_WRITTEN + number, _FIRST_WRITTEN + number))
    draft.rename(folder / f"{number:06d}.parquet")


def append_file(folder: Path, rows: pa.Table) -> None:
    """One more file, for an engine that is running: it appears whole."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / "_draft"
    pq.write_table(rows, draft)
    draft.rename(folder / f"{len(list(folder.glob('*.parquet'))):06d}.parquet")


def damaged(content: bytes) -> bytes:
    """A file of several row groups of which the first can still be read."""
    middle = len(content) // 2
    return content[:middle] + b"\xff" * 2000 + content[middle + 2000 :]
