"""What goes wrong with the results that one query keeps, or with its windows, concerns that query alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.poison.test_windows_of_slices import VICTIM, WINDOW, check_healthy, live, run_beside
from tests.support.windowed import Asked, WindowedRun
from watersmeet.home.manifest import BucketInfo
from watersmeet.model import Query
from watersmeet.model.forms import PairRows
from watersmeet.runtime.emit import patience
from watersmeet.store.bucket import Bucket
from watersmeet.windows.pairs import task
from watersmeet.windows.pairs.task import Keeping

# As the healthy query `rows`, whose results are put together with these.
ROWS = f"SELECT x.v AS a, y.v AS b, window_start FROM r {WINDOW} x JOIN t {WINDOW} y ON x.k = y.k WHERE x.v < 3"
Made = Callable[[Query, Bucket, np.ndarray, np.ndarray], tuple[pa.Table, int]]


def beside(home: Path, partitions: int = 1) -> WindowedRun:
    run = run_beside(home, "", partitions)
    run.add(VICTIM, Asked(ROWS, ""), kind=PairRows.kind)
    return run


def failing(problem: Exception, made: list[str], real: Made) -> Made:
    def results(query: Query, *of: Any) -> tuple[pa.Table, int]:
        made.append(query.name)
        if query.name == VICTIM:
            raise problem
        return real(query, *of)

    return results


@pytest.mark.parametrize(
    ("problem", "reason"),
    [(MemoryError(), "no memory for its windows (option task_memory)"), (ValueError("poison"), "poison")],
)
@pytest.mark.parametrize("partitions", [1, 3])
def test_windows_that_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception, reason: str, partitions: int
) -> None:
    made: list[str] = []
    monkeypatch.setattr(task, "_results", failing(problem, made, task._results))
    run = beside(tmp_path / "home", partitions)
    live(run)
    assert reason in run.manifest.suspended[VICTIM].reason
    assert made.count(VICTIM) <= 2 * partitions, "a piece is tried once more without what else is in memory"
    check_healthy(run)


def test_results_that_cannot_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was written of them by then is of the state until the next tick, and not left behind."""
    real, written = Keeping.add, list[list[BucketInfo]]()

    def add(self: Keeping, *rows: Any) -> None:
        real(self, *rows)
        if self._store.query == VICTIM:
            self._write()
            written.append(self._written)
            raise ValueError("poison")

    monkeypatch.setattr(Keeping, "add", add)
    run = beside(tmp_path / "home")
    live(run)
    assert run.manifest.suspended[VICTIM].reason == "poison"
    assert any(written) and not [each for each in run.manifest.buckets if each.store.startswith(f"pairs {VICTIM}")]
    run.restart()  # which compares the files with the manifest
    check_healthy(run)


def test_a_query_that_is_dropped_while_its_windows_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    real = task._results

    def results(query: Query, *of: Any) -> tuple[pa.Table, int]:
        made.append(query.name)
        return real(query, *of)

    monkeypatch.setattr(task, "PIECE_ROWS", 1)
    monkeypatch.setattr(task, "_results", results)
    monkeypatch.setattr(patience, "dropped", lambda home: {VICTIM: 0.0} if made.count(VICTIM) >= 3 else {})
    run = beside(tmp_path / "home")
    live(run)
    assert run.manifest.suspended[VICTIM].reason == "it was dropped"
    assert made.count(VICTIM) == 3
    check_healthy(run)
