"""Weights and filters as an engine measures them, and the search beside the first ticks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.changing_streams import COLUMNS, explosion, right_number, script
from tests.support.inside import keeper_of, opened
from tests.support.waiting import PATIENCE
from watersmeet import Engine
from watersmeet.adapt.decisions import decisions
from watersmeet.adapt.measure import Measurements, StepCount
from watersmeet.adapt.statistics_file import recall
from watersmeet.adapt.step_facts import StepFacts
from watersmeet.adapt.weight_fit import fitted
from watersmeet.home import counters as stages
from watersmeet.home import layout
from watersmeet.home.manifest import Manifest
from watersmeet.optimize.exact.search import simple_plan
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.solution import Solution
from watersmeet.optimize.weights import EMBEDDED, SHIPPED, bounded

FACTS = [
    StepFacts(found, 1, False, "r", "s", None, 1.0, rows, min(1.0, found), 3.0)
    for found, rows in ((0.1, 1e3), (4.0, 1e5))
]


def epoch_with(times: float, of: str = "") -> Measurements:
    """An epoch in which weights (those of steps whose names begin with `of`) are so many times the shipped ones."""
    steps = {}
    for number, (came, ticks, facts) in enumerate([(1e5, 20, FACTS[0]), (1e6, 20, FACTS[1]), (10.0, 20, FACTS[1])]):
        parts = {
            "probe": came * SHIPPED.probe(facts.rows, facts.hits, facts.buckets),
            "match": came * facts.expected * SHIPPED.match,
            "call": ticks * (SHIPPED.step + SHIPPED.bucket * facts.buckets),
        }
        micros = sum(part * (times if name.startswith(of) else 1.0) for name, part in parts.items())
        steps["v", number] = StepCount(came, came * facts.expected, came * facts.expected, micros, ticks, facts)
    rows = 1_000_000
    spent = {stages.GATHER: int(rows * (SHIPPED.row + SHIPPED.index_entry) * times)}
    return Measurements(20, 1.0, spent=spent, done={stages.ROWS: rows, stages.INDEX_ENTRIES: rows}, steps=steps)


def after_epochs(measured: Measurements, count: int = 12) -> dict[str, float]:
    known: dict[str, float] = {}
    for _ in range(count):
        known = fitted(known, measured)
    return known


@pytest.mark.parametrize("times", [0.5, 1.0, 2.5])
def test_weights_follow_what_stages_take(times: float) -> None:
    measured = epoch_with(times)
    known = after_epochs(measured)
    weights = bounded(known)
    expected = 0.0
    for step in measured.steps.values():
        assert step.facts is not None
        expected += step.came * weights.probe(step.facts.rows, step.facts.hits, step.facts.buckets)
        expected += step.found * weights.match
    assert expected == pytest.approx(sum(step.micros for step in measured.steps.values()), rel=0.1)
    for name in ("row", "index_entry"):
        assert known[name] == pytest.approx(getattr(SHIPPED, name) * times, rel=0.05), name
    assert "kept_row" not in known, "nothing was kept"


def test_a_kind_of_work_is_told_apart_if_there_is_enough_of_it() -> None:
    known = after_epochs(epoch_with(3.0, "match"))
    assert known["match"] / SHIPPED.match > 1.4 * known["miss"] / SHIPPED.miss


@pytest.mark.parametrize(("times", "bound"), [(100.0, 4.0), (0.02, 0.25)])
def test_weights_stay_within_a_factor_of_the_shipped_ones(times: float, bound: float) -> None:
    known = after_epochs(epoch_with(times), 60)
    assert known["row"] == pytest.approx(bound * SHIPPED.row)
    assert all(value >= getattr(SHIPPED, name) / 4 * (1 - 1e-9) for name, value in known.items())
    assert bounded({"row": 1e9, "unknown": 1.0}).row == pytest.approx(4 * SHIPPED.row)


def run(engine: Engine) -> None:
    """All ticks; each waits for the optimizer."""
    loop, follower = opened(engine), keeper_of(engine).follower

    class Waiting:
        def gathered(self, reports: object) -> None:
            pass

        def committed(self, manifest: Manifest) -> None:
            follower.optimizer.wait(PATIENCE)

    loop.observers.append(Waiting())
    engine.run_once()


def test_an_engine_measures_its_weights_and_filters_and_knows_them_after_a_restart(tmp_path: Path) -> None:
    explosion(2000, ticks=8, change=8, partners=4).write(tmp_path / "in")
    narrow = "SELECT s.id AS s FROM s [RANGE 5 SECONDS], t [RANGE 1 SECONDS] WHERE s.b = t.b AND s.id % 4 = 1"

    def declared() -> Engine:
        engine = Engine(home=tmp_path / "home", executor="local", epoch=4, plan_seconds=PATIENCE)
        engine.sql(script(tmp_path / "in"))
        engine.query("narrow", narrow)
        return engine

    with declared() as engine:
        run(engine)
        assert engine.stats().queries[0].results == right_number(tmp_path / "in")
        steps = engine.plan().steps
        ran = [step for step in steps if step.measured_seconds is not None]
        assert len(ran) == len(steps) and all(step.estimated_seconds for step in ran)
    known = recall(tmp_path / "home")
    assert known is not None
    (name,) = known.filters
    assert name[0] == "s" and known.filters[name] == pytest.approx(0.25, rel=0.1)
    assert known.arrivals == pytest.approx(dict.fromkeys(COLUMNS, 2000))
    assert known.seconds > 0
    assert {"miss", "match", "row", "result_row"} <= set(known.weights)
    with declared() as again:
        again._open()
        problem = again._keeper.current.problem
        whole = problem.queries[-1].whole
        assert problem.statistics == known
        assert problem.weights == bounded(known.weights, EMBEDDED)
        assert problem.demands["narrow"].windows == {"t": pytest.approx(0.2)}
        assert problem.wanted.share(("s", whole), whole) == pytest.approx(0.05, rel=0.1)


@pytest.mark.parametrize("searcher", ["", "greedy"])
def test_a_better_plan_is_looked_for_beside_the_first_ticks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, searcher: str
) -> None:
    """Without adaptation too, but not where a searcher was named."""
    explosion(300, ticks=6, change=6, partners=30).write(tmp_path / "in")
    home = tmp_path / "home"
    home.mkdir()
    pairs = {("r.a", "s.a"): 1e-3, ("s.b", "t.b"): 1e-9, ("t.c", "u.c"): 1e-3}
    known: dict[str, Any] = {
        "sizes": dict.fromkeys(COLUMNS, 1_000_000),
        "selectivities": [{"left": left, "right": right, "value": value} for (left, right), value in pairs.items()],
    }
    (home / layout.STATISTICS).write_text(json.dumps({"statistics": known}))

    def bad(problem: Problem, **_: object) -> Solution:
        return replace(simple_plan(problem), searcher="greedy")

    engine = Engine(home=home, executor="local", adaptive="off", epoch=3, plan_seconds=PATIENCE, searcher=searcher)
    engine.sql(script(tmp_path / "in"))
    with engine:
        monkeypatch.setattr("watersmeet.plan.planner.optimize", bad)
        opened(engine)
        first = keeper_of(engine).current.solution
        monkeypatch.undo()
        run(engine)
        last = keeper_of(engine).current.solution
        assert engine.stats().queries[0].results == right_number(tmp_path / "in")
    told = decisions(home)
    assert told[0].kind == "start" and told[0].unit == "seconds"
    if searcher:
        assert last is first and len(told) == 1
    else:
        assert last.cost < 0.95 * first.cost
        assert [one.adopted for one in told] == [True, True]
        assert told[1].gain > told[1].price and told[1].cost_in_force == pytest.approx(told[0].cost)
