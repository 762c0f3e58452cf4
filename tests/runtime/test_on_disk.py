"""What is not on the disk is not reported: a task whose files cannot be forced to disk fails, or gives up one query."""

from __future__ import annotations

import errno
import itertools
import os
import re
from math import inf
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.faults.small_world import OUTSIDE, TICKS, SmallWorld, expected, together
from watersmeet.errors import RunError, StateError
from watersmeet.home import disk
from watersmeet.home.manifest import BucketInfo, load_newest
from watersmeet.runtime.exec.on_disk import on_disk
from watersmeet.runtime.tick.computation import ComputeReport
from watersmeet.runtime.tick.orders import GatherReport, MergeReport, TaskReport
from watersmeet.runtime.tick.whole_tick import TickReport
from watersmeet.store.merge import MergeJob


@pytest.fixture
def world(tmp_path: Path) -> SmallWorld:
    world = SmallWorld(tmp_path)
    world.begin()
    world.feed(range(TICKS))
    return world


def failing(monkeypatch: pytest.MonkeyPatch, part: str, number: int, after: int = 0, times: float = inf) -> None:
    """From now on, or `after` some times, no file whose name has this part (a pattern) can be forced to disk. It is
    reported some `times`: an operating system says once that a write was lost."""
    real, calls = os.fsync, itertools.count()

    def fsync(handle: int) -> None:
        if re.search(part, os.readlink(f"/proc/self/fd/{handle}")) and after <= next(calls) < after + times:
            raise OSError(number, os.strerror(number))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(disk, "FEW", 1000)  # each is forced by itself


@pytest.mark.parametrize("times", [1, inf])
def test_a_disk_elsewhere_that_fails_suspends_the_query(
    world: SmallWorld, monkeypatch: pytest.MonkeyPatch, times: float
) -> None:
    with monkeypatch.context() as broken:
        failing(broken, f"{world.out}/_staging/0", errno.EIO, times=times)
        world.run()
    suspension = load_newest(world.home).suspended[OUTSIDE]
    assert "Input/output error" in suspension.reason
    assert not list(world.out.glob("0*.parquet"))
    found = world.found()
    assert all(together(found[query]) == rows for query, rows in expected().items() if query != OUTSIDE)


@pytest.mark.parametrize("part", ["home/state/payments/0", "home/manifests/0", "home/results/paid"])
def test_nothing_is_committed_that_is_not_on_the_disk(
    world: SmallWorld, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    with monkeypatch.context() as broken, pytest.raises(RunError, match="is full"):
        failing(broken, part, errno.ENOSPC)
        world.run()
    assert load_newest(world.home).tick <= 1, "a folder of results is forced to disk with the next tick"
    world.run()
    assert {query: together(files) for query, files in world.found().items()} == expected()


def test_a_folder_elsewhere_whose_entries_cannot_be_forced_to_disk(
    world: SmallWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that begins to fail: results have appeared there, and may be lost. That concerns their query alone."""
    with monkeypatch.context() as broken:
        failing(broken, f"{world.out}$", errno.EIO, after=3)
        world.run()
    suspension = load_newest(world.home).suspended[OUTSIDE]
    assert suspension.tick > 1 and f"{world.out}" in suspension.reason and "Input/output error" in suspension.reason
    found = world.found()
    assert all(together(found[query]) == rows for query, rows in expected().items() if query != OUTSIDE)


def test_a_start_with_a_disk_elsewhere_that_fails(world: SmallWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run(flush=False)
    with monkeypatch.context() as broken:
        failing(broken, f"{world.out}$", errno.EIO)
        world.run()
    assert "Input/output error" in load_newest(world.home).suspended[OUTSIDE].reason
    found = world.found()
    assert all(together(found[query]) == rows for query, rows in expected().items() if query != OUTSIDE)


def test_a_start_with_a_disk_of_the_home_that_fails(world: SmallWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run(flush=False)
    assert any(file.query == "again" for file in load_newest(world.home).results)
    with monkeypatch.context() as broken, pytest.raises(StateError, match="cannot be forced to disk") as caught:
        failing(broken, "home/results/again$", errno.EIO)
        world.run()
    assert "home/results/again" in caught.value.detail and "check the disk" in caught.value.hint


@pytest.mark.parametrize("few", [0, 1000])
def test_one_folder_that_fails_among_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    folders = [str(tmp_path / name) for name in "abc"]
    for folder in folders[:2]:
        os.mkdir(folder)

    def full(path: str) -> None:
        raise OSError(errno.EIO, "Input/output error", path)

    failing(monkeypatch, "/b$", errno.EIO)
    monkeypatch.setattr(disk, "_sync_file_system", full)
    monkeypatch.setattr(disk, "FEW", few)
    failed = disk.sync_each(disk.sync_entries, folders)
    # Of a whole file system it is not known what was lost; what is gone has nothing to lose.
    assert list(failed) == (folders[1:2] if few else folders[:2])


def test_a_commit_that_may_be_lost_is_not_called_a_failed_one(
    world: SmallWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest has appeared, and its folder cannot be forced to disk."""
    with monkeypatch.context() as broken, pytest.raises(RunError, match="tick 1 was committed, but") as caught:
        failing(broken, "home/manifests$", errno.EIO)
        world.run()
    assert "Input/output error" in caught.value.detail and "nothing of it" not in str(caught.value)
    assert load_newest(world.home).tick == 1
    world.run()
    assert {query: together(files) for query, files in world.found().items()} == expected()


def test_many_files_are_forced_to_disk_at_once(world: SmallWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(disk, "FEW", 0)
    monkeypatch.setattr(disk, "_sync_file_system", calls.append)
    world.run()
    assert len(calls) > TICKS
    assert {query: together(files) for query, files in world.found().items()} == expected()


MADE = BucketInfo("s", "state/s/file", 1, 1, 1, 0, 0, 1, 1)
GATHERED, PROBED, MERGED = GatherReport("s", [MADE]), TaskReport(kept=[MADE]), MergeReport(MergeJob((), 0), MADE)


@pytest.mark.parametrize(
    "report",
    [
        *(GATHERED, PROBED, MERGED, ComputeReport(MADE, GATHERED), TickReport([GATHERED], [], [], (0, 0))),
        *(TickReport([], [PROBED], [], (0, 0)), TickReport([], [], [MERGED], (0, 0))),
    ],
)
def test_a_bucket_is_on_the_disk_whatever_report_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: object
) -> None:
    """Of a stream, of a materialized store, or merged."""
    (tmp_path / MADE.file).parent.mkdir(parents=True)
    (tmp_path / MADE.file).touch()
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")))
    for durable in (False, True):
        rules = SimpleNamespace(durable=durable, by_spark=())
        assert on_disk(SimpleNamespace(rules=rules, home=str(tmp_path)), [report]) == [report]
        assert (str(tmp_path / MADE.file) in synced) == durable


def test_nothing_but_one_module_forces_files_to_disk() -> None:
    package = Path(disk.__file__).parents[1]
    found = {path for path in package.rglob("*.py") if "fsync" in path.read_text() or "syncfs" in path.read_text()}
    assert found == {Path(disk.__file__)}
