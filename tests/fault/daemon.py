"""Spark's Python daemon with points to kill at inside the tasks; named by `spark.python.daemon.module`.

The points are put around the product's functions before the workers are forked; the product knows nothing of them.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark import daemon

import watersmeet.runtime.daemon  # noqa: F401 - what a worker of the product has before the fork
from tests.fault.strikes import FOLDER_VARIABLE, Strikes
from tests.fault.workload import COLUMNS
from watersmeet.runtime import gather, results, worker
from watersmeet.store import bucket

LATE_VARIABLE = "WATERSMEET_LATE_ORDER"
KINDS = ("gather", "keep", "merge", "results")  # files that tasks write: buckets of streams, of materialized stores, …
POINTS = tuple(f"{kind}.{moment}" for kind in KINDS for moment in ("write", "written"))
_PIECE = 6  # of those that a bucket file is written in: behind the rows, before the indexes are complete


def arm(strikes: Strikes) -> None:
    _in_bucket_files(strikes)
    _in_result_files(strikes)


def _in_bucket_files(strikes: Strikes) -> None:
    write_file = bucket._write_file
    writing: dict[str, Any] = {"task": "", "piece": 0}

    def crc32(piece: Any, checksum: int = 0) -> int:
        writing["piece"] += 1
        if writing["piece"] == _PIECE:
            strikes.reach(f"{writing['task']}.write")
        return zlib.crc32(piece, checksum)

    def watched(path: Path, *rest: Any) -> tuple[int, int]:
        writing["task"] = "merge" if "-m" in path.stem else "gather" if path.parent.name in COLUMNS else "keep"
        writing["piece"] = 0
        written = write_file(path, *rest)
        strikes.reach(f"{writing['task']}.written")
        return written

    bucket._write_file = watched
    bucket.zlib = SimpleNamespace(crc32=crc32)


def _in_result_files(strikes: Strikes) -> None:
    open_writer: Callable[..., Any] = results.open_writer

    class Watched:
        def __init__(self, *arguments: Any) -> None:
            self._writer = open_writer(*arguments)

        def write(self, rows: Any) -> None:
            self._writer.write(rows)
            strikes.reach("results.write")

        def close(self) -> None:
            self._writer.close()
            strikes.reach("results.written")

    results.open_writer = Watched
    assert gather.open_writer is open_writer, "rejected rows are written by the function that is not watched"


def let_an_order_come_late(file: Path, name: Path) -> None:
    """Moves a dead engine's order to where that would have written it, just before a task reads its own."""
    order_path = worker.gather_order_path

    def watched(*arguments: Any) -> Path:
        name.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # once is enough
            file.rename(name)
        return order_path(*arguments)

    worker.gather_order_path = watched


if __name__ == "__main__":
    if FOLDER_VARIABLE in os.environ:
        arm(Strikes(Path(os.environ[FOLDER_VARIABLE])))
    if LATE_VARIABLE in os.environ:
        let_an_order_come_late(*map(Path, os.environ[LATE_VARIABLE].split(":")))
    daemon.manager()
