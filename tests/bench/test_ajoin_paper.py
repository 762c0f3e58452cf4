"""AJoin's optimizer: Eq. 2 by its words, groups and orders of the paper's examples, the rule of 50 %."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.optimizer.ajoin_paper import Eq2, HalfChanged, Side, grouped, reordered, reordering
from tests.optimize.test_searchers import problems
from tests.support.examples import examples
from tests.support.optimizer_problems import graph
from watersmeet.errors import ModelError
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.search import verify
from watersmeet.optimize.statistics import Statistics

QUERIES = 4
rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2**QUERIES - 1)), max_size=12)


def side(given_rows: list[tuple[int, int]]) -> Side:
    wants = np.array([[word >> bit & 1 for bit in range(QUERIES)] for _, word in given_rows], bool)
    return Side(np.array([key for key, _ in given_rows], np.int64), wants.reshape(len(given_rows), QUERIES))


@given(rows, rows, st.sets(st.integers(0, QUERIES - 1), min_size=1))
def test_a_join_costs_what_equation_2_says(
    left: list[tuple[int, int]], right: list[tuple[int, int]], queries: set[int]
) -> None:
    mask = sum(1 << query for query in queries)
    one, other = ([row for row in rows if row[1] & mask] for rows in (left, right))
    keys = min(len({key for key, _ in some}) for some in (one, other))
    results = sum(a[0] == b[0] and a[1] & b[1] & mask != 0 for a in left for b in right)
    assert Eq2(side(left), side(right))(sorted(queries)) == len(one) + len(other) + keys + results
    indexed = Eq2(side(left), side(right), indexed=(False, True), sink=False)
    assert indexed(sorted(queries)) == len(other) + keys


@given(rows, rows)
def test_groups_are_cheaper_than_their_parts(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    cost = Eq2(side(left), side(right))
    groups = grouped(cost, range(QUERIES))
    assert sorted(query for group in groups for query in group) == list(range(QUERIES))
    for group in groups:
        assert len(group) == 1 or cost(group) < sum(cost([query]) for query in group)
    alone = [group[0] for group in groups if len(group) == 1]
    for pair in combinations(alone, 2):
        assert cost(pair) >= sum(cost([query]) for query in pair)


def test_queries_that_want_different_rows_are_apart() -> None:
    """Fig. 6: queries 0 and 1 want the same rows, 2 wants others; a new query goes to its like, or by itself."""
    wanted = [(key, 0b0011) for key in range(3)] + [(key, 0b1100) for key in range(3, 6)]
    cost = Eq2(side(wanted), side(wanted))
    assert grouped(cost, [0, 1, 2]) == [[0, 1], [2]]
    assert grouped(cost, [0, 1, 2, 3], [[0, 1], [2]]) == [[0, 1], [2, 3]]


def test_a_join_that_several_queries_share_is_chosen_first() -> None:
    """Fig. 7b: the join of v and w is larger than that of w and c, but two queries share it."""
    vw, wc = "v.a = w.a", "w.b = c.b"
    sizes = {name: 100.0 for name in "vwc"}
    key = {f"{relation}.{column}": (relation, column) for relation, column in ("va", "wa", "wb", "cb")}
    selectivities = {frozenset((key["v.a"], key["w.a"])): 0.015, frozenset((key["w.b"], key["c.b"])): 0.01}
    statistics = Statistics(sizes, selectivities)

    def tree(*queries: str, apart: bool = False) -> str:
        asked = [graph("q", vw, wc), *(graph(f"other{at}", text) for at, text in enumerate(queries))]
        group = (lambda query, joined: query.name) if apart else (lambda query, joined: None)
        return str(reordered(Problem(tuple(asked), statistics), group)["q"])

    assert tree() == "((c w) v)"
    assert tree(vw) == "((v w) c)"
    assert tree(vw, wc) == "((c w) v)"
    assert tree(vw, apart=True) == "((c w) v)"  # in another group, its join is another


def test_half_of_the_queries_changed_since_the_last_full_plan() -> None:
    since, by_batch = HalfChanged(), HalfChanged(by_batch=True)
    assert [since.asks(2, 10) for _ in range(6)] == [False, False, True, False, False, True]
    assert [by_batch.asks(changes, 10) for changes in (2, 5, 6)] == [False, False, True]


@given(problems(budget=True))
@settings(max_examples=examples(40))
def test_plans_are_complete(problem: Problem) -> None:
    try:
        plan = reordering(problem)
    except ModelError:  # it stores what the problem does not allow
        assert not problem.materialize or problem.storage_budget is not None
        return
    verify(problem, plan)
