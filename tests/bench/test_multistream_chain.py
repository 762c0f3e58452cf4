"""MultiStream's tree shapes of chains under a budget."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from bench.optimizer.multistream_chain import chain, chain_tree, linear_order, materialize, valid
from tests.optimize.test_searchers import problems
from tests.support.examples import examples
from tests.support.optimizer_problems import graph
from watersmeet.errors import ModelError
from watersmeet.optimize.joingraph import QueryGraph
from watersmeet.optimize.operator_trees import OperatorTree
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.search import verify
from watersmeet.optimize.statistics import Statistics

CHAIN = graph("q", "r1.a = r2.a", "r2.b = r3.b", "r3.c = r4.c")
NAMES = ("r1", "r2", "r3", "r4")


def costs(**cheap: float) -> dict[tuple[str, ...], float]:
    return {tuple(f"r{at}" for at in name[1:]): value for name, value in cheap.items()}


@pytest.mark.parametrize(
    ("cheap", "budget", "shape"),
    [
        ({}, 4.0, "(r1 r2 r3 r4)"),  # I: nothing fits
        (costs(_12=1.0), 5.0, "((r1 r2) r3 r4)"),  # II
        (costs(_12=1.0, _34=1.0), 6.0, "((r1 r2) (r3 r4))"),  # III
        (costs(_123=1.0), 5.0, "((r1 r2 r3) r4)"),  # IV
        (costs(_12=1.0, _123=1.0), 6.0, "(((r1 r2) r3) r4)"),  # V
        (costs(_123=1.0, _23=2.0), 7.0, "((r1 (r2 r3)) r4)"),  # V as a zig-zag tree
    ],
)
def test_all_shapes_of_four_relations_are_reached(
    cheap: dict[tuple[str, ...], float], budget: float, shape: str
) -> None:
    def size(some: tuple[str, ...]) -> float:
        return 1.0 if len(some) == 1 else cheap.get(some, 100.0)

    assert str(chain_tree(NAMES, size, budget)) == shape


def test_valid_pairs_of_the_paper() -> None:
    tree = OperatorTree(NAMES)
    assert [(i + 1, j + 1) for _, i, j in valid(tree)] == [(1, 2), (1, 3), (2, 3), (2, 4), (3, 4)]
    second = materialize(tree, ((), 0, 1))
    assert {str(materialize(second, span)) for span in valid(second)} == {"(((r1 r2) r3) r4)", "((r1 r2) (r3 r4))"}
    fourth = materialize(tree, ((), 0, 2))
    assert {str(materialize(fourth, span)) for span in valid(fourth)} == {"(((r1 r2) r3) r4)", "((r1 (r2 r3)) r4)"}


def test_chain_keeps_to_the_budget() -> None:
    statistics = Statistics(dict.fromkeys(NAMES, 100.0))
    for budget, stored in ((400.0, 0), (550.0, 1), (650.0, 2)):
        problem = Problem((CHAIN,), statistics, storage_budget=budget)
        plan = chain(problem)
        verify(problem, plan)
        assert len(plan.materialized) == stored
        assert plan.storage <= budget


def test_chain_rejects_other_join_graphs() -> None:
    star = graph("star", "s.a = r.a", "s.b = t.b", "s.c = u.c")
    with pytest.raises(ModelError, match="star is not a chain"):
        chain(Problem((star,)))
    ring = graph("ring", "r.a = s.a", "s.b = t.b", "t.c = r.c")
    with pytest.raises(ModelError, match="ring is not a chain"):
        chain(Problem((ring,)))
    assert linear_order(CHAIN) == list(NAMES)


def is_chain(query: QueryGraph) -> bool:
    try:
        return bool(linear_order(query))
    except ModelError:
        return False


@given(problems(budget=True))
@settings(max_examples=examples(60))
def test_plans_of_chains_are_complete_and_cost_what_they_say(problem: Problem) -> None:
    if all(is_chain(query) for query in problem.queries):
        verify(problem, chain(problem))
    else:
        with pytest.raises(ModelError, match="not a chain"):
            chain(problem)
