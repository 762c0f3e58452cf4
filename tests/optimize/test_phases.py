"""Phases: who waits for whom, and that walks which share steps run together."""

from __future__ import annotations

import random

import pytest

from tests.support.examples import seeds
from tests.support.optimizer_problems import graph, mixed_problem
from watersmeet.optimize.heuristic.annealing import improve
from watersmeet.optimize.joingraph import Subquery
from watersmeet.optimize.phases import PathPhases, seen
from watersmeet.optimize.problem import Path, Problem, Want
from watersmeet.optimize.solution import price, priced
from watersmeet.optimize.weights import SHIPPED

CHAIN = graph("q", "r.a = s.a", "s.b = t.b", "t.c = u.c")


def within(names: str) -> Subquery:
    return CHAIN.within(frozenset(names))


def bushy() -> dict[Want, Path]:
    """[r ⋈ s] ⋈ [t ⋈ u]: each side probes the result of the other one."""
    sides = (within("rs"), within("tu"))
    paths: dict[Want, Path] = {}
    for own, other in (sides, sides[::-1]):
        for start in own.relations:
            (partner,) = own.relations - {start}
            paths[start, own] = (within(partner),)
            paths[start, CHAIN.whole] = (within(partner), other)
    return paths


def test_only_rows_of_earlier_relations_are_seen() -> None:
    assert seen("t", within("rs")) == ("r", "s")
    assert seen("r", within("tu")) == ()
    assert seen("s", within("rs")) == ("r",)
    assert seen("r@10", Subquery(frozenset(("r@2", "r@11")), frozenset())) == ("r@2",)


def test_walks_of_one_start_run_in_one_phase_where_they_may() -> None:
    phases = PathPhases(bushy())
    assert phases.count == 2
    for start in "rs":
        assert phases.chosen[start, within("rs")] == phases.chosen[start, CHAIN.whole] == 1
    for start in "tu":  # what they keep is seen by nobody in this tick, so that it can wait for their other walk
        assert phases.chosen[start, within("tu")] == phases.chosen[start, CHAIN.whole] == 2


@pytest.mark.parametrize("seed", seeds(range(40)))
def test_rows_are_there_before_they_are_probed(seed: int) -> None:
    chance = random.Random(seed)
    problem = mixed_problem(chance, relations=5, queries=4, largest=5, materialize=True)
    paths = improve(problem, iterations=60).paths
    phases = PathPhases(paths)
    assert set(phases.chosen) == set(paths)
    assert max(phases.chosen.values(), default=1) == phases.count
    for want, path in paths.items():
        for store in path:
            if not store.is_stream and seen(want[0], store):
                made = [phases.chosen[relation, store] for relation in store.relations]
                assert phases.chosen[want] > max(made)


def test_a_step_that_a_later_phase_takes_again_has_its_price() -> None:
    chain = graph("q", "r.a = s.a", "s.b = t.b", "t.c = u.c", "u.d = v.d")
    r, s, t, u, v, left, right = (chain.within(frozenset(names)) for names in ("r", "s", "t", "u", "v", "rs", "tu"))
    paths: dict[Want, Path] = {
        ("r", left): (s,),
        ("s", left): (r,),
        ("t", right): (u,),  # v waits for these two,
        ("u", right): (t,),
        ("r", chain.whole): (s, right, v),
        ("s", chain.whole): (r, right, v),
        ("t", chain.whole): (u, left, v),  # which go on only when r and s have met
        ("u", chain.whole): (t, left, v),
        ("v", chain.whole): (right, left),
    }
    problem = Problem((chain,), weights=SHIPPED)
    plan = price(problem, paths, {})
    twice = {(move.node[0], move.store): of.cost for move, of in priced(problem, paths, {}).items()}
    assert plan.phases == 2
    assert plan.repeated == pytest.approx(twice["t", u] + twice["u", t])
    assert plan.expected == plan.cost + plan.repeated
