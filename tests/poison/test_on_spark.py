"""The same on Spark's tasks: what fails there for one query is confined to it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.inside import published
from tests.support.poisoned import HUGE, SLOW, VICTIM, Poisoned, repeated
from tests.support.waiting import PATIENCE, eventually
from watersmeet import Engine
from watersmeet.control.mailbox import Mailbox, Request
from watersmeet.errors import WatersmeetError
from watersmeet.home.manifest import load_newest
from watersmeet.model import Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOIN = "FROM l [RANGE 10 SECONDS] l, r [RANGE 10 SECONDS] r WHERE l.k = r.k"
PLAIN = f"SELECT l.id AS a, r.id AS b {JOIN}"


def fed(poisoned: Poisoned, engine: Engine, **values: object) -> None:
    """Rows arrive and are committed."""
    poisoned.feed(**values)  # type: ignore[arg-type]

    def is_done() -> bool:
        engine.wait(0.01)  # raises what has failed
        return all(stream.rows == poisoned.rows for stream in engine.stats().streams)

    eventually(is_done)
    published(engine)


@pytest.mark.parametrize(
    "options", [{}, {"residents": "0"}, {"partitions": 3}], ids=["residents", "jobs", "three partitions"]
)
def test_lost_folder_and_resumption(spark: SparkSession, tmp_path: Path, options: dict[str, object]) -> None:
    poisoned = Poisoned(tmp_path, {"executor": "spark", **options}, spark=spark)
    folder = tmp_path / "out"
    poisoned.declare(PLAIN, Sink(path=str(folder)))
    with poisoned.running() as engine:
        engine.start()
        fed(poisoned, engine)
        shutil.rmtree(folder)
        folder.write_text("in the way")
        fed(poisoned, engine)
        eventually(lambda: VICTIM in engine.newest.suspended)
        poisoned.check()
        fed(poisoned, engine)
        poisoned.check()
        with pytest.raises(WatersmeetError, match="results cannot be written"):
            Mailbox(engine.home).ask(Request("resume", script=VICTIM), PATIENCE)
        folder.unlink()
        answer = Mailbox(engine.home).ask(Request("resume", script=VICTIM), PATIENCE)
        assert f"to {answer.tick - 1} are missing" in answer.text
        fed(poisoned, engine)
        eventually(lambda: VICTIM not in engine.newest.suspended)
        fed(poisoned, engine)
        poisoned.check()
    assert list(folder.glob("0*.parquet"))
    with poisoned.running() as engine:
        engine.start()
        fed(poisoned, engine)
    poisoned.check()
    assert not load_newest(poisoned.home).suspended


def test_limits_of_tasks(spark: SparkSession, tmp_path: Path) -> None:
    """Matches of all tasks, and an expression that takes too long in a task."""
    poisoned = Poisoned(tmp_path, {"executor": "spark", "max_matches": 1000, "expression_seconds": 0.3}, spark=spark)
    poisoned.declare("SELECT l.id AS a FROM l [RANGE 10 SECONDS] l CROSS JOIN r [RANGE 10 SECONDS] r", name="many")
    poisoned.declare(f"SELECT l.id AS a {JOIN} AND {SLOW} > 5", name="slow")
    with poisoned.running() as engine:
        engine.start()
        fed(poisoned, engine)
        assert not engine.newest.suspended
        fed(poisoned, engine, count=48, n=1000)
        assert set(engine.newest.suspended) == {"many", "slow"}
        poisoned.check()
        fed(poisoned, engine)
        poisoned.check()


def test_requests_that_cannot_be_checked_block_nobody(spark: SparkSession, tmp_path: Path) -> None:
    poisoned = Poisoned(tmp_path, {"executor": "spark", "check_seconds": 3.0}, spark=spark)
    endless = "length(concat(" + ", ".join([repeated("'xxxxxxxxxx'", 3)] * 1000) + "))"
    with poisoned.running() as engine:
        engine.start()
        fed(poisoned, engine)
        mailbox = Mailbox(engine.home)
        for at in range(2):
            with pytest.raises(WatersmeetError):
                mailbox.ask(Request("change", script=f"CREATE QUERY e{at} AS {PLAIN} AND {endless} > l.id"), PATIENCE)
            mailbox.ask(Request("change", script=f"CREATE QUERY q{at} AS {PLAIN}"), PATIENCE)
        fed(poisoned, engine)
        assert {"q0", "q1"} <= set(engine.newest.queries)
        poisoned.check()


def test_a_value_that_takes_all_memory(spark: SparkSession, tmp_path: Path) -> None:
    """The task is not killed: the value cannot be computed, or its query is suspended."""
    poisoned = Poisoned(tmp_path, {"executor": "spark", "task_memory": 500}, spark=spark)
    poisoned.declare(f"SELECT {HUGE} AS a {JOIN}", name="output")
    poisoned.declare(f"SELECT l.id AS a {JOIN} AND {HUGE} > 5", name="filter")
    with poisoned.running() as engine:
        engine.start()
        fed(poisoned, engine)
        assert not engine.newest.suspended
        fed(poisoned, engine, n=100_000)
        for name in ("output", "filter"):
            (stats,) = (query for query in engine.stats().queries if query.name == name)
            aside = [stream.set_aside for stream in engine.stats().streams]
            assert stats.suspended or stats.failed_values or any("failed_filters" in each for each in aside), name
        poisoned.check()
        fed(poisoned, engine)
        poisoned.check()
