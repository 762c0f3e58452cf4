"""A disk that is full, wherever in a tick it happens: a clear error, nothing lost, and the next run goes on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fault.stepwise import Stepwise
from tests.support.answers import check_answers
from tests.support.case_engine import engine_for, write_input
from tests.support.cases import Case
from tests.support.faults.workload import make_case
from tests.support.waiting import PATIENCE
from watersmeet.errors import RunError, WatersmeetError
from watersmeet.home.manifest import load_newest
from watersmeet.runtime.tick.failure import explain_failure
from watersmeet.store.bucket_file import verify_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = 4096  # what a small file system gives space in


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False, timeout=PATIENCE).returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=PATIENCE)


class Ballast:
    """A file that fills a disk but for some bytes."""

    def __init__(self, disk: Path) -> None:
        self.path = disk / "ballast"

    def fill(self, free: int) -> None:
        room = os.statvfs(self.path.parent)
        with self.path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, room.f_bavail * room.f_frsize - free))

    def release(self) -> None:
        self.path.unlink()


def test_every_page_that_a_tick_could_lack(small_disk: Path) -> None:
    """One tick after the other is tried with no page free, one page, two …, until it has enough."""
    case, home, ballast = make_case(ticks=6, rows=12), small_disk / "home", Ballast(small_disk)
    engine, pages = _first_start(case, home, ballast)
    assert pages > 0
    needed = []
    for tick in range(case.ticks):
        for pages in range(1000):
            ballast.fill(pages * PAGE)
            enough = _tried(engine)
            check_committed(home, tick + enough)
            ballast.release()
            if enough:
                break
            engine.restart()
        needed.append(pages)
    # Not of each tick: on a busy machine some were seen to need fewer free pages than they write files.
    assert max(needed) > 5, "a tick writes more files than that"
    engine.check_answers()


def _first_start(case: Case, home: Path, ballast: Ballast) -> tuple[Stepwise, int]:
    for pages in range(1000):
        ballast.fill(pages * PAGE)
        try:
            return Stepwise(home, case), pages
        except OSError as problem:
            check_told(explain_failure(problem, home), home)
        finally:
            ballast.release()
    raise AssertionError("it never had enough")


def _tried(engine: Stepwise) -> bool:
    try:
        engine.run_until(engine.done + 1)
    except Exception as problem:
        check_told(explain_failure(problem, engine.home), engine.home)
        return False
    return True


def test_a_full_disk_stops_an_engine_and_freeing_space_continues_it(
    spark: SparkSession, small_disk: Path, tmp_path: Path
) -> None:
    case, home, ballast = make_case(ticks=4), small_disk / "home", Ballast(small_disk)
    write_input(case, tmp_path / "input")
    # From nothing at all to enough for a tick or two: full under the lock, under Spark's logs, under the files.
    for pages in (0, 6, 32):
        ballast.fill(pages * PAGE)
        with pytest.raises(RunError) as failure, engine_for(case, spark, home, tmp_path / "input") as engine:
            engine.run_once()
        check_told(failure.value, home)
        ballast.release()
    with engine_for(case, spark, home, tmp_path / "input") as engine:
        engine.run_once()
    check_committed(home, case.ticks)
    check_answers(case, home)


def check_told(problem: WatersmeetError, home: Path) -> None:
    assert f"the disk of {home} is full" in problem.problem, problem
    assert "all ticks before it are complete" in problem.detail
    assert "free some space and run again with the same home" in problem.hint


def check_committed(home: Path, tick: int) -> None:
    manifest = load_newest(home)
    assert manifest.tick == tick
    manifest.validate()
    for bucket in manifest.buckets:
        verify_file(home, bucket)
