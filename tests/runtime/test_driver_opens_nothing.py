"""Rows are processed by tasks of Spark only: with the default executor the driver opens no input file and no bucket.

A guard makes every way to do that raise in this process, and hears of every file that Python opens here. Spark's
workers are other processes, forked from one that never had the guard.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from tests.support.answers import stored_answers
from tests.support.two_streams import JOIN, create, pairs, write
from tests.support.waiting import eventually
from watersmeet import Engine, Sink
from watersmeet.cli.demo.events import AuctionSite
from watersmeet.cli.demo.show import pipeline_text
from watersmeet.errors import RunError
from watersmeet.home.manifest import load_newest
from watersmeet.io import folders
from watersmeet.runtime.exec import looking
from watersmeet.runtime.exec import spark as spark_executor
from watersmeet.runtime.exec.spark import SparkExecutor
from watersmeet.runtime.tick import tick
from watersmeet.store import bucket, bucket_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAMS = ("persons", "auctions", "bids")
ROUNDS = 9  # files of each stream, which come one after the other: enough for merges of merged buckets' inputs
EVENTS = 1000  # in a round. All of them are inside of every window, so that a backfill finds whatever there was
SITE = AuctionSite(base=1_767_225_600_000_000, rate=EVENTS * ROUNDS / 1.5)
LATE = """
SELECT b.bidder, b.price, a.item, p.name FROM bids [RANGE 5 SECONDS] b, auctions [RANGE 20 SECONDS] a,
persons [UNBOUNDED] p WHERE b.auction = a.id AND a.seller = p.id AND a.category = 11
"""


class OpenedInTheDriver(Exception):
    pass


class Guard:
    """What this process has opened below `folders`, or tried to, while the guard was up."""

    def __init__(self) -> None:
        self.folders: tuple[str, ...] = ()
        self.opened: list[str] = []
        self.tried: list[str] = []

    @contextlib.contextmanager
    def up(self, *folders: Path, only_listening: bool = False) -> Iterator[Guard]:
        """With `only_listening` nothing raises: then only what Python itself opens is known."""
        self.opened, self.tried, self.folders = [], [], tuple(f"{folder}/" for folder in folders)
        try:
            with pytest.MonkeyPatch.context() as patch:
                if not only_listening:
                    self._bar(patch)
                yield self
        finally:
            self.folders = ()

    def check(self) -> None:
        assert not self.tried
        assert not self.opened
        mapped = Path("/proc/self/maps").read_text()
        assert not [line for line in mapped.splitlines() if line.rpartition(" ")[2].startswith(self.folders)]

    def _bar(self, patch: pytest.MonkeyPatch) -> None:
        for where, name in (
            (bucket.Bucket, "open"),
            (bucket.Bucket, "write"),
            (bucket, "write_file"),
            (bucket_file, "verify_file"),
            (looking, "verify_file"),
            (folders, "StreamFile"),
            (folders.FilePiece, "read"),
            (pq, "ParquetFile"),
            (pq, "read_table"),
        ):
            patch.setattr(where, name, self._barred(name))

    def _barred(self, name: str) -> Callable[..., Any]:
        def raising(*_: object, **__: object) -> None:
            self.tried.append(name)
            raise OpenedInTheDriver(f"{name} was called in the driver")

        return raising

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and self.folders and isinstance(arguments[0], str) and _below(arguments[0], self.folders):
            self.opened.append(arguments[0])


def _below(path: str, folders: tuple[str, ...]) -> bool:
    return path.startswith(folders)


@functools.cache
def the_guard() -> Guard:
    guard = Guard()
    sys.addaudithook(guard.hear)  # for ever: Python has no way to take it back
    return guard


@pytest.fixture
def guard() -> Guard:
    return the_guard()


class Auctions:
    """The demo's pipeline in a folder, with events that come file by file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        self.rows = dict.fromkeys(STREAMS, 0)
        for name in STREAMS:
            (folder / "input" / name).mkdir(parents=True)

    def write(self, number: int) -> None:
        for name, table in SITE.tables(number * EVENTS, (number + 1) * EVENTS).items():
            draft = self.folder / "draft"
            pq.write_table(table, draft)
            draft.rename(self.folder / "input" / name / f"{number:05d}.parquet")
            self.rows[name] += table.num_rows

    def engine(self, spark: SparkSession | None, **options: Any) -> Engine:
        engine = Engine(spark, home=self.home, **options)
        engine.sql(pipeline_text(), self.folder / "auctions.sql")
        return engine

    def caught_up(self, engine: Engine) -> bool:
        engine.wait(0.01)  # raises what has failed
        return {stream.name: stream.rows for stream in engine.stats().streams} == self.rows

    def answers(self) -> dict[str, Any]:
        names = sorted(path.name for path in (self.home / "results").iterdir() if list(path.glob("*.parquet")))
        return {name: stored_answers(self.home / "results" / name) for name in names if name != "shown"}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """By the embedded executor, in one tick."""
    auctions = Auctions(tmp_path_factory.mktemp("expected"))
    for number in range(ROUNDS):
        auctions.write(number)
    with auctions.engine(None, executor="local") as engine:
        engine.query("late", LATE)
        engine.run_once()
    answers = auctions.answers()
    assert len(answers) >= 6 and answers["late"].total() > 0
    return answers


