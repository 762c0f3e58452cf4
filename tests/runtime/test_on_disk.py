"""What is not on the disk is not reported: a task whose files cannot be forced to disk fails, or gives up one query."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.support.faults.small_world import OUTSIDE, TICKS, SmallWorld, expected, together
from watersmeet.errors import RunError
from watersmeet.home import disk
from watersmeet.home.manifest import load_newest


@pytest.fixture
def world(tmp_path: Path) -> SmallWorld:
    world = SmallWorld(tmp_path)
    world.begin()
    world.feed(range(TICKS))
    return world


def failing(monkeypatch: pytest.MonkeyPatch, part: str, number: int) -> None:
    """From now on no file whose name has this part can be forced to disk."""
    real = os.fsync

    def fsync(handle: int) -> None:
        if part in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(number, os.strerror(number))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(disk, "FEW", 1000)  # each is forced by itself


def test_a_disk_elsewhere_that_fails_suspends_the_query(world: SmallWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        failing(broken, f"{world.out}/_staging/0", errno.EIO)
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


def test_many_files_are_forced_to_disk_at_once(world: SmallWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(disk, "FEW", 0)
    monkeypatch.setattr(disk, "_sync_file_system", calls.append)
    world.run()
    assert len(calls) > TICKS
    assert {query: together(files) for query, files in world.found().items()} == expected()


def test_nothing_but_one_module_forces_files_to_disk() -> None:
    package = Path(disk.__file__).parents[1]
    found = {path for path in package.rglob("*.py") if "fsync" in path.read_text() or "syncfs" in path.read_text()}
    assert found == {Path(disk.__file__)}
