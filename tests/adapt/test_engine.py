"""On Spark: the data changes and the plan follows, with the same results as a batch query."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.changing_streams import explosion, right_number, script
from tests.support.inside import keeper_of, opened
from tests.support.waiting import PATIENCE, eventually
from watersmeet import Engine
from watersmeet.adapt.decisions import decisions
from watersmeet.adapt.statistics_file import recall
from watersmeet.home import layout
from watersmeet.home.manifest import Manifest
from watersmeet.optimize.research import Research

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(engine: Engine, kill: bool = False) -> None:
    """All ticks; each waits for the optimizer, so that a fast machine and a slow one take the same decisions."""
    with engine:
        loop, follower = opened(engine), keeper_of(engine).follower
        if kill:  # a search that takes its time cannot have answered before it is killed
            follower.options = replace(follower.options, searcher="improve", plan_seconds=PATIENCE)

        killed: set[int | None] = {None}

        class Waiting:
            def gathered(self, reports: object) -> None:
                pass

            def committed(self, manifest: Manifest) -> None:
                if kill and follower.optimizer.busy:
                    eventually(lambda: follower.optimizer.pid not in killed)  # each request starts a new process
                    killed.add(follower.optimizer.pid)
                    os.kill(follower.optimizer.pid or 0, signal.SIGKILL)
                follower.optimizer.wait(PATIENCE)

        loop.observers.append(Waiting())
        engine.run_once()


def test_the_plan_follows_the_data_and_results_stay_right(spark: SparkSession, tmp_path: Path) -> None:
    explosion(300, ticks=18, change=8, partners=30).write(tmp_path / "in")
    # By the costs of papers: with so few rows, what every tick costs anyway hides all differences.
    engine = Engine(spark, home=tmp_path / "home", epoch=3, plan_seconds=PATIENCE, research=Research(costs="paper"))
    engine.sql(script(tmp_path / "in"))
    run(engine)
    assert engine["q"].results().count() == right_number(tmp_path / "in") > 0
    told = decisions(tmp_path / "home")
    assert told[0].kind == "start"
    adopted = [one for one in told if one.kind == "statistics" and one.adopted]
    assert any("fewer partners" in one.reason or "more partners" in one.reason for one in adopted)
    assert all(one.gain > one.price and one.cost < (one.cost_in_force or 0) for one in adopted)
    assert len({one.plan for one in told}) > 1

    known = recall(tmp_path / "home")
    assert known is not None
    between = known.selectivities[frozenset((("s", "b"), ("t", "b")))]
    assert between < 1e-4 < known.selectivities[frozenset((("r", "a"), ("s", "a")))]
    again = Engine(spark, home=tmp_path / "home")
    again.sql(script(tmp_path / "in"))
    with again:
        again._open()
        assert again._keeper.current.problem.statistics == known, "what was measured survives a restart"


def test_without_adaptation_the_plan_stays(spark: SparkSession, tmp_path: Path) -> None:
    explosion(300, ticks=8, change=4, partners=30).write(tmp_path / "in")
    engine = Engine(spark, home=tmp_path / "home", epoch=3, adaptive="off")
    engine.sql(script(tmp_path / "in"))
    run(engine)
    assert [one.kind for one in decisions(tmp_path / "home")] == ["start"]
    assert (tmp_path / "home" / layout.STATISTICS).exists()
    assert engine["q"].results().count() == right_number(tmp_path / "in")


def test_the_engine_goes_on_without_the_optimizer(spark: SparkSession, tmp_path: Path) -> None:
    explosion(300, ticks=8, change=4, partners=30).write(tmp_path / "in")
    engine = Engine(spark, home=tmp_path / "home", epoch=3)
    engine.sql(script(tmp_path / "in"))
    run(engine, kill=True)
    assert engine["q"].results().count() == right_number(tmp_path / "in")
    told = decisions(tmp_path / "home")
    assert any("process ended" in one.reason for one in told)
    assert not any(one.adopted for one in told[1:])
