"""A home is rejected if a part is lost that its manifest depends on. It may be moved, and its results deleted."""

from __future__ import annotations

import json
import logging
import shutil
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.inside import loop_of
from tests.support.two_streams import write
from watersmeet import Engine, Sink
from watersmeet.errors import StateError
from watersmeet.home import layout
from watersmeet.home.manifest import commit, load_newest
from watersmeet.home.sealed import read_sealed

STREAM = "CREATE STREAM {0} (ts TIMESTAMP, id BIGINT, k BIGINT) TIMESTAMP BY ts FROM parquet '{1}';"
JOIN = "SELECT a.id AS a, b.id AS b FROM l [UNBOUNDED] a, r [UNBOUNDED] b WHERE a.k = b.k"


class World:
    """A home with a query in it and one whose results go elsewhere; each tick has a row of l and one of r."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home, self.out = folder, folder / "home", folder / "out"
        self.rows = 0

    def engine(self) -> Engine:
        engine = Engine(home=self.home, executor="local", adaptive="off")
        for name in "lr":
            (self.folder / name).mkdir(exist_ok=True)
            engine.sql(STREAM.format(name, self.folder / name))
        engine.query("inside", JOIN)
        engine.query("outside", JOIN, Sink("parquet", str(self.out)))
        return engine

    def tick(self, change: Callable[[Engine], object] = lambda engine: None) -> None:
        for name in "lr":
            write(self.folder / name, [(self.rows, self.rows, 7)])
        self.rows += 1
        self.start(change)

    def start(self, change: Callable[[Engine], object] = lambda engine: None) -> None:
        with self.engine() as engine:
            engine.run_once()
            change(engine)
            engine.run_once()

    def rejected(self, *said: str) -> StateError:
        before = {path: path.read_bytes() for path in self.home.rglob("*") if path.is_file()}
        with pytest.raises(StateError) as caught:
            self.start()
        for text in said:
            assert text in str(caught.value)
        assert "another --home" in caught.value.hint
        lock = self.home / "lock"
        after = {path: path.read_bytes() for path in self.home.rglob("*") if path.is_file()}
        assert {**after, lock: b""} == {**before, lock: b""}, "the rejection changed something"
        return caught.value

    def check(self) -> None:
        wanted = Counter((a, b) for a in range(self.rows) for b in range(self.rows))
        for folder in (self.home / "results" / "inside", self.out):
            found = [row for path in folder.glob("*.parquet") for row in pq.read_table(path).to_pylist()]
            assert Counter((row["a"], row["b"]) for row in found) == wanted


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    for _ in range(3):
        made.tick()
    return made


def newest(world: World) -> Path:
    return layout.manifest(world.home, load_newest(world.home).tick)


# Results belong to their readers -----------------------------------------------------------------


def test_a_reader_may_delete_what_it_has_read(world: World, caplog: pytest.LogCaptureFixture) -> None:
    names = {Path(file.final) for file in load_newest(world.home).results}
    assert len(names) == 2
    for folder in (world.home / "results" / "inside", world.out):
        for path in folder.glob("0*.parquet"):
            path.unlink()
    with caplog.at_level(logging.WARNING, "watersmeet"):
        world.tick()
    assert {path for path in names if str(path) in caplog.text} == names
    assert len(list(world.out.glob("0*.parquet"))) == 1  # of the new tick


def test_a_folder_of_into_that_is_lost_does_not_reject_the_start(world: World) -> None:
    shutil.rmtree(world.out)
    world.tick()
    assert len(list(world.out.glob("0*.parquet"))) == 1


def test_the_staging_folder_of_a_user_survives(world: World) -> None:
    for folder in (world.out, world.home / "results" / "inside"):
        staging = folder / layout.STAGING
        (staging / "deep").mkdir(parents=True, exist_ok=True)
        (staging / "deep" / "mine.txt").write_text("mine")
        (staging / "plan.parquet").write_text("mine")
        (staging / f"{9:012d}-0123456789abcdef-l0.parquet.staged").write_text("of another home")
        dead = staging / f"{4:012d}-{load_newest(world.home).tag}01234567-l0.parquet.staged"
        dead.write_text("of a tick that was not committed")
        world.tick()
        assert not dead.exists()
        assert (staging / "deep" / "mine.txt").read_text() == (staging / "plan.parquet").read_text() == "mine"
    assert (world.out / layout.STAGING / f"{9:012d}-0123456789abcdef-l0.parquet.staged").exists()


# A home may be moved -----------------------------------------------------------------------------


def unpublish(world: World) -> None:
    """As if the engine had been killed before the last tick was published."""
    for file in load_newest(world.home).results:
        Path(file.staged).parent.mkdir(exist_ok=True)
        Path(file.final).rename(file.staged)


def as_earlier_version(world: World) -> None:
    """Write the newest manifest as the version before did: absolute names, and nothing about the log."""
    path = newest(world)
    raw = json.loads(path.read_text().partition("\n")[2])
    del raw["changes"], raw["tag"]
    for result in raw["results"]:
        result["staged"] = str(world.home / result["staged"])
        result["final"] = str(world.home / result["final"])
    body = json.dumps(raw)
    path.write_text(json.dumps({"format": 1, "checksum": zlib.crc32(body.encode())}) + "\n" + body)


@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize("published", [False, True])
def test_a_home_may_be_moved(world: World, earlier: bool, published: bool) -> None:
    if not published:
        unpublish(world)
    if earlier:
        as_earlier_version(world)
    moved = world.folder / "elsewhere" / "new"
    moved.parent.mkdir()
    world.home = world.home.rename(moved)
    world.start()
    world.check()
    world.tick()
    world.check()
    assert not (world.folder / "home").exists()


def test_a_copy_of_a_home_leaves_the_original_alone(world: World) -> None:
    unpublish(world)
    as_earlier_version(world)
    (world.out / layout.OWNER).unlink()  # which earlier versions did not write
    original, world.home = world.home, world.folder / "copy"
    shutil.copytree(original, world.home)
    before = sorted(original.rglob("*"))
    world.start()
    world.check()
    assert sorted(original.rglob("*")) == before


def test_names_in_a_manifest_are_relative_to_the_home(world: World) -> None:
    results = json.loads(newest(world).read_text().partition("\n")[2])["results"]
    finals = {result["query"]: result["final"] for result in results}
    assert finals["inside"].startswith("results/inside/") and finals["outside"].startswith(str(world.out))


# Parts of different times ------------------------------------------------------------------------


def test_an_older_manifest_is_rejected(world: World) -> None:
    newest(world).unlink()
    world.rejected("later tick was committed", "restore the home folder as a whole")


def test_an_older_manifest_is_rejected_by_its_results(world: World) -> None:
    newest(world).unlink()
    (world.home / layout.TICKS).unlink()
    world.rejected("later tick was committed", str(world.home / "results" / "inside"))


def test_an_older_home_is_rejected_by_results_outside_of_it(world: World) -> None:
    backup = world.folder / "backup"
    shutil.copytree(world.home, backup)
    tick = load_newest(world.home).tick
    world.tick()
    shutil.rmtree(world.home)
    backup.rename(world.home)
    problem = world.rejected("later tick was committed", str(world.out))
    assert "move away the result files of later ticks" in problem.hint
    for path in world.out.glob("*.parquet"):
        if (layout.tick_of(path.name) or 0) > tick:
            path.unlink()
    world.start()  # and all rows since are read again
    world.check()


def test_results_of_another_home_in_the_folder_do_not_matter(world: World) -> None:
    for path in list(world.out.glob("0*.parquet")):
        shutil.copy(path, world.out / f"{99:012d}-0123456789abcdef-{path.stem[-2:]}.parquet")
    world.start()


@pytest.mark.parametrize("lost", ["all", "the end", "a letter"])
def test_a_log_of_changes_that_is_lost_is_rejected(world: World, lost: str) -> None:
    world.tick(lambda engine: engine.query("added", JOIN))
    world.tick(lambda engine: engine.drop("inside"))
    log = world.home / layout.CHANGES
    whole = log.read_bytes()
    if lost == "all":
        log.unlink()
    else:
        log.write_bytes(whole.splitlines(keepends=True)[0] if lost == "the end" else whole.replace(b"added", b"adder"))
    problem = world.rejected(str(log), "does not fit the state")
    assert "restore it" in problem.hint
    log.write_bytes(whole)
    with world.engine() as engine:
        engine.run_once()
        assert {query.name for query in engine.queries} == {"outside", "added"}


def test_a_change_after_the_last_commit_is_no_damage(world: World) -> None:
    with world.engine() as engine:
        engine.run_once()
        engine.start()
        loop_of(engine).finish()  # no tick comes any more
        engine.query("added", JOIN)
    world.start()
    with world.engine() as engine:
        engine.run_once()
        assert "added" in {query.name for query in engine.queries}


@pytest.mark.parametrize("kept", [slice(1, None), slice(0, 1), slice(2, None)])
def test_lines_of_the_positions_that_are_lost_are_rejected(world: World, kept: slice) -> None:
    path = layout.positions(world.home, "0")
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 3
    path.write_bytes(b"".join(lines[kept]))
    world.rejected(str(path))


def test_a_middle_line_of_the_positions_that_is_lost_is_rejected(world: World) -> None:
    path = layout.positions(world.home, "0")
    first, _, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + last)
    world.rejected(str(path), "lines before it are missing")


def without_seals(home: Path) -> None:
    """As the version before checksums has left a home."""
    manifest = load_newest(home)
    layout.manifest(home, manifest.tick).unlink()
    commit(home, replace(manifest, parts={}))
    for name in manifest.parts:
        path = home / name
        path.write_bytes(path.read_bytes().partition(b"\n")[2])


@pytest.mark.parametrize("name", [layout.GROUPS, layout.SLICES])
def test_files_of_an_earlier_version_are_sealed(world: World, name: str) -> None:
    windows = "SELECT k, count(*) AS n FROM l GROUP BY k WINDOW TUMBLE 1 SECOND"
    world.tick(lambda engine: engine.query("windowed", windows))
    world.tick()
    without_seals(world.home)
    before = read_sealed(world.home / name)
    world.tick()
    assert load_newest(world.home).parts.keys() == {layout.GROUPS, layout.SLICES}
    assert read_sealed(world.home / name) == before
    world.check()
    (world.home / name).unlink()
    world.rejected(f"{name} does not fit the state", "it is missing")


def test_a_file_of_an_earlier_version_that_is_damaged(world: World) -> None:
    world.tick()
    without_seals(world.home)
    (world.home / layout.GROUPS).write_text("{")
    world.rejected("groups.json is damaged")