@pytest.mark.parametrize(
    ("partitions", "small", "large_merge"),
    [
        (1, spark_executor.FEW_BYTES, tick.LARGE_MERGE),
        (1, -1, 0),
        pytest.param(3, -1, tick.LARGE_MERGE, marks=pytest.mark.thorough),
    ],
    ids=["a tick is one order", "in parts, with merges beside the ticks", "three places"],
)
def test_the_demo_with_a_backfill_merges_and_a_restart(
    spark: SparkSession,
    tmp_path: Path,
    guard: Guard,
    expected: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    partitions: int,
    small: int,
    large_merge: int,
) -> None:
    monkeypatch.setattr(spark_executor, "FEW_BYTES", small)
    monkeypatch.setattr(tick, "LARGE_MERGE", large_merge)
    auctions = Auctions(tmp_path)
    auctions.write(0)

    def follow(engine: Engine, rounds: range) -> None:
        eventually(lambda: auctions.caught_up(engine))
        for number in rounds:
            auctions.write(number)
            eventually(lambda: auctions.caught_up(engine))

    with guard.up(tmp_path / "input", auctions.home / "state"):
        with auctions.engine(spark, partitions=partitions) as engine:
            engine.query("shown", LATE, Sink("console", "", (("rows", "3"),)))
            engine.start()
            follow(engine, range(1, 5))
            engine.query("late", LATE, backfill=True)
            follow(engine, range(5, ROUNDS - 1))
        merged = [info for info in load_newest(auctions.home).buckets if info.first_tick < info.last_tick]
        assert {info.store for info in merged} >= set(STREAMS), "there were merges"
        with auctions.engine(spark, partitions=partitions) as again:  # which compares all files with their checksums
            again.query("shown", LATE, Sink("console", "", (("rows", "3"),)))
            again.start()
            follow(again, range(ROUNDS - 1, ROUNDS))
            assert isinstance(again._loop and again._loop.executor, SparkExecutor)
        guard.check()
    assert auctions.answers() == expected
    assert "shown, tick 1" in capsys.readouterr().out


def test_files_that_spark_reads(spark: SparkSession, tmp_path: Path, guard: Guard) -> None:
    """The check of what Spark has read looks into the files too."""
    home = tmp_path / "home"
    for second in range(6):
        write(tmp_path / "l", [(second, second, 7)])
    write(tmp_path / "r", [(1, 10, 7)])
    (tmp_path / "l" / "broken.parquet").write_bytes(b"this is no Parquet")
    engine = Engine(spark, home=home)
    engine.sql(
        "".join(create(name, tmp_path / name / "*.parquet", "WITH (maxFilesPerTrigger = 1)") for name in ("l", "r"))
    )
    query = engine.query("q", JOIN)
    with guard.up(tmp_path / "l", tmp_path / "r", home / "state"):
        with engine:
            engine.run_once()
        guard.check()
    assert pairs(query.results()) == [(second, 10) for second in range(6)]
    assert engine.stats().streams[0].set_aside == {"unreadable files": 1}
    assert any(info.first_tick < info.last_tick for info in load_newest(home).buckets), "there were merges"


def test_orders_as_jobs(spark: SparkSession, tmp_path: Path, guard: Guard) -> None:
    """Without residents."""
    write(tmp_path / "l", [(1, 1, 7)])
    write(tmp_path / "r", [(1, 10, 7), (20, 20, 8)])
    with guard.up(tmp_path / "l", tmp_path / "r", tmp_path / "home" / "state"):
        for second in (2, 3):
            with Engine(spark, home=tmp_path / "home", residents="0") as engine:
                engine.sql(create("l", tmp_path / "l") + create("r", tmp_path / "r"))
                query = engine.query("q", JOIN)
                engine.run_once()
            write(tmp_path / "l", [(second, second, 7)])
        guard.check()
    assert pairs(query.results()) == [(1, 10), (2, 10)]


def test_the_guard_catches_the_embedded_executor(tmp_path: Path, guard: Guard) -> None:
    """Which does open files in this process: the control of the tests above."""
    auctions = Auctions(tmp_path)
    auctions.write(0)
    with (
        guard.up(tmp_path / "input", auctions.home / "state"),
        auctions.engine(None, executor="local") as engine,
        pytest.raises(RunError, match="read was called in the driver"),
    ):
        engine.run_once()
    assert guard.tried == ["read"]
    with guard.up(tmp_path / "input", auctions.home / "state", only_listening=True):
        with auctions.engine(None, executor="local") as engine:
            engine.run_once()
        with auctions.engine(None, executor="local") as engine:
            engine.run_once()  # and the checksums at a start
    written = {str(path) for path in (auctions.home / "state").glob("*/*.bucket")}
    assert written and written <= set(guard.opened), "the guard hears of buckets"
