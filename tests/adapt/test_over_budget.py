"""Streams that outgrow the storage budget: the engine says so and goes on, also when it is started again."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.support.changing_streams import COLUMNS, explosion, right_number, script
from tests.support.inside import keeper_of
from tests.support.waiting import PATIENCE
from watersmeet import Engine
from watersmeet.adapt.decisions import decisions
from watersmeet.adapt.statistics_file import recall
from watersmeet.optimize.statistics import DEFAULT_SIZE
from watersmeet.plan.explain import explain

ROWS, TICKS = 900, 9
BUDGET = DEFAULT_SIZE * len(COLUMNS)  # enough for what is assumed of streams of which nothing is known


def declared(folder: Path) -> Engine:
    engine = Engine(home=folder / "home", executor="local", epoch=3, plan_seconds=PATIENCE, storage_budget=BUDGET)
    engine.sql(script(folder / "in"))
    return engine


def test_a_home_whose_streams_exceed_the_budget_stays_usable(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "watersmeet")
    explosion(ROWS, ticks=TICKS, change=4, partners=30).write(tmp_path / "later")
    (tmp_path / "in").mkdir()

    def arrive(ticks: range) -> None:
        for name in COLUMNS:
            (tmp_path / "in" / name).mkdir(exist_ok=True)
            for tick in ticks:
                file = f"{name}/{tick:06d}.parquet"
                (tmp_path / "later" / file).rename(tmp_path / "in" / file)

    arrive(range(6))
    with declared(tmp_path) as engine:
        engine.run_once()
        assert keeper_of(engine).current.over_budget == 0, "nothing was known when the plan was made"
    assert not caplog.messages
    known = recall(tmp_path / "home")
    assert known is not None and sum(known.sizes.values()) > BUDGET

    arrive(range(6, TICKS))
    with declared(tmp_path) as again:
        again.run_once()
        plan = again.plan()
        assert not any(store.materialized for store in plan.stores)
        assert plan.over_budget == pytest.approx(sum(known.sizes.values()) - BUDGET)
        assert f"exceed the storage budget by {plan.over_budget:,.0f} tuples" in explain(plan)
    (told,) = caplog.messages
    assert "storage_budget" in told
    assert again.newest.tick == TICKS
    assert again.stats().queries[0].results == right_number(tmp_path / "in") > 0
    assert not any("found no plan" in one.reason for one in decisions(tmp_path / "home"))
