"""A home put together from two backups: positions in the sources that do not fit the state are rejected.

Neither shows in any file by itself, and going on would leave rows out or take them twice without a word.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.answers import check_answers
from tests.support.case_engine import engine_for, write_input
from tests.support.faults.workload import make_case
from watersmeet.errors import StateError
from watersmeet.home.manifest import load_newest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASE = make_case(ticks=6, rows=12)


class Restored:
    """A home after four ticks, and the backup that was made of it after two."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.input, self.home, self.backup = spark, folder / "input", folder / "home", folder / "backup"
        self.run(range(2))
        shutil.copytree(self.home, self.backup)
        self.run(range(2, 4))
        self.newer = folder / "newer"
        shutil.copytree(self.home, self.newer)

    def run(self, ticks: range) -> None:
        write_input(CASE, self.input, ticks)
        with engine_for(CASE, self.spark, self.home, self.input) as engine:
            engine.run_once()

    def restore(self, source: Path, *names: str) -> None:
        for name in names or [path.name for path in source.iterdir()]:
            shutil.rmtree(self.home / name, ignore_errors=True)
            if (source / name).is_dir():
                shutil.copytree(source / name, self.home / name)

    def rejected(self, why: str) -> None:
        before = load_newest(self.home)
        with pytest.raises(StateError, match="do not fit the state") as failure:
            self.run(range(4, 6))
        assert why in failure.value.problem and str(self.home / "positions" / "0.jsonl") in failure.value.problem
        assert "restore the home folder as a whole from a backup" in failure.value.hint
        assert load_newest(self.home) == before


def test_positions_and_state_from_different_times(spark: SparkSession, tmp_path: Path) -> None:
    home = Restored(spark, tmp_path)
    home.restore(home.backup, "positions")
    home.rejected("they end before batch 3, which the state contains")
    shutil.rmtree(home.home / "positions")
    home.rejected("they end before batch 3, which the state contains")
    home.restore(home.newer)
    home.restore(home.backup, "manifests", "state", "results")
    home.rejected("they continue with batch 3, but the state ends with batch 1")
    home.restore(home.backup)  # as a whole, and all rows since are read again
    home.run(range(4, 6))
    check_answers(CASE, home.home)
