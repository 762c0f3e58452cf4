"""On Spark, with streams that are plain folders of Parquet files: the follower hears of every gather."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.changing_streams import COLUMNS, TICKS_IN_WINDOW, explosion, right_number, script
from tests.support.inside import feeds_of, keeper_of, opened
from tests.support.plans import plan_by
from watersmeet import Engine
from watersmeet.adapt.measure import all_links
from watersmeet.adapt.statistics_file import recall
from watersmeet.adapt.step_facts import step_facts
from watersmeet.home import layout
from watersmeet.optimize.joingraph import Subquery
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.solution import Solution
from watersmeet.optimize.statistics import named_ends
from watersmeet.plan import planner
from watersmeet.runtime.exec import spark as spark_executor
from watersmeet.runtime.exec.spark import SparkExecutor
from watersmeet.runtime.feed.source_feed import SourceFeed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS, TICKS = 400, 6
MIDDLE = frozenset((("s", "b"), ("t", "b")))


def outside_first(problem: Problem, **_: object) -> Solution:
    """S probes R before T, T probes U before S: no step's counts tell how often S and T join."""

    def prefer(options: list[Subquery]) -> Subquery:
        streams = [option for option in options if option.is_stream]
        return min(streams, key=lambda option: not option.relations & {"r", "u"})

    return plan_by(problem, prefer)


@pytest.mark.thorough
@pytest.mark.parametrize("small", [spark_executor.FEW_BYTES, -1], ids=["a tick is one order", "a tick in parts"])
def test_keys_of_folders_are_measured_also_where_no_step_of_the_plan_does(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(spark_executor, "FEW_BYTES", small)
    monkeypatch.setattr(planner, "optimize", outside_first)
    explosion(ROWS, ticks=TICKS, change=TICKS).write(tmp_path / "made")
    for name in COLUMNS:
        (tmp_path / "in" / name).mkdir(parents=True)
    # With a searcher that was asked for, the engine does not look for another plan; and it is to keep this one.
    engine = Engine(spark, home=tmp_path / "home", epoch=3, adaptive="off", searcher="greedy")
    engine.sql(script(tmp_path / "in").replace(" WITH (maxFilesPerTrigger = 1)", ""))
    with engine:
        loop, plan = opened(engine), keeper_of(engine).current
        assert isinstance(loop.executor, SparkExecutor)
        links = {frozenset(named_ends(link)) for link in all_links(plan.problem)}
        assert MIDDLE in links - {fact.measures for fact in step_facts(plan).values()}
        for tick in range(TICKS):
            for name in COLUMNS:
                file = f"{name}/{tick:06d}.parquet"
                (tmp_path / "made" / file).rename(tmp_path / "in" / file)
            engine.start(once=True)
            assert all(isinstance(feed, SourceFeed) for feed in feeds_of(engine).running.values())
            engine.run_once()
        assert loop.manifest.tick == TICKS
    assert engine["q"].results().count() == right_number(tmp_path / "in")

    told: dict[str, Any] = json.loads((tmp_path / "home" / layout.STATISTICS).read_text())
    keys = {f"{name}.{column}" for name, columns in COLUMNS.items() for column in columns}
    assert told["key_groups"].keys() == keys
    for key in keys:
        assert sum(told["key_groups"][key]["rows"]) == 3 * ROWS, "the rows of an epoch, none left out or counted twice"
    known = recall(tmp_path / "home")
    assert known is not None
    assert known.distinct.keys() == {tuple(key.split(".")) for key in keys}
    assert known.selectivities.keys() == links
    held = ROWS * TICKS_IN_WINDOW  # keys, all equally frequent
    assert 1 / (3 * held) < known.selectivities[MIDDLE] < 3 / held
