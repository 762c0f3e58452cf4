"""Spark's Python daemon whose workers die where they are told to; named by `spark.python.daemon.module`.

It subscribes to the points of a tick before the workers are forked; so does the driver, in `program.py`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from pyspark import daemon

import watersmeet.runtime.daemon  # noqa: F401 - what a worker of the product has before the fork
from tests.support.faults.strikes import FOLDER_VARIABLE, Strikes
from tests.support.faults.workload import COLUMNS
from watersmeet import points
from watersmeet.runtime import release
from watersmeet.runtime.emit import result_files

LATE_VARIABLE = "WATERSMEET_LATE_ORDER"
WAIT_VARIABLE = "WATERSMEET_RESULTS_WAIT"
KINDS = ("gather", "keep", "merge", "results", "waiting")  # files that tasks write: buckets of streams, …
WRITING_POINTS = tuple(f"{kind}.{moment}" for kind in KINDS for moment in ("write", "written"))
RESIDENT_POINTS = ("resident.begin", "resident.order", "resident.reply")


class Armed:
    """Passes points on to strikes, under the names that tests use: they tell kinds of files and of ticks apart."""

    def __init__(self, strikes: Strikes) -> None:
        self._strikes = strikes
        self._merged: set[str] = set()  # files that nobody needs after the tick that is being committed, and why
        self._expired: set[str] = set()
        points.subscribe(self._reached)

    def _reached(self, point: str, about: object) -> None:
        if point == "resident.begin":
            assert isinstance(about, Connection)
            self._strikes.connection = about
        for name in self._names(point, about):
            self._strikes.reach(name)

    def _names(self, point: str, about: object) -> Iterator[str]:
        if isinstance(about, Path) and point.startswith("bucket."):
            kind = "merge" if "-m" in about.stem else "gather" if about.parent.name in COLUMNS else "keep"
            yield f"{kind}.{point.partition('.')[2]}"
        elif point == "commit.before":
            assert isinstance(about, tuple)
            garbage, merged = about
            self._merged, self._expired = set(garbage) & merged, set(garbage) - merged
            if self._expired:
                yield "expire.before"
        elif point == "discard.between":
            yield "expire.between" if self._expired else point
        elif point != "discard.before" or about:
            yield point
        if point == "manifest.draft" and (self._merged or self._expired):
            yield "manifest.replacing"


def let_an_order_come_late(file: Path, name: Path) -> None:
    """Moves a dead engine's order to where that would have written it, just before a task reads its own."""

    def reached(point: str, about: object) -> None:
        if point == "order.read":
            name.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):  # once is enough
                file.rename(name)

    points.subscribe(reached)


def let_results_wait() -> None:
    """Of however few queries, until the next tick."""
    result_files.MANY = 0
    release.MANY_BYTES = 0
    release.TICKS = 0  # however slow ticks are


if __name__ == "__main__":
    if WAIT_VARIABLE in os.environ:
        let_results_wait()
    if FOLDER_VARIABLE in os.environ:
        Armed(Strikes(Path(os.environ[FOLDER_VARIABLE])))
    if LATE_VARIABLE in os.environ:
        let_an_order_come_late(*map(Path, os.environ[LATE_VARIABLE].split(":")))
    daemon.manager()
