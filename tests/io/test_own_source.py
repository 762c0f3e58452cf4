"""A source of one's own, as docs/connectors.md shows it: an installed package that is killed; each row is read once."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.docs.pages import ROOT as REPOSITORY
from tests.docs.pages import read
from tests.support.deaths import dying_at, silent_threads
from tests.support.inside import abandon, run_until_death
from tests.support.processes import environment
from tests.support.waiting import PATIENCE, eventually
from watersmeet import Engine
from watersmeet.errors import InputError
from watersmeet.home.manifest import load_newest
from watersmeet.io import source

POINTS = ["positions.before", "tick.begin", "gather.after", "probe.after", "manifest.draft", "manifest.linked"]
POINTS += ["publish.before", "tick.end"]
SQL = """
CREATE STREAM orders (at TIMESTAMP, id BIGINT, k BIGINT) TIMESTAMP BY at LATENESS 1 DAY FROM jsonlines '{file}';
CREATE QUERY pairs AS SELECT a.id AS a, b.id AS b FROM orders [RANGE 10 SECONDS] a, orders [RANGE 10 SECONDS] b
    WHERE a.k = b.k;
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the code of the page and what pip writes for its entry point."""
    (block,) = [one for one in read(REPOSITORY / "docs/connectors.md").blocks if one.comment == "a source of your own"]
    folder = tmp_path / "package"
    facts = folder / "lines_of_json-1.0.dist-info"
    facts.mkdir(parents=True)
    (folder / "lines_of_json.py").write_text(block.text)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: lines-of-json\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[watersmeet.sources]\njsonlines = lines_of_json:JsonLines\n")
    monkeypatch.syspath_prepend(folder)
    source._installed.cache_clear()
    yield folder
    source._installed.cache_clear()
    sys.modules.pop("lines_of_json", None)


class Orders:
    """A file that grows, and an engine that joins its rows with each other."""

    def __init__(self, folder: Path) -> None:
        self.file, self.home, self.count = folder / "orders.log", folder / "home", 0
        self.file.touch()

    def append(self, count: int = 10) -> None:
        with self.file.open("a") as file:
            for number in range(self.count, self.count + count):
                at = f"2030-01-01 00:00:{number % 60:02d}"
                file.write(json.dumps({"at": at, "id": number, "k": number % 3, "more": "ignored"}) + "\n")
        self.count += count

    def engine(self) -> Engine:
        engine = Engine(home=self.home, executor="local", tick="1 millisecond")
        engine.sql(SQL.format(file=self.file))
        return engine

    def is_behind(self, tick: int) -> bool:
        return self.home.exists() and load_newest(self.home).tick > tick

    def check(self) -> None:
        with duckdb.connect() as oracle:
            oracle.execute(f"CREATE TABLE o AS FROM read_json('{self.file}', format='newline_delimited')")
            near = "abs(epoch(a.at) - epoch(b.at)) <= 10"
            expected = oracle.execute(f"SELECT a.id, b.id FROM o a, o b WHERE a.k = b.k AND {near}").fetchall()
            found = oracle.execute(f"SELECT a, b FROM read_parquet('{self.home}/results/pairs/*.parquet')").fetchall()
        assert sorted(found) == sorted(expected) and expected


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("point", POINTS)
def test_a_death_at_any_point(tmp_path: Path, point: str) -> None:
    orders = Orders(tmp_path)
    for _ in range(4):
        orders.append()
        engine = orders.engine()
        with dying_at(point) as died, silent_threads():
            run_until_death(engine, died)
        assert died.is_set()
        abandon(engine)
    with orders.engine() as engine:
        engine.run_once()
    orders.check()


def test_real_processes_that_are_killed(package: Path, tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    (tmp_path / "pipeline.sql").write_text(SQL.format(file="orders.log"))  # relative to the script

    def run(*more: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "watersmeet.cli", "run", "pipeline.sql", "--home", "home"]
        command += ["--set", "executor=local", *more]
        path = os.pathsep.join((str(package), str(REPOSITORY)))
        return subprocess.Popen(command, cwd=tmp_path, env=environment(PYTHONPATH=path), stdout=subprocess.DEVNULL)

    for _ in range(2):
        before = load_newest(orders.home).tick if orders.home.exists() else 0
        orders.append()
        process = run()
        try:
            eventually(functools.partial(orders.is_behind, before))
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE)
    orders.append()
    assert run("--once").wait(PATIENCE) == 0
    orders.check()


@pytest.mark.usefixtures("package")
def test_rows_that_are_gone_stop_the_engine_and_nothing_is_lost(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.append()
    engine = orders.engine()
    with dying_at("tick.begin") as died, silent_threads():
        run_until_death(engine, died)
    abandon(engine)
    whole = orders.file.read_bytes()
    orders.file.write_bytes(whole[:100])
    with pytest.raises(InputError, match="is shorter than it was"), orders.engine() as engine:
        engine.run_once()
    orders.file.write_bytes(whole)
    with orders.engine() as engine:
        engine.run_once()
    orders.check()
