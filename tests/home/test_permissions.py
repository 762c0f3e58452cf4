"""A home is for the user of its engine, whatever the umask; folders of INTO get what the umask says."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.two_streams import JOIN, create_both, write
from watersmeet import Engine, Sink
from watersmeet.home.lock import home_lock


@pytest.fixture
def lax_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def run(folder: Path) -> None:
    for name in "lr":
        write(folder / name, [(1, 0, 7), (99, 1, 7)])  # and one row that comes late
        write(folder / name, [(2, 2, 7)])
    engine = Engine(home=folder / "home", executor="local")
    engine.sql(create_both(folder, "WITH (maxFilesPerTrigger = 1)"))
    engine.query("q", JOIN)
    engine.query("counted", JOIN, Sink("count"))
    engine.query("outside", JOIN, Sink("parquet", str(folder / "out")))
    with engine:
        engine.run_once()
        engine.query("later", JOIN, Sink("json"), backfill=True)
        engine.run_once()


def test_a_home_is_private_whatever_the_umask(tmp_path: Path, lax_umask: None) -> None:
    run(tmp_path)
    found = {path: mode(path) for path in [tmp_path / "home", *(tmp_path / "home").rglob("*")]}
    assert {path for path, bits in found.items() if bits != (0o700 if path.is_dir() else 0o600)} == set()
    kinds = {path.relative_to(tmp_path / "home").parts[0] for path in found if path != tmp_path / "home"}
    assert {"state", "results", "counts", "rejected", "manifests", "changes.jsonl", "lock", "control"} <= kinds


def test_a_folder_of_into_has_the_permissions_of_the_umask(tmp_path: Path, lax_umask: None) -> None:
    run(tmp_path)
    out = tmp_path / "out"
    assert mode(out) == 0o777
    assert {mode(path) for path in out.iterdir() if path.is_file()} == {0o666}


def test_a_home_of_an_earlier_version_is_closed_when_it_is_used(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o755)
    (home / "lock").touch(0o644)
    (home / "lock").chmod(0o644)
    with home_lock(home):
        assert mode(home) == 0o700
        assert mode(home / "lock") == 0o600  # with permission to read it another user could hold it
