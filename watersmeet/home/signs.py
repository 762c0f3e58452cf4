"""Signals between the driver and tasks while a tick runs, as small files in `orders/`.

Tasks look for those of the driver between two chunks of rows; tasks in which Spark computes send some to the driver.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path

from watersmeet.home import layout
from watersmeet.home.files import write_whole


class Signs:
    """The driver's side. A tick that has a dropped query in it gives the query up if it takes long."""

    def __init__(self, home: Path, patience: float) -> None:
        """`patience` is how many seconds a task continues with a query that was dropped."""
        self._home, self._patience = home, patience
        self._dropped: set[str] = set()

    def stop(self) -> None:
        """Tasks end without a result."""
        with contextlib.suppress(OSError):
            write_whole(self._home / layout.STOP, "")

    def replaced(self, before: Collection[str], after: Collection[str]) -> None:
        """The active queries of the plan before and of the one from the next tick on."""
        with contextlib.suppress(OSError):  # then the tick that runs takes as long as it takes
            for name in set(before) - set(after):
                write_whole(layout.dropped(self._home, name), str(self._patience))
                self._dropped.add(name)
        self._remove(self._dropped & set(after))

    def committed(self, queries: Collection[str]) -> None:
        """A tick with these queries is committed; so are all with the queries that are not among them."""
        if self._dropped:
            self._remove(self._dropped - set(queries))

    def _remove(self, names: set[str]) -> None:
        for name in names:
            with contextlib.suppress(OSError):
                layout.dropped(self._home, name).unlink(missing_ok=True)
        self._dropped -= names


def engine_stops(home: Path) -> bool:
    return (home / layout.STOP).exists()


def dropped(home: Path) -> dict[str, float]:
    """The queries that were dropped since the tick began, and for how long a task continues with them."""
    found = {}
    with contextlib.suppress(OSError, ValueError):
        for path in (home / layout.DROPPED).iterdir():
            if not path.name.startswith("_"):  # a draft
                found[path.name] = float(path.read_text())
    return found


def computes(home: Path, job: str, task: int) -> None:
    """A sign of a task in which Spark computes: another block of rows begins. Without it there is no time limit."""
    with contextlib.suppress(OSError):
        sign = layout.computing(home, job, task)
        sign.parent.mkdir(parents=True, exist_ok=True)
        sign.touch()


def has_computed(home: Path, job: str, task: int) -> None:
    with contextlib.suppress(OSError):
        layout.computing(home, job, task).unlink(missing_ok=True)


def computing(home: Path, job: str) -> dict[str, int]:
    """By task of a job, the time of its last sign."""
    found = {}
    for sign in _signs_of(home, job):
        with contextlib.suppress(OSError):
            found[sign.name] = sign.stat().st_mtime_ns
    return found


def stop_computing(home: Path, job: str) -> None:
    for sign in _signs_of(home, job):
        with contextlib.suppress(OSError):
            sign.unlink()


def _signs_of(home: Path, job: str) -> list[Path]:
    with contextlib.suppress(OSError):
        return [sign for sign in (home / layout.COMPUTING).iterdir() if sign.name.startswith(f"{job}-")]
    return []
