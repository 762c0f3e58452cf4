"""The lock of a home, with real processes: also where somebody deletes the lock file under a running engine."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from tests.support.processes import python_process
from tests.support.two_streams import create, write
from tests.support.waiting import PATIENCE, eventually
from watersmeet import Engine
from watersmeet.errors import StateError
from watersmeet.home import layout, lock
from watersmeet.home.lock import home_lock, is_running
from watersmeet.home.tick_log import recent_ticks

JOIN = "SELECT l.id AS a, r.id AS b FROM l [UNBOUNDED], r [UNBOUNDED] WHERE l.k = r.k"
# An engine that runs until the file `stop` is there; what it fails with is in the file `failed`.
PROGRAM = """
import sys
from pathlib import Path
from tests.home.test_lock import made
from watersmeet.errors import WatersmeetError
from watersmeet.home import lock
folder = Path(sys.argv[1])
if sys.argv[2] == "file only":
    lock._lock_folder = lambda handle: False
engine = made(folder).start()
(folder / "ready").touch()
try:
    while not (folder / "stop").exists():
        engine.wait(0.05)
    engine.stop()
except WatersmeetError as problem:
    (folder / "failed.draft").write_text(str(problem))
    (folder / "failed.draft").rename(folder / "failed")
"""


def made(folder: Path) -> Engine:
    engine = Engine(home=folder / "home", executor="local", adaptive="off")
    engine.sql("".join(create(name, folder / name) for name in "lr"))
    engine.query("q", JOIN)
    return engine


@contextlib.contextmanager
def another_process(folder: Path, kind: str) -> Iterator[subprocess.Popen[bytes]]:
    with python_process(PROGRAM, folder, kind) as process:
        # The line in the log of ticks is the last that a tick writes.
        eventually(lambda: (folder / "ready").exists() and [tick.tick for tick in recent_ticks(folder / "home")] == [1])
        yield process


def feed(folder: Path, row: int) -> None:
    for name in "lr":
        write(folder / name, [(1, row, 7)])


def results(folder: Path) -> list[tuple[object, ...]]:
    return sorted(duckdb.execute(f"FROM '{folder}/home/results/q/*.parquet'").fetchall())


def files(home: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}


def test_the_lock_file_is_deleted_under_an_idle_engine(tmp_path: Path) -> None:
    feed(tmp_path, 1)
    home = tmp_path / "home"
    with another_process(tmp_path, "both") as first:
        (home / layout.LOCK).unlink()
        assert is_running(home)
        before = files(home)
        with pytest.raises(StateError, match="is in use by process"):
            made(tmp_path).start()
        assert files(home) == before, "the second has written nothing"
        feed(tmp_path, 2)
        eventually(lambda: len(results(tmp_path)) == 4)
        assert (home / layout.LOCK).read_text() == str(first.pid), "it is made again before the commit"
        (tmp_path / "stop").touch()
        first.wait(PATIENCE)
        assert not (tmp_path / "failed").exists()
    feed(tmp_path, 3)
    with made(tmp_path) as again:
        again.run_once()
    assert results(tmp_path) == [(a, b) for a in (1, 2, 3) for b in (1, 2, 3)]


def test_where_folders_cannot_be_locked_the_first_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "lock_folder", lambda handle: False)
    feed(tmp_path, 1)
    with another_process(tmp_path, "file only") as first:
        (tmp_path / "home" / layout.LOCK).unlink()
        with made(tmp_path) as second:  # nothing shows that the first is there
            second.start()
            feed(tmp_path, 2)
            eventually(lambda: (tmp_path / "failed").exists() and len(results(tmp_path)) == 4)
            first.wait(PATIENCE)
        said = (tmp_path / "failed").read_text()
        assert "was deleted or replaced while the engine ran" in said
        assert "Nothing of this tick is committed" in said
    feed(tmp_path, 3)
    with made(tmp_path) as again:
        again.run_once()
    assert results(tmp_path) == [(a, b) for a in (1, 2, 3) for b in (1, 2, 3)]


def _deleted(home: Path) -> None:
    (home / layout.LOCK).unlink()


def _replaced(home: Path) -> None:
    (home / layout.LOCK).unlink()
    (home / layout.LOCK).write_text("1")


def test_a_second_engine_of_the_same_process_is_told_so(tmp_path: Path) -> None:
    """As in a notebook whose cells are run again."""
    with home_lock(tmp_path / "home"):
        with pytest.raises(StateError, match="which is this one") as rejected, home_lock(tmp_path / "home"):
            pass
        assert "engine.stop()" in rejected.value.hint


@pytest.mark.parametrize("trouble", [_deleted, _replaced])
def test_a_lock_file_that_is_gone_is_made_again(tmp_path: Path, trouble: Callable[[Path], None]) -> None:
    with home_lock(tmp_path / "home") as held:
        held.check()
        trouble(tmp_path / "home")
        held.check()
        assert (tmp_path / "home" / layout.LOCK).read_text() == str(os.getpid())
        with pytest.raises(StateError, match=f"in use by process {os.getpid()}"), home_lock(tmp_path / "home"):
            pass
    assert not is_running(tmp_path / "home")
    with home_lock(tmp_path / "home"):
        pass


def test_a_home_that_is_moved_or_replaced_is_noticed(tmp_path: Path) -> None:
    with home_lock(tmp_path / "home") as held:
        (tmp_path / "home").rename(tmp_path / "moved")
        with pytest.raises(StateError, match="was moved, deleted or replaced"):
            held.check()
        (tmp_path / "home").mkdir()
        with pytest.raises(StateError, match="was moved, deleted or replaced"):
            held.check()
        assert is_running(tmp_path / "moved")
    assert not list((tmp_path / "home").iterdir())


def test_a_home_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere" / "deep")
    for home in (tmp_path / "file", tmp_path / "file" / "home", tmp_path / "gone", Path("/proc/watersmeet")):
        with pytest.raises(StateError, match="cannot be made or used"), home_lock(home):
            pass


@pytest.mark.parametrize("number", [errno.EROFS, errno.EIO, errno.ENOLCK])
def test_a_home_on_a_disk_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(path: str, flags: int) -> int:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(lock, "private", refuse)
    with pytest.raises(StateError, match=f"cannot be made or used: {os.strerror(number)}") as caught:
        made(tmp_path).start()
    assert str(tmp_path / "home" / layout.LOCK) in caught.value.detail and "another --home" in caught.value.hint


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _link(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize("make", [_pipe, _link, Path.mkdir])
def test_a_lock_that_is_no_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    home = tmp_path / "home"
    home.mkdir()
    make(home / layout.LOCK)
    with pytest.raises(StateError, match="lock is no file") as caught:
        made(tmp_path).start()
    assert "delete it" in caught.value.hint
    assert not is_running(home)
    assert not (home / "nowhere").exists()
