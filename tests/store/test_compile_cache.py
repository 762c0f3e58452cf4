"""Compiled loops where nobody may write beside the source: the cache is elsewhere, or there is none.

The superuser may write everywhere, so a file that stands where the folder should be makes a place unusable."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import watersmeet

PROGRAM = """
import os
from watersmeet.store.compile_cache import CACHED
from watersmeet.store.probe_of_cache import twice
assert twice(21) == 42
print(CACHED, os.environ.get("NUMBA_CACHE_DIR"))
"""
FUNCTION = """
from watersmeet.store.compile_cache import CACHED
from numba import njit, types

@njit(types.int64(types.int64), cache=CACHED)
def twice(x):
    return 2 * x
"""


class Installed:
    """A copy of the package that cannot be written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "site" / "watersmeet" / "store"
        source = Path(watersmeet.__file__).parent
        shutil.copytree(source, folder / "site" / "watersmeet", ignore=shutil.ignore_patterns("__pycache__"))
        (self.store / "probe_of_cache.py").write_text(FUNCTION)
        (self.store / "__pycache__").touch()
        for path in (folder / "site").rglob("*"):
            path.chmod(0o555 if path.is_dir() else 0o444)
        self.blocked = folder / "blocked"
        self.blocked.touch()
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(folder / "site"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self.blocked / "home"),
            "TMPDIR": str(self.blocked),
        }

    def run(self, *arguments: str, **more: str) -> str:
        return self.run_fully(*arguments, **more).stdout.strip()

    def run_fully(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, *arguments],
            env={**self.environment, **more},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


def name() -> str:
    return f"watersmeet-numba-{os.geteuid()}"


def used(folder: Path) -> bool:
    return any(path.suffix == ".nbi" for path in folder.rglob("*"))


def test_the_cache_folder_of_the_user(installed: Installed, tmp_path: Path) -> None:
    for number, more in enumerate(({"HOME": str(tmp_path / "me")}, {"XDG_CACHE_HOME": str(tmp_path / "xdg")})):
        wanted = (tmp_path / "me" / ".cache", tmp_path / "xdg")[number] / name()
        assert installed.run("-c", PROGRAM, **more) == f"True {wanted}"
        assert used(wanted) and wanted.stat().st_mode & 0o777 == 0o700


def test_a_private_folder_for_temporary_files(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    wanted = tmp_path / "tmp" / name()
    assert installed.run("-c", PROGRAM, TMPDIR=str(tmp_path / "tmp")) == f"True {wanted}"
    assert used(wanted)


def test_a_folder_that_others_can_write_is_not_used(installed: Installed, tmp_path: Path) -> None:
    planted = tmp_path / "xdg" / name()
    planted.mkdir(parents=True)
    planted.chmod(0o777)
    linked, target = tmp_path / "me" / ".cache" / name(), tmp_path / "target"
    linked.parent.mkdir(parents=True)
    target.mkdir()
    linked.symlink_to(target)
    (tmp_path / "tmp").mkdir()
    said = installed.run(
        "-c", PROGRAM, XDG_CACHE_HOME=str(tmp_path / "xdg"), HOME=str(tmp_path / "me"), TMPDIR=str(tmp_path / "tmp")
    )
    assert said == f"True {tmp_path / 'tmp' / name()}"
    assert not list(planted.iterdir()) and not list(target.iterdir())


def test_the_choice_of_the_user(installed: Installed, tmp_path: Path) -> None:
    assert installed.run("-c", PROGRAM, NUMBA_CACHE_DIR=str(tmp_path / "mine")) == f"True {tmp_path / 'mine'}"
    assert used(tmp_path / "mine")


def test_without_any_place_nothing_is_cached(installed: Installed) -> None:
    nowhere = f"import tempfile; tempfile.tempdir = {str(installed.blocked)!r}"
    assert installed.run("-c", nowhere + PROGRAM) == "False None"


def test_whoever_waits_for_the_compiler_is_told(installed: Installed, tmp_path: Path) -> None:
    first, second = (installed.run_fully("-c", PROGRAM, NUMBA_CACHE_DIR=str(tmp_path / "mine")) for _ in range(2))
    assert first.stderr.count("compiling its loops, once") == 1
    assert second.stderr == ""
    uncached = installed.run_fully("-c", f"import tempfile; tempfile.tempdir = {str(installed.blocked)!r}" + PROGRAM)
    assert "compiling its loops, at every start" in uncached.stderr


def test_a_user_without_a_home_folder(installed: Installed, tmp_path: Path) -> None:
    del installed.environment["HOME"]
    assert installed.run("-c", PROGRAM, XDG_CACHE_HOME=str(tmp_path / "xdg")) == f"True {tmp_path / 'xdg' / name()}"


def test_all_compiled_loops_use_what_was_chosen() -> None:
    compiled = [path for path in Path(watersmeet.__file__).parent.rglob("*.py") if "import njit" in path.read_text()]
    assert len(compiled) == 9
    for path in compiled:
        text = path.read_text()
        assert "cache=True" not in text and "cache=CACHED" in text
        assert text.index("import CACHED") < text.index("import njit"), "Numba reads its settings when it is imported"
