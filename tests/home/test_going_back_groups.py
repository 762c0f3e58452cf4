"""Going back where streams came later, so that ticks of two groups of streams follow each other, in an order that
another run need not repeat. Results go to a target outside, which knows the ticks that it has."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from tests.support.two_streams import create, write
from watersmeet import Engine, Sink
from watersmeet.errors import StateError
from watersmeet.home import layout
from watersmeet.home.manifest import load_newest
from watersmeet.model.targets import BUILT_IN

QUERY = "q"


class World:
    """Stream l is of group 0, stream m of group 1."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home, self.database = folder, folder / "home", folder / "results.db"
        for name in "lm":
            (folder / name).mkdir()
        self.start("l")

    def start(self, streams: str = "lm") -> None:
        with Engine(home=self.home, executor="local", adaptive="off", tick="1 millisecond") as engine:
            for name in streams:
                engine.sql(create(name, self.folder / name))
            if "m" in streams:
                join = "SELECT a.id AS a, b.id AS b FROM l [UNBOUNDED] a, m [UNBOUNDED] b WHERE a.k = b.k"
                engine.query(QUERY, join, Sink("sqlite", str(self.database)))
            engine.run_once()

    def write(self, stream: str, number: int, key: int = 7) -> None:
        write(self.folder / stream, [(number, number, key)])

    def found(self) -> Counter[tuple[int, int]]:
        database = sqlite3.connect(self.database)
        rows = database.execute("SELECT result FROM results").fetchall()
        database.close()
        return Counter(tuple(json.loads(text).values()) for (text,) in rows)

    def begin_another_tick(self, stream: str, number: int) -> None:
        """As if the engine had been killed, or the power cut, in the next tick: only its positions are there."""
        before = {path: path.read_bytes() for path in self.home.rglob("*") if path.is_file()}
        self.write(stream, number, 100 + number)
        self.start()
        begun = {path: path.read_bytes() for path in (self.home / layout.POSITIONS).iterdir()}
        for path in [path for path in self.home.rglob("*") if path.is_file() and path not in before]:
            path.unlink()
        for path, content in {**before, **begun}.items():
            path.write_bytes(content)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setitem(BUILT_IN, "sqlite", "tests.support.sqlite_target:CONNECTOR")
    return World(tmp_path)


def test_what_a_target_has_is_not_delivered_again_in_another_tick(world: World) -> None:
    world.write("l", 0)
    world.write("l", 1)
    world.start()
    world.write("m", 9)
    world.start()
    manifest = load_newest(world.home)
    (posted,) = (file for file in manifest.results if file.query == QUERY)
    assert world.found() == Counter([(0, 9), (1, 9)])
    world.write("l", 2)  # which would be the tick's input now
    content = Path(posted.final).read_bytes()
    os.truncate(posted.final, 0)
    with pytest.raises(StateError, match="would get them twice") as caught:
        world.start()
    assert f"if no target of INTO has results of tick {manifest.tick} yet" in caught.value.hint
    Path(posted.final).write_bytes(content)  # from a backup
    world.start()
    assert world.found() == Counter([(0, 9), (1, 9), (2, 9)])


def test_back_to_a_state_without_the_group(world: World) -> None:
    world.write("l", 0)
    world.start()
    world.write("m", 8, 80)
    world.start()
    manifest = load_newest(world.home)
    assert manifest.batches == {"0": 0, "1": 0}
    world.begin_another_tick("m", 9)
    (bucket,) = (info for info in manifest.buckets if info.last_tick == manifest.tick)
    os.truncate(world.home / bucket.file, 0)
    world.start()
    assert load_newest(world.home).batches == {"0": 0, "1": 1}
    world.write("l", 1, 80)
    world.write("l", 2, 109)
    world.start()
    assert world.found() == Counter([(1, 8), (2, 9)])
