"""Which folders are forced to disk with a file: those that are new, as far as they are ours."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from watersmeet.home import disk


class Calls:
    """What is forced to disk, and what fails."""

    def __init__(self) -> None:
        self.synced: list[str] = []
        self.failing: dict[str, int] = {}

    def __call__(self, handle: int) -> None:
        path = os.readlink(f"/proc/self/fd/{handle}")
        self.synced.append(path)
        if path in self.failing:
            raise OSError(self.failing[path], os.strerror(self.failing[path]))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls = Calls()
    monkeypatch.setattr(os, "fsync", calls)
    monkeypatch.setattr(disk, "_durable", {})
    return calls


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "above" / "folder" / "file"
    path.parent.mkdir(parents=True)
    path.touch()
    return path


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.EROFS, errno.EACCES, errno.EPERM])
def test_a_folder_above_that_cannot_be_forced_to_disk(calls: Calls, file: Path, number: int) -> None:
    calls.failing[str(file.parents[1])] = number
    disk.sync_written([file])
    assert str(file.parents[1]) in calls.synced
    calls.failing = {str(file.parent): number}
    with pytest.raises(OSError, match=f"{file.parent}"):
        disk.sync_written([file])


def test_a_folder_above_that_loses_what_was_written(calls: Calls, file: Path) -> None:
    calls.failing[str(file.parents[1])] = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        disk.sync_written([file])


def test_nothing_is_forced_above_where_something_is_mounted(
    calls: Calls, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def identity(folder: str) -> tuple[int, int]:
        return int(Path(folder).is_relative_to(file.parents[1])), os.stat(folder).st_ino

    monkeypatch.setattr(disk, "_identity", identity)
    disk.sync_written([file])
    assert calls.synced == [str(file), str(file.parent), str(file.parents[1])]


@pytest.mark.parametrize("by_us", [True, False])
def test_a_folder_that_is_made_again_with_the_same_number(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_us: bool
) -> None:
    """File systems give the number of a deleted folder to the next one; here all have the same."""
    monkeypatch.setattr(disk, "_identity", lambda folder: (1, 1))
    out = tmp_path / "out"
    staged = out / "_staging" / "file"
    for _ in range(2):
        disk.make_folder(staged.parent)
        staged.touch()
        disk.sync_written([staged])
        assert str(tmp_path) in calls.synced, "it names the folder"
        calls.synced.clear()
        disk.sync_written([staged])
        assert calls.synced == [str(staged), str(staged.parent)]
        shutil.rmtree(out)
        if not by_us:
            out.mkdir()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    for path in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "link"):
        with pytest.raises((FileExistsError, NotADirectoryError)):
            disk.make_folder(path)
