"""The optimizer's costs: on the example of the CLASH paper, and with filters and windows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.optimizer_problems import graph, plan_alone
from watersmeet.optimize import joingraph
from watersmeet.optimize.demands import Demand
from watersmeet.optimize.exact.search import simple_plan
from watersmeet.optimize.heuristic.annealing import improve
from watersmeet.optimize.heuristic.individual import individual_cost
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.search import improved, optimize, verify
from watersmeet.optimize.solution import priced
from watersmeet.optimize.statistics import Statistics
from watersmeet.optimize.weights import EMBEDDED, PAPER, Weights


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


def filtered(*shares: tuple[float, float], apart: bool = True) -> Problem:
    """Two queries that begin with R ⋈ S, or one join asked for twice; each passes a share of the rows of R and of S."""
    others = ("s.b = t.b", "s.b = u.b") if apart else ("s.b = t.b", "s.b = t.b")
    queries = tuple(graph(f"q{at}", "r.a = s.a", other) for at, other in enumerate(others))
    demands = {f"q{at}": Demand({"r": ("r", f"of r {at}"), "s": ("s", f"of s {at}")}) for at in range(len(shares))}
    passing = {(name, f"of {name} {at}"): of[place] for at, of in enumerate(shares) for place, name in enumerate("rs")}
    statistics = Statistics(dict.fromkeys("rstu", 100.0), filters=passing)
    weights = replace(PAPER, once=False)
    return Problem(queries, statistics, materialize=False, layouts="ignored", weights=weights, demands=demands)


def flow_to_s(problem: Problem) -> float:
    plan = simple_plan(problem)
    moves = priced(problem, plan.paths, plan.layouts)
    (first,) = [of for move, of in moves.items() if move.node[0] == "r" and len(move.node[1]) == 1]
    assert first.cost == pytest.approx(first.flow * problem.buckets)
    return first.flow


def test_a_shared_step_costs_what_its_largest_query_needs() -> None:
    assert flow_to_s(filtered((0.1, 1.0), (0.5, 1.0))) == pytest.approx(50)
    assert flow_to_s(filtered((0.1, 1.0))) == pytest.approx(100), "the other query wants every row"


def test_queries_of_one_join_want_the_sum_of_their_shares_at_most_all() -> None:
    assert flow_to_s(filtered((0.3, 1.0), (0.4, 1.0), apart=False)) == pytest.approx(70)
    assert flow_to_s(filtered((0.7, 1.0), (0.4, 1.0), apart=False)) == pytest.approx(100)


def test_a_filter_behind_a_step_reduces_what_follows() -> None:
    problem = filtered((0.5, 0.1), (0.5, 0.1), apart=False)
    want = ("r", problem.queries[0].whole)
    shares = [problem.wanted.share(want, problem.queries[0].within(frozenset(names))) for names in ("r", "rs", "rst")]
    assert shares == pytest.approx([1.0, 0.1, 0.1])


def test_a_window_matters_to_the_stored_rows_only() -> None:
    problem = filtered()
    query = problem.queries[0]
    shorter = replace(problem, queries=(query,), demands={query.name: Demand(windows={"r": 0.1, "s": 0.5})})
    assert shorter.wanted.share(("r", query.whole), query.within(frozenset("rs"))) == pytest.approx(0.5)
    assert shorter.wanted.share(("s", query.whole), query.within(frozenset("rs"))) == pytest.approx(0.1)
    assert shorter.wanted.share(("t", query.whole), query.whole) == pytest.approx(0.05)


def test_streams_that_are_renewed_faster_send_more() -> None:
    problem = filtered()
    known = replace(problem.statistics, arrivals={"r": 40.0, "s": 10.0, "t": 10.0, "u": 20.0})
    problem = replace(problem, statistics=known, ticks=0.0)
    assert problem.ticks == pytest.approx(400 / 80)
    query = problem.queries[0]
    assert problem.tuples(("r", query.within(frozenset("r")))) == pytest.approx(200)
    assert problem.tuples(("s", query.within(frozenset("s")))) == pytest.approx(50)


@pytest.mark.parametrize("lattice", [300, 1])
@pytest.mark.parametrize("weights", [PAPER, EMBEDDED])
def test_so_many_equalities_that_nothing_seems_to_be_found(
    monkeypatch: pytest.MonkeyPatch, weights: Weights, lattice: int
) -> None:
    """120 equalities of a thousandth each: no number is as small as the size. All plans of the rest have that flow."""
    monkeypatch.setattr(joingraph, "LATTICE", lattice)
    monkeypatch.setattr(joingraph, "LEAST_LATTICE", lattice)
    query = graph("q", *(f"a.x{at} = b.x{at}" for at in range(120)), "b.x = c.x")
    problem = Problem((query,), weights=weights)
    assert problem.size(query.within(frozenset("ab"))) == 0.0
    assert problem.is_narrow(query) == (lattice > 1)
    verify(problem, optimize(problem, searcher="greedy"))
    verify(problem, improved(problem))
