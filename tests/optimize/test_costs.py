"""The optimizer's costs on the example of the CLASH paper."""

from __future__ import annotations

import pytest

from tests.support.optimizer_problems import graph
from watersmeet.optimize.heuristic.annealing import improve
from watersmeet.optimize.heuristic.individual import individual_cost, plan_alone
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.statistics import Statistics


def clash_example() -> Problem:
    """CLASH, section V-2: rates of 100; S ⋈ T has 150 results, the other joins 100."""
    q1 = graph("q1", "r.a = s.a", "s.b = t.b")
    q2 = graph("q2", "s.b = t.b", "t.c = u.c")
    statistics = Statistics(
        dict.fromkeys("rstu", 100.0),
        {
            frozenset((("s", "b"), ("t", "b"))): 0.015,
            frozenset((("r", "a"), ("s", "a"))): 0.01,
            frozenset((("t", "c"), ("u", "c"))): 0.01,
        },
    )
    return Problem((q1, q2), statistics, materialize=False, layouts="ignored")


def test_each_query_alone_costs_475_and_both_together_800() -> None:
    problem = clash_example()
    for query in problem.queries:
        assert plan_alone(problem, query).cost == pytest.approx(475)
    assert individual_cost(problem) == pytest.approx(950)
    joint = improve(problem, iterations=50)
    assert joint.cost == pytest.approx(800)
    q1, q2 = problem.queries
    assert [str(store) for store in joint.paths["s", q1.whole]] == ["t", "r"]
    assert [str(store) for store in joint.paths["t", q2.whole]] == ["s", "u"]


def test_alone_the_expensive_join_is_avoided() -> None:
    problem = clash_example()
    q1, q2 = problem.queries
    assert [str(store) for store in plan_alone(problem, q1).paths["s", q1.whole]] == ["r", "t"]
    assert [str(store) for store in plan_alone(problem, q2).paths["t", q2.whole]] == ["u", "s"]
