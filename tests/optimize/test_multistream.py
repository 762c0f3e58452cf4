"""MultiStream: greedy probe orders, and the tree shapes of chains under a budget."""

from __future__ import annotations

import pytest

from tests.support.optimizer_problems import graph
from watersmeet.errors import ModelError
from watersmeet.optimize.costs import Tree
from watersmeet.optimize.joingraph import Subquery
from watersmeet.optimize.multistream import (
    chain,
    chain_tree,
    flat,
    greedy_order,
    left_deep,
    left_deep_tree,
    linear_order,
    materialize,
    valid,
)
from watersmeet.optimize.problem import Move, Problem, moves_of
from watersmeet.optimize.search import verify
from watersmeet.optimize.statistics import Statistics

CHAIN = graph("q", "r1.a = r2.a", "r2.b = r3.b", "r3.c = r4.c")
NAMES = ("r1", "r2", "r3", "r4")


def sets(*names: str) -> list[frozenset[str]]:
    return [frozenset((name,)) for name in names]


def test_greedy_prefers_small_results_and_few_tasks() -> None:
    sizes = {frozenset("r"): 100.0, frozenset("rs"): 400.0, frozenset("rt"): 50.0, frozenset("ru"): 50.0}

    def size(some: frozenset[str]) -> float:
        return sizes.get(some, 1000.0 * len(some))

    even = dict.fromkeys(sets("s", "t", "u"), 1.0)
    assert greedy_order(frozenset("r"), sets("s", "t", "u"), size, even)[0] == frozenset("t")
    # t and u lead to equally small results; the store with fewer tasks receives the first broadcast.
    uneven = {**even, frozenset("t"): 3.0}
    assert greedy_order(frozenset("r"), sets("s", "t", "u"), size, uneven)[0] == frozenset("u")


def test_greedy_never_makes_a_cross_product() -> None:
    problem = Problem((CHAIN,), Statistics({"r4": 1.0}), materialize=False)
    for (start, _), path in flat(problem).paths.items():
        joined = {start}
        for store in path:
            assert CHAIN.reachable(frozenset(joined)) & store.relations
            joined |= store.relations


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
    tree = Tree(NAMES)
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


def test_chain_refuses_other_join_graphs() -> None:
    star = graph("star", "s.a = r.a", "s.b = t.b", "s.c = u.c")
    with pytest.raises(ModelError, match="star is not a chain"):
        chain(Problem((star,)))
    ring = graph("ring", "r.a = s.a", "s.b = t.b", "t.c = r.c")
    with pytest.raises(ModelError, match="ring is not a chain"):
        chain(Problem((ring,)))
    assert linear_order(CHAIN) == list(NAMES)


def test_left_deep_stores_every_prefix() -> None:
    loose = {frozenset((("r1", "a"), ("r2", "a"))): 0.1, frozenset((("r3", "c"), ("r4", "c"))): 0.1}
    statistics = Statistics({"r1": 1000.0, "r2": 10.0, "r3": 10.0, "r4": 1000.0}, loose)
    problem = Problem((CHAIN,), statistics)
    assert str(left_deep_tree(problem, CHAIN)) in {"(((r2 r3) r1) r4)", "(((r2 r3) r4) r1)"}
    plan = left_deep(problem)
    verify(problem, plan)
    assert [len(store) for store in plan.materialized] == [2, 3]
    with pytest.raises(ModelError, match="stores intermediate results"):
        left_deep(Problem((CHAIN,), materialize=False))
    with pytest.raises(ModelError, match="storage budget"):
        left_deep(Problem((CHAIN,), statistics, storage_budget=2020.0))


def test_probe_orders_with_a_common_prefix_merge_into_a_tree() -> None:
    """Fig. 4 of the CLASH paper: ⟨R, S, T⟩, ⟨R, S, W⟩ and ⟨R, U⟩ are one tree of four edges."""
    queries = (
        graph("q1", "r.d = s.d", "s.b = t.b"),
        graph("q2", "r.d = s.d", "s.e = w.e"),
        graph("q3", "r.a = u.a"),
    )
    paths: list[list[str]] = [["s", "t"], ["s", "w"], ["u"]]
    moves: set[Move] = set()
    for query, path in zip(queries, paths, strict=True):
        stores: tuple[Subquery, ...] = tuple(query.within(frozenset((name,))) for name in path)
        moves |= set(moves_of(("r", query.whole), stores, query))
    edges = sorted((str(move.node[1]), str(move.store)) for move in moves)
    assert edges == [("r", "s"), ("r", "u"), ("r⋈s", "t"), ("r⋈s", "w")]
