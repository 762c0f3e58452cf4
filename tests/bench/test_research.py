"""Runs with settings that only experiments have."""

from __future__ import annotations

from pathlib import Path

from bench.peers.ours import ALONE, JOINT
from bench.research import command, engine_options
from watersmeet import Engine
from watersmeet.optimize.research import Research


def test_settings_of_an_experiment_are_one_value_and_options_stay_options() -> None:
    given = engine_options(ALONE)
    assert given["research"] == Research(sharing="none")
    engine = Engine(**given)
    assert (engine.options.research.sharing, engine.options.searcher) == ("none", "individual")
    assert engine_options(JOINT) == JOINT


def test_a_user_would_start_the_run_in_the_same_way_unless_it_is_an_experiment() -> None:
    files = Path("p.sql"), Path("home")
    assert command(*files, {"epoch": 2})[1:] == [
        *("-m", "watersmeet.cli", "run", "p.sql", "--once", "--home", "home", "--set", "epoch=2")
    ]
    assert command(*files, ALONE)[1:5] == ["-m", "bench.research", "p.sql", "home"]
