"""Fig. 3 of the CLASH paper: candidate probe orders and partitionings."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from hypothesis import given, settings

from bench.optimizer.clash_paper import PaperProgram, candidates, paper, partitioned, solve_paper
from tests.optimize.test_searchers import problems
from tests.support.examples import examples
from tests.support.optimizer_problems import graph
from tests.support.waiting import PATIENCE
from watersmeet.optimize.joingraph import QueryGraph
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.search import optimize, verify

Q1 = graph("q1", "r.b = s.b", "s.c = t.c")
Q2 = graph("q2", "s.c = t.c", "t.d = u.d")


def orders(query: QueryGraph) -> dict[str, set[tuple[str, ...]]]:
    return {
        start: {tuple(str(store).replace("⋈", "") for store in path) for path in candidates(query, start)}
        for start in query.relations
    }


def test_materializable_results() -> None:
    found = {str(sub).replace("⋈", "") for query in (Q1, Q2) for sub in query.connected if len(sub) < 3}
    assert found == {"r", "s", "t", "u", "rs", "st", "tu"}
    materializable = Problem((Q1, Q2)).materializable
    assert {str(sub) for sub in materializable} == {"r⋈s", "s⋈t", "t⋈u"}


def test_candidate_orders_of_the_queries() -> None:
    assert orders(Q1) == {
        "r": {("s", "t"), ("st",)},
        "s": {("t", "r"), ("r", "t")},
        "t": {("s", "r"), ("rs",)},
    }
    assert orders(Q2) == {
        "s": {("t", "u"), ("tu",)},
        "t": {("u", "s"), ("s", "u")},
        "u": {("t", "s"), ("st",)},
    }


@pytest.mark.parametrize("equality", ["r.b = s.b", "s.c = t.c", "t.d = u.d"])
def test_candidate_orders_of_the_subqueries(equality: str) -> None:
    one, other = graph("q", equality).relations
    assert orders(graph("q", equality)) == {one: {(other,)}, other: {(one,)}}


def test_partitioned_orders_of_q1_from_r() -> None:
    problem = Problem((Q1, Q2), partitions=4)
    want = ("r", Q1.whole)
    found = {
        tuple(f"{str(store).replace('⋈', '')}[{layout[1].column}]" for store, layout in order.stops if layout)
        for path in candidates(Q1, "r")
        for order in partitioned(problem, Q1, want, path)
    }
    assert found == {
        ("s[b]", "t[c]"),
        ("s[c]", "t[c]"),
        ("s[b]", "t[d]"),
        ("s[c]", "t[d]"),
        ("st[b]",),
        ("st[d]",),
    }


def test_partitioning_by_an_unknown_attribute_is_a_broadcast() -> None:
    problem = Problem((Q1, Q2), partitions=4)
    want = ("r", Q1.whole)
    costs = {
        tuple(layout[1].column for _, layout in order.stops if layout): order.costs
        for path in candidates(Q1, "r")[:1]
        for order in partitioned(problem, Q1, want, path)
    }
    assert (costs["b", "c"], costs["c", "d"]) == ((1000, 500), (4000, 2000))


def test_orders_and_prefixes_of_the_program() -> None:
    program = PaperProgram(Problem((Q1, Q2), partitions=4))
    assert len(program.x["r", Q1.whole]) == 6
    st = Q1.within(frozenset("st"))
    assert sum(len(program.x[start, st]) for start in "st") == 4
    from_r = [step for step in program.y if step[0] == "r"]
    assert len([step for step in from_r if len(step[1]) == 1]) == 4  # S[b], S[c], ST[b], ST[d]


def test_the_printed_program_costs_no_less_than_ours_when_priced_alike() -> None:
    pytest.importorskip("highspy")
    for layouts in ("one", "many"):
        problem = Problem((Q1, Q2), partitions=4, layouts=layouts)
        result = solve_paper(problem, PATIENCE)
        assert result.optimal
        assert result.objective <= result.solution.cost + 1e-6  # copies and results have no price in it
        assert optimize(problem, searcher="exact", time_limit=PATIENCE).cost <= result.solution.cost + 1e-6


@pytest.mark.skipif(find_spec("highspy") is None, reason="no solver")
@given(problems(largest=3))
@settings(max_examples=examples(40))
def test_a_proof_is_below_the_plan_of_the_printed_program(problem: Problem) -> None:
    best, printed = optimize(problem, searcher="exact", time_limit=PATIENCE), paper(problem, PATIENCE)
    verify(problem, printed)
    assert not best.optimal or best.cost <= printed.cost * (1 + 1e-6)
