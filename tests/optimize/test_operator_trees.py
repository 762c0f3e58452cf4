"""Plans of operator trees: greedy probe orders, flat and left-deep shapes."""

from __future__ import annotations

import pytest

from tests.support.optimizer_problems import graph
from watersmeet.errors import ModelError
from watersmeet.optimize.joingraph import Subquery
from watersmeet.optimize.operator_trees import flat, greedy_order, left_deep, left_deep_tree
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.search import verify
from watersmeet.optimize.solution import Move, moves_of
from watersmeet.optimize.statistics import Statistics

CHAIN = graph("q", "r1.a = r2.a", "r2.b = r3.b", "r3.c = r4.c")


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
