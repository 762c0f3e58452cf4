"""A newest state that is damaged: the start goes back one tick where nobody has seen a result of it, or says what to
do. Results that are cut short are never taken for whole ones."""

from __future__ import annotations

import logging
import os
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.deaths import Died, dying_at
from tests.support.two_streams import create_both, write
from watersmeet import Engine, Sink
from watersmeet.errors import StateError
from watersmeet.home import layout
from watersmeet.home.files import advice_in
from watersmeet.home.manifest import Manifest, load_newest

JOIN = "SELECT a.id AS a, b.id AS b FROM l [UNBOUNDED] a, r [UNBOUNDED] b WHERE a.k = b.k"
INSIDE, OUTSIDE = "inside", "outside"
Pairs = Counter[tuple[int, int]]


class World:
    """Each tick has a row of both streams, with keys that match all others or nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home, self.out = folder, folder / "home", folder / "out"
        self.rows: list[int] = []
        for name in "lr":
            (folder / name).mkdir()

    def start(self) -> None:
        with Engine(home=self.home, executor="local", adaptive="off", tick="1 millisecond") as engine:
            engine.sql(create_both(self.folder))
            engine.query(INSIDE, JOIN)
            engine.query(OUTSIDE, JOIN, Sink("parquet", str(self.out)))
            engine.run_once()

    def tick(self, with_results: bool = True) -> Manifest:
        number = len(self.rows)
        self.rows.append(7 if with_results else 100 + number)
        write(self.folder / "l", [(number, number, self.rows[-1])])
        write(self.folder / "r", [(number, number, 7 if with_results else 200 + number)])
        self.start()
        return load_newest(self.home)

    def begin_another_tick(self) -> None:
        """As if the power had been cut in the next tick: only its positions are there."""
        positions = layout.positions(self.home, "0")
        before = {path: path.read_bytes() for path in self.home.rglob("*") if path.is_file()}
        self.tick(with_results=False)
        begun = positions.read_bytes()
        for path in [path for path in self.home.rglob("*") if path.is_file() and path not in before]:
            path.unlink()
        for path, content in {**before, positions: begun}.items():
            path.write_bytes(content)

    def wanted(self) -> Pairs:
        matching = [number for number, key in enumerate(self.rows) if key == 7]
        return Counter((a, b) for a in matching for b in matching)

    def found(self, seen: dict[str, Pairs] | None = None) -> list[Pairs]:
        """By folder what a reader has who has `seen` some files before."""
        found = []
        for folder in (self.home / "results" / INSIDE, self.out):
            files = {str(path): pairs(path) for path in folder.glob("0*.parquet")}
            files |= {path: rows for path, rows in (seen or {}).items() if Path(path).parent == folder}
            found.append(sum(files.values(), Counter()))
        return found

    def check(self, without: Pairs | None = None) -> None:
        wanted = self.wanted()
        inside, outside = self.found()
        assert inside == wanted - (without or Counter())
        assert outside == wanted

    def newest_buckets(self) -> list[Path]:
        manifest = load_newest(self.home)
        return [self.home / info.file for info in manifest.buckets if info.last_tick == manifest.tick]

    def rejected(self, *said: str) -> StateError:
        before = {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file() and path.name != "lock"}
        with pytest.raises(StateError) as caught:
            self.start()
        after = {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file() and path.name != "lock"}
        assert before == after, "the rejected start changed something"
        for text in said:
            assert text in str(caught.value)
        return caught.value


def pairs(path: Path | str) -> Pairs:
    return Counter((row["a"], row["b"]) for row in pq.read_table(path).to_pylist())


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    for _ in range(3):
        world.tick()
    return world


def test_an_empty_bucket_of_a_tick_without_results(world: World, caplog: pytest.LogCaptureFixture) -> None:
    tick = world.tick(with_results=False).tick
    os.truncate(world.newest_buckets()[0], 0)
    with caplog.at_level(logging.WARNING, "watersmeet"):
        world.start()
    assert f"nobody has seen a result of tick {tick}" in caplog.text
    assert load_newest(world.home).tick == tick, "it is repeated"
    world.tick()
    world.check()


@pytest.mark.parametrize("size", [0, 40])
def test_a_torn_manifest_of_a_tick_without_results(world: World, size: int) -> None:
    tick = world.tick(with_results=False).tick
    os.truncate(layout.manifest(world.home, tick), size)
    world.start()
    world.tick()
    world.check()


def test_an_unreadable_manifest_whose_line_in_the_log_is_lost(world: World) -> None:
    """A reader has taken its results away, and nothing else says that there were any."""
    manifest = world.tick()
    seen = {file.final: pairs(file.final) for file in manifest.results}
    for path in seen:
        os.unlink(path)
    (world.home / layout.TICKS).write_bytes(b"")
    os.truncate(layout.manifest(world.home, manifest.tick), 10)
    world.rejected(f"results of tick {manifest.tick} that are gone, if it had any", "would get them twice")


def test_a_crash_while_the_start_goes_back_from_an_unreadable_manifest(world: World) -> None:
    """The line in the log, by which it is known that there are no results, is removed before the manifest is."""
    tick = world.tick(with_results=False).tick
    os.truncate(layout.manifest(world.home, tick), 40)
    for _ in range(2):
        with dying_at("recover.back"), pytest.raises(Died):
            world.start()
    assert all(record["tick"] < tick for record in advice_in(world.home / layout.TICKS))
    world.start()
    world.check()


def test_the_tick_after_it_has_begun(world: World) -> None:
    """Its positions are written down: they are forgotten, and its files are found again."""
    world.tick(with_results=False)
    world.begin_another_tick()
    os.truncate(world.newest_buckets()[0], 0)
    world.start()
    world.tick()
    world.check()


@pytest.mark.parametrize("change", [-(1 << 20), -1, 1], ids=["empty", "cut", "longer"])
def test_all_results_of_the_tick_are_torn(world: World, change: int) -> None:
    """A reader may have had them while they were whole."""
    manifest = world.tick()
    seen = {file.final: pairs(file.final) for file in manifest.results}
    for file in manifest.results:
        os.truncate(file.final, max(0, os.path.getsize(file.final) + change))
    said = ("are damaged: it has", "would get them twice", *seen)
    assert f"to repeat tick {manifest.tick}" in world.rejected(*said).hint
    for file in manifest.results:  # what the hint says, where readers have the rows
        os.unlink(file.final)
    world.start()
    assert world.found(seen) == [world.wanted()] * 2


def stage_and_tear(manifest: Manifest) -> None:
    """As if the power had failed before the results were published."""
    for file in manifest.results:
        os.rename(file.final, file.staged)
        os.truncate(file.staged, 0)


def test_a_crash_while_the_start_goes_back(world: World) -> None:
    stage_and_tear(world.tick())
    with dying_at("recover.back"), pytest.raises(Died):
        world.start()
    world.start()
    world.check()


def test_results_that_wait_to_be_published_are_torn(world: World) -> None:
    stage_and_tear(world.tick())
    world.start()
    world.check()


@pytest.mark.parametrize("has_begun", [False, True])
def test_published_results_are_not_written_twice(world: World, has_begun: bool) -> None:
    manifest = world.tick()
    if has_begun:  # as it usually is after a cut under load
        world.begin_another_tick()
    bucket = world.newest_buckets()[0]
    os.truncate(bucket, 0)
    problem = world.rejected(str(bucket), "it has 0 bytes", manifest.results[0].final, "would get them twice")
    assert "restore the file from a backup" in problem.hint and f"to repeat tick {manifest.tick}" in problem.hint
    # What the hint says:
    for path in (layout.manifest(world.home, manifest.tick), world.home / layout.TICKS):
        assert str(path) in problem.hint
        path.unlink()
    assert f"begin with {manifest.tick:012d}" in problem.hint
    for path in [*world.folder.rglob(f"{manifest.tick:012d}*.parquet")]:
        path.unlink()
    log = layout.positions(world.home, "0")
    assert (str(log) in problem.hint) == has_begun
    if has_begun:
        assert "all lines of batch 4" in problem.hint
        log.write_text("".join(line for line in log.read_text().splitlines(True) if '"batch": 4,' not in line))
    world.start()
    world.check()


def test_one_torn_result_among_others(world: World) -> None:
    manifest = world.tick()
    torn = next(file for file in manifest.results if file.query == INSIDE)
    lost = pairs(torn.final)
    os.truncate(torn.final, 0)
    problem = world.rejected(torn.final, "results of inside", "it has 0 bytes", f"{torn.rows} rows of tick")
    assert "or delete it" in problem.hint
    os.unlink(torn.final)
    world.start()
    world.check(without=lost)


def test_a_torn_result_of_an_earlier_tick(world: World) -> None:
    (torn,) = (file for file in world.tick().results if file.query == INSIDE)
    lost = pairs(torn.final)
    world.tick()
    os.truncate(torn.final, os.path.getsize(torn.final) - 1)
    assert "or delete it" in world.rejected(torn.final, "results of inside").hint
    os.unlink(torn.final)
    world.start()
    world.check(without=lost)


def test_state_that_both_manifests_name_cannot_be_gone_back_from(world: World) -> None:
    world.tick(with_results=False)
    manifest = load_newest(world.home)
    old = next(info for info in manifest.buckets if info.last_tick < manifest.tick)
    os.truncate(world.home / old.file, 0)
    world.rejected(str(world.home / old.file), "restore the file from a backup")
