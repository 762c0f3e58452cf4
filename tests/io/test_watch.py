"""Folders whose changes the operating system reports: the same files are found as by listing, and nothing is listed."""

from __future__ import annotations

import math
import os
import select
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.waiting import PATIENCE, eventually
from watersmeet.home.counters import Reason
from watersmeet.io import folders, watch
from watersmeet.io.folders import Folder
from watersmeet.io.taken_files import TakenFiles
from watersmeet.io.watch import FolderWatch
from watersmeet.model import Column, Source, Stream

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports changes")


@pytest.fixture
def watching() -> Iterator[FolderWatch]:
    made = FolderWatch()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def no_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is found is found by a report."""
    monkeypatch.setattr(folders, "_ROUND", 0)


def folder_of(path: Path, watching: FolderWatch) -> Folder:
    stream = Stream("x", (Column("ts", "timestamp"),), "ts", source=Source("parquet", str(path), ()))
    return Folder(stream, TakenFiles(), 0.1, watching)


def names(folder: Folder) -> list[str]:
    folder.look()
    return sorted(folder.take())


def test_what_is_new_is_found_without_listing(tmp_path: Path, watching: FolderWatch, listed: list[str]) -> None:
    for number in range(100):
        (tmp_path / f"{number}").touch()
    folder = folder_of(tmp_path, watching)
    assert len(names(folder)) == 100 and folder.is_watched
    listed.clear()
    (tmp_path / "written").write_bytes(b"x")
    (tmp_path / "_draft").write_bytes(b"x")
    (tmp_path / "_draft").rename(tmp_path / "renamed")
    (tmp_path / "_hidden").touch()
    (tmp_path / "linked").symlink_to(tmp_path / "written")
    os.link(tmp_path / "written", tmp_path / "linked hard")
    os.mkfifo(tmp_path / "pipe")
    assert names(folder) == ["linked", "linked hard", "renamed", "written"]
    assert (names(folder), listed) == ([], [])


def test_a_file_is_found_when_it_is_closed(
    tmp_path: Path, watching: FolderWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_OPEN", math.inf)
    folder = folder_of(tmp_path, watching)
    assert names(folder) == []
    with (tmp_path / "a").open("wb") as file:
        file.write(b"half")
        file.flush()
        assert names(folder) == []
        file.write(b"more")
    assert names(folder) == ["a"]
    monkeypatch.setattr(watch, "_OPEN", 0.1)
    with (tmp_path / "b").open("wb"):  # by somebody who takes long, or has died
        assert eventually(lambda: names(folder)) == ["b"]


def test_folders_come_and_go(tmp_path: Path, watching: FolderWatch) -> None:
    root = tmp_path / "in/x"
    root.mkdir(parents=True)
    folder = folder_of(root, watching)
    assert names(folder) == []
    (root / "new/deep").mkdir(parents=True)
    (root / "new/deep/a").touch()
    (root / "new/b").touch()
    assert names(folder) == ["new/b", "new/deep/a"]
    (root / "new/deep/c").touch()
    assert names(folder) == ["new/deep/c"]
    (root / "new").rename(tmp_path / "away")
    assert names(folder) == []
    (tmp_path / "away/d").touch()
    (tmp_path / "away").rename(root / "new")
    assert names(folder) == ["new/d"]
    shutil.rmtree(root / "new")
    (root / "new").mkdir()
    (root / "new/e").touch()
    assert names(folder) == ["new/e"] and folder.is_watched
    (tmp_path / "in").rename(tmp_path / "old")  # of which the folder itself hears nothing
    root.mkdir(parents=True)
    (root / "f").touch()
    assert names(folder) == ["f"]
    (tmp_path / "old/x/g").touch()
    (root / "h").touch()
    assert names(folder) == ["h"] and folder.is_watched
    shutil.rmtree(tmp_path / "in")
    assert names(folder) == []
    root.mkdir(parents=True)
    (root / "i").touch()
    assert names(folder) == ["i"] and folder.is_watched


def test_a_file_that_is_replaced_or_written_again_is_noted(tmp_path: Path, watching: FolderWatch) -> None:
    folder = folder_of(tmp_path, watching)
    for name in "abc":
        (tmp_path / name).touch()
    assert names(folder) == ["a", "b", "c"]
    (tmp_path / "_new").write_bytes(b"new")
    (tmp_path / "_new").rename(tmp_path / "a")
    (tmp_path / "b").write_bytes(b"other")
    noted: Counter[tuple[str, Reason]] = Counter()

    def look() -> bool:
        assert names(folder) == []
        noted.update((note.name, note.reason) for note in folder.take_notes())
        return len(noted) >= 2

    eventually(look)
    assert noted == {("a", Reason.REWRITTEN_FILE): 1, ("b", Reason.REWRITTEN_FILE): 1}


def test_two_streams_may_read_one_folder(tmp_path: Path, watching: FolderWatch, listed: list[str]) -> None:
    first, second = folder_of(tmp_path, watching), folder_of(tmp_path, watching)
    assert names(first) == names(second) == []
    listed.clear()
    (tmp_path / "a").touch()
    assert names(first) == names(second) == ["a"]
    assert listed == []


def test_reports_that_are_lost_are_made_up_for(
    tmp_path: Path, watching: FolderWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(tmp_path, watching)
    assert names(folder) == []
    (tmp_path / "a").touch()
    list(watching._heard())  # as if the queue had been full
    monkeypatch.setattr(watching, "_heard", lambda: iter([(-1, watch._OVERFLOW, "")]))
    assert names(folder) == ["a"]
    monkeypatch.undo()
    (tmp_path / "b").touch()
    assert names(folder) == ["b"]


@pytest.mark.parametrize("reason", ["shared", "too many"])
def test_folders_that_cannot_be_watched_are_found_by_their_dates(
    tmp_path: Path, watching: FolderWatch, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    (tmp_path / "below").mkdir()
    if reason == "shared":
        monkeypatch.setattr(watch, "_kind_of", lambda device: "nfs4")
    else:
        real = watching.follow
        monkeypatch.setattr(watching, "follow", lambda path, found: None if "below" in path else real(path, found))
    folder = folder_of(tmp_path, watching)
    assert names(folder) == []
    assert not folder.is_watched
    for name in ("a", "below/b"):
        (tmp_path / name).touch()
        assert names(folder) == [name]


def test_a_change_rings(tmp_path: Path, watching: FolderWatch) -> None:
    folder = folder_of(tmp_path, watching)
    assert names(folder) == []
    assert not select.select(watching.bells, [], [], 0)[0]
    (tmp_path / "a").touch()
    assert select.select(watching.bells, [], [], PATIENCE)[0]
    assert names(folder) == ["a"]
    assert not select.select(watching.bells, [], [], 0)[0]


NAMES = [f"{folder}{name}" for folder in ("", "p/", "p/q/") for name in "abc"]
ACTIONS = st.one_of(
    st.tuples(st.sampled_from(["write", "rename", "delete"]), st.sampled_from(NAMES)),
    st.tuples(st.sampled_from(["away", "back", "remove"]), st.sampled_from(["p", "p/q"])),
    st.just(("look", "")),
)


@given(actions=st.lists(ACTIONS, max_size=30))
@settings(max_examples=examples(60))
def test_every_file_is_taken_once_whatever_happens_to_its_folder(actions: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as made:
        root, outside, watching = Path(made) / "in", Path(made) / "outside", FolderWatch()
        root.mkdir()
        outside.mkdir()
        folder = folder_of(root, watching)
        taken: Counter[str] = Counter()
        for kind, name in [*actions, ("look", "")]:
            path, elsewhere = root / name, outside / name.replace("/", "-")
            if kind == "look":
                taken.update(names(folder))
            elif kind in ("write", "rename") and not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                draft = path if kind == "write" else outside / "_draft"
                draft.write_bytes(b"x")
                draft.rename(path)
            elif kind == "delete":
                path.unlink(missing_ok=True)
            elif kind == "away" and path.is_dir() and not elsewhere.exists():
                path.rename(elsewhere)
            elif kind == "back" and elsewhere.exists() and path.parent.is_dir() and not path.exists():
                elsewhere.rename(path)
            elif kind == "remove":
                shutil.rmtree(path, ignore_errors=True)
        there = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
        watching.close()
    assert there <= taken.keys()
    assert set(taken.values()) <= {1}
