"""A folder that INTO names has the results of one home."""

from __future__ import annotations

import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from tests.support.commands import command
from tests.support.deaths import Died, silent_threads, subscribed
from tests.support.inside import abandon, opened, run_feeds
from tests.support.two_streams import create, write
from tests.support.waiting import PATIENCE
from watersmeet import Engine, Sink
from watersmeet.errors import ModelError
from watersmeet.home import layout
from watersmeet.io import ownership
from watersmeet.io.ownership import Owner, claim

JOIN = "SELECT l.id AS a, r.id AS b FROM l [UNBOUNDED], r [UNBOUNDED] WHERE l.k = r.k"


class World:
    """Two homes may run the same pipeline, which writes into one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        self.rows = 0
        self.feed()

    def feed(self) -> None:
        self.rows += 1
        for name in "lr":
            write(self.folder / name, [(1, self.rows, 7)])

    def engine(self, home: str, into: bool = True) -> Engine:
        engine = Engine(home=self.folder / home, executor="local", adaptive="off")
        engine.sql("".join(create(name, self.folder / name) for name in "lr"))
        if into:
            engine.query("q", JOIN, Sink("parquet", str(self.out)))
        return engine

    def run(self, home: str) -> None:
        with self.engine(home) as engine:
            engine.run_once()

    def check(self) -> None:
        rows = [tuple(row.values()) for path in self.out.glob("0*.parquet") for row in pq.read_table(path).to_pylist()]
        ids = range(1, self.rows + 1)
        assert sorted(rows) == [(a, b) for a in ids for b in ids]

    def rejected(self, home: str, why: str) -> ModelError:
        before = {path: path.read_bytes() for path in self.out.rglob("*") if path.is_file()}
        with pytest.raises(ModelError, match=why) as caught:
            self.run(home)
        assert {path: path.read_bytes() for path in self.out.rglob("*") if path.is_file()} == before
        return caught.value


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.run("one")
    return made


def test_the_folder_of_another_home_is_rejected(world: World) -> None:
    problem = world.rejected("two", f"query q: {world.out} has the results of another home: {world.folder}/one")
    assert f"--home {world.folder}/one" in problem.hint
    world.feed()
    world.run("one")
    world.check()


def test_also_where_the_engine_runs_and_where_it_has_stopped(world: World) -> None:
    with world.engine("two", into=False) as engine:
        engine.start()
        with pytest.raises(ModelError, match="has the results of another home"):
            engine.query("q", JOIN, Sink("parquet", str(world.out)))
        assert engine.queries == ()
    script = f"CREATE QUERY q INTO parquet '{world.out}' AS {JOIN}"
    result = command("add", script, "--home", world.folder / "two")
    assert result.exit_code == 1
    assert "has the results of another home" in result.output
    world.check()


def test_a_home_that_was_moved_keeps_its_folder(world: World) -> None:
    (world.folder / "one").rename(world.folder / "moved")
    world.feed()
    world.run("moved")
    world.feed()
    world.run("moved")
    world.check()
    world.rejected("one", f"has the results of another home: {world.folder}/moved")


def test_a_copy_of_a_home_is_another_home_while_the_first_is_there(world: World) -> None:
    shutil.copytree(world.folder / "one", world.folder / "copy")
    problem = world.rejected("copy", f"the home {world.folder}/one, of which {world.folder}/copy is a copy")
    assert "another folder" in problem.hint
    shutil.rmtree(world.folder / "one")
    world.feed()
    world.run("copy")
    world.check()


def test_a_backup_that_is_restored_keeps_its_folder(world: World) -> None:
    shutil.copytree(world.folder / "one", world.folder / "backup")
    shutil.rmtree(world.folder / "one")
    (world.folder / "backup").rename(world.folder / "one")
    world.feed()
    world.run("one")
    world.check()


def test_a_home_that_was_deleted(world: World) -> None:
    shutil.rmtree(world.folder / "one")
    problem = world.rejected("one", f"another home, {world.folder}/one, which is not there any more")
    assert "or its result files, away" in problem.hint
    for path in world.out.glob("0*"):
        path.unlink()
    world.run("one")  # there is nothing left that could be there twice
    world.check()


def test_the_mark_is_deleted_to_take_over_a_folder(world: World) -> None:
    for path in world.out.glob("0*"):
        path.rename(world.folder / path.name)
    (world.out / layout.OWNER).unlink()
    world.run("two")
    world.check()
    world.rejected("one", f"has the results of another home: {world.folder}/two")


def test_a_folder_that_an_earlier_version_has_not_marked(world: World) -> None:
    (world.out / layout.OWNER).unlink()
    problem = world.rejected("two", "has the results of another home: 0")
    assert "there is no file _home" in problem.detail and "another folder" in problem.hint
    world.feed()
    world.run("one")
    world.check()
    world.rejected("two", f"has the results of another home: {world.folder}/one")


def test_results_of_versions_without_tags_are_nobodys(world: World) -> None:
    (world.out / layout.OWNER).unlink()
    for path in world.out.glob("0*"):
        tick, attempt, rest = path.name.split("-", 2)
        path.rename(path.with_name(f"{tick}-{attempt[8:]}-{rest}"))
    world.feed()
    world.run("one")
    world.check()


def test_a_damaged_mark(world: World) -> None:
    for content in (b"", b"{", b"[]", b"\xff\x00", b'{"tag": "x"}'):
        (world.out / layout.OWNER).write_bytes(content)
        problem = world.rejected("one", "_home is damaged")
        assert "delete the file" in problem.hint
    (world.out / layout.OWNER).unlink()
    world.feed()
    world.run("one")
    world.check()


def test_a_home_that_died_before_its_first_tick_keeps_its_folder(tmp_path: Path) -> None:
    world = World(tmp_path)
    died = threading.Event()

    def reached(point: str, about: object) -> None:
        if point == "positions.before":
            died.set()
            raise Died(point)

    engine = world.engine("one")
    with subscribed(reached), silent_threads():
        opened(engine)
        run_feeds(engine)
    assert died.is_set()
    abandon(engine)
    assert (world.out / layout.OWNER).exists()
    world.run("one")
    world.check()


def test_a_link_to_the_home_and_results_inside_of_it(world: World) -> None:
    (world.folder / "link").symlink_to(world.folder / "one")
    world.feed()
    world.run("link")
    world.check()
    with Engine(home=world.folder / "three", executor="local") as engine:
        engine.sql("".join(create(name, world.folder / name) for name in "lr"))
        engine.query("q", JOIN, Sink("parquet", str(world.folder / "three" / "results" / "mine")))
        engine.run_once()
    assert not (world.folder / "three" / "results" / "mine" / layout.OWNER).exists()


def made_home(folder: Path, tag: str) -> Owner:
    (folder / tag / "manifests").mkdir(parents=True)
    (folder / tag / "lock").touch()
    return Owner(tag, folder / tag)


@pytest.mark.parametrize("is_stale", [False, True])
def test_of_two_homes_at_once_one_gets_the_folder(tmp_path: Path, is_stale: bool) -> None:
    """Also where a home was deleted that has left its mark, and nothing else."""
    sink = Sink("parquet", str(tmp_path))
    ready = threading.Barrier(2)
    if is_stale:
        claim("q", tmp_path, sink, Owner("cccccccc", tmp_path / "gone"))

    def claimed(tag: str) -> str:
        owner = made_home(tmp_path, tag)
        ready.wait(PATIENCE)
        try:
            claim("q", tmp_path, sink, owner)
        except ModelError:
            return ""
        return tag

    with ThreadPoolExecutor(2) as pool:
        winners = [tag for tag in pool.map(claimed, ("aaaaaaaa", "bbbbbbbb")) if tag]
    assert len(winners) == 1
    claim("q", tmp_path, sink, Owner(winners[0], tmp_path / winners[0]))
    assert not list(tmp_path.glob("*.draft"))


def test_another_home_finds_the_same_stale_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, other = Sink("parquet", str(tmp_path)), made_home(tmp_path, "bbbbbbbb")
    claim("q", tmp_path, sink, Owner("cccccccc", tmp_path / "gone"))

    def draft(folder: Path, unique: str) -> Path:
        """The first home has found the mark, and not replaced it yet."""
        with pytest.raises(ModelError, match="another process has locked"):
            claim("q", tmp_path, sink, other)
        return layout.owner_draft(folder, unique)

    with monkeypatch.context() as patched:
        patched.setattr(ownership, "layout", SimpleNamespace(**{**vars(layout), "owner_draft": draft}))
        claim("q", tmp_path, sink, made_home(tmp_path, "aaaaaaaa"))
    with pytest.raises(ModelError, match="has the results of another home"):
        claim("q", tmp_path, sink, other)


def test_where_folders_cannot_be_locked_the_mark_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, other = Sink("parquet", str(tmp_path)), made_home(tmp_path, "bbbbbbbb")
    claim("q", tmp_path, sink, Owner("cccccccc", tmp_path / "gone"))

    def replaced(folders: list[Path]) -> None:
        (tmp_path / layout.OWNER).write_text(json.dumps({"tag": other.tag, "home": other.place}))

    monkeypatch.setattr(ownership, "lock_folder", lambda handle: False)
    monkeypatch.setattr(ownership, "sync_entries", replaced)
    with pytest.raises(ModelError, match="has the results of another home"):
        claim("q", tmp_path, sink, made_home(tmp_path, "aaaaaaaa"))
    assert not list(tmp_path.glob("*.draft"))
