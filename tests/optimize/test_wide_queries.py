"""Queries with too many connected subqueries to search among all: a plan at once, by an effort that is counted."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from importlib.util import find_spec

import pytest

from tests.support.examples import seeds
from tests.support.optimizer_problems import IN_TUPLES, graph, link, plan_alone, theta_link
from tests.support.waiting import PATIENCE
from watersmeet.optimize import joingraph, search
from watersmeet.optimize.exact.search import exact
from watersmeet.optimize.heuristic import annealing, greedy, incremental, individual
from watersmeet.optimize.heuristic.draft_plan import Draft
from watersmeet.optimize.heuristic.greedy import fast, first_draft
from watersmeet.optimize.heuristic.incremental import extended
from watersmeet.optimize.heuristic.numbered_problem import Space
from watersmeet.optimize.joingraph import QueryGraph
from watersmeet.optimize.operator_trees import flat, left_deep
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.search import improved, optimize, verify
from watersmeet.optimize.statistics import Statistics
from watersmeet.optimize.weights import EMBEDDED

MANY = 16
# Of a query of n relations, the search looks at n² · 4 sets and their n next relations. It had 2¹⁶ sets, or 3¹⁶ pairs.
SETS, MOVES = MANY**2 * 4, MANY**3 * 4


def star(size: int, name: str = "star", first: int = 0) -> QueryGraph:
    return graph(name, *(f"r0.k{at} = r{at}.k{at}" for at in range(first + 1, first + size)))


def self_star(size: int) -> QueryGraph:
    relations = ["r", *(f"r@{at}" for at in range(2, size + 1))]
    return QueryGraph("self star", tuple(relations), frozenset(link("r.a", f"{one}.b") for one in relations[1:]))


def clique(size: int) -> QueryGraph:
    return graph("clique", *(f"r{one}.k = r{other}.k" for one, other in itertools.combinations(range(size), 2)))


def multi_clique(size: int) -> QueryGraph:
    """Each two relations have a key of their own."""
    pairs = itertools.combinations(range(size), 2)
    return graph("multi-clique", *(f"r{one}.k{one}x{other} = r{other}.k{one}x{other}" for one, other in pairs))


def thetas(size: int) -> QueryGraph:
    pairs = itertools.combinations([f"r{at:02}" for at in range(size)], 2)
    links = frozenset(theta_link(*pair) for pair in pairs)
    return QueryGraph("thetas", tuple(f"r{at:02}" for at in range(size)), links)


def statistics(seed: int, relations: int = 40) -> Statistics:
    chance = random.Random(seed)
    sizes = {f"r{at}": chance.choice((10.0, 100.0, 1000.0, 10_000.0)) for at in range(relations)}
    keys = [(f"r{at}", f"k{key}") for at in range(relations) for key in ["", *range(relations)]]
    return Statistics(sizes, distinct={key: chance.choice((1.0, 30.0, 1000.0, 30_000.0)) for key in keys})


def problem(*queries: QueryGraph, seed: int = 1, partitions: int = 1) -> Problem:
    return Problem(queries, statistics(seed), partitions, weights=EMBEDDED)


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("query", [star(MANY), self_star(MANY), clique(MANY), thetas(MANY)], ids=lambda q: q.name)
def test_a_plan_for_sixteen_relations_takes_few_moves(query: QueryGraph, partitions: int) -> None:
    asked = problem(query, partitions=partitions)
    assert not asked.is_narrow(query)
    space = Space(asked)
    draft = first_draft(space)
    verify(asked, draft.solution("greedy", 0.0))
    assert len(space.subquery) <= SETS and len(space.step) <= MOVES


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("query", [star(10), clique(9)], ids=lambda q: q.name)
def test_few_sets_have_as_good_a_plan_as_all(monkeypatch: pytest.MonkeyPatch, query: QueryGraph, seed: int) -> None:
    asked = replace(problem(query, seed=seed), materialize=False)
    few = fast(asked)
    monkeypatch.setattr(joingraph, "LATTICE", 10_000)
    monkeypatch.setattr(joingraph, "LATTICES", 10_000)
    again = replace(query)  # which has counted nothing yet
    complete = replace(asked, queries=(again,))
    assert complete.is_narrow(again) and not asked.is_narrow(query)
    assert few.cost <= fast(complete).cost * 1.001


def test_many_large_queries_take_less_each() -> None:
    """Fifty of them, all different, and small ones that keep their complete lattices."""
    large = [star(12, f"star{at}", first=at) for at in range(20)]
    small = graph("small", "r0.k1 = r1.k1", "r0.k2 = r2.k2")
    asked = problem(*large, small)
    assert asked.is_narrow(small)
    alone, together = Space(problem(large[0])), Space(asked)
    assert len(together.step) == 0
    draft = first_draft(together, stores=False)
    verify(asked, draft.solution("greedy", 0.0))
    first_draft(alone, stores=False)
    assert len(together.step) < len(large) * len(alone.step)


def test_steps_of_other_queries_are_found() -> None:
    """The order that is cheapest alone begins elsewhere; a step that another query pays for is taken instead."""
    sizes = {f"r{at}": 1000.0 for at in range(12)}
    known = Statistics(sizes, distinct={("r11", "k11"): 900.0, **{(f"r{at}", f"k{at}"): 1000.0 for at in range(1, 11)}})
    other = graph("other", "r0.k11 = r11.k11")
    asked = Problem((star(12), other), known, weights=EMBEDDED)
    plan = fast(asked)
    first = {path[0] for (start, whole), path in plan.paths.items() if start == "r0" and len(whole) == 12}
    assert {str(store) for store in first} == {"r11"}


class _FastClock:
    """A machine so busy that hours pass between two looks at the clock."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 3600.0
        return self.now


def test_plans_that_are_waited_for_do_not_depend_on_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = graph("chain", *(f"r{at}.k{at} = r{at + 1}.k{at}" for at in range(5)))
    small, added = graph("small", "r0.k0 = r1.k0", "r1.k1 = r2.k1"), graph("added", "r0.k0 = r1.k0", "r0.k5 = r5.k5")
    before = problem(chain, small, star(12), partitions=3)
    after = replace(before, queries=(*before.queries, added))

    def plans() -> list[object]:
        first = optimize(before, searcher="greedy")
        changed = extended(after, first, {"chain", "small", "star"}, lambda query, store: True)
        assert changed is not None
        return [(plan.paths, plan.layouts) for plan in (first, changed, improved(before))]

    monkeypatch.setattr(search, "EFFORT", 30_000)
    quick = plans()
    for module in (annealing, greedy, incremental, individual):
        monkeypatch.setattr(module, "perf_counter", _FastClock())
    assert plans() == quick


@pytest.mark.parametrize("searcher", [fast, flat, left_deep])
def test_other_queries_come_and_large_ones_keep_their_paths(searcher: object) -> None:
    """Also those that a left-deep plan stores."""
    assert callable(searcher)
    before = problem(star(MANY), clique(4))
    plan = searcher(before)
    after = replace(before, queries=(*before.queries, graph("new", "r0.k1 = r1.k1", "r0.k2 = r2.k2")))
    changed = extended(after, plan, {"star", "clique"}, lambda query, store: True)
    assert changed is not None
    verify(after, changed)
    assert {want: changed.paths[want] for want in before.wants} == {want: plan.paths[want] for want in before.wants}
    better = annealing.improve(after, iterations=30, start=changed)
    verify(after, better)
    assert better.cost <= changed.cost * (1 + 1e-9)


@pytest.mark.skipif(find_spec("highspy") is None, reason="no solver")
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_proof_for_the_others_beside_a_large_query(partitions: int) -> None:
    small = [graph("one", "r0.k1 = r1.k1", "r0.k2 = r2.k2"), graph("two", "r0.k1 = r1.k1", "r1.k3 = r3.k3")]
    asked = problem(*small, star(MANY), partitions=partitions)
    first = optimize(asked, searcher="greedy")
    best = exact(asked, time_limit=PATIENCE, start=first)
    verify(asked, best)
    assert 0 < best.bound <= best.cost <= first.cost * (1 + 1e-9)
    wide = exact(problem(star(MANY)), time_limit=PATIENCE)
    assert wide.bound == 0.0


@pytest.mark.parametrize("layouts", ["one", "many"])
@pytest.mark.parametrize("query", [star(MANY), self_star(MANY), multi_clique(MANY)], ids=lambda q: q.name)
def test_few_combinations_of_layouts_are_priced(
    monkeypatch: pytest.MonkeyPatch, query: QueryGraph, layouts: str
) -> None:
    """The hub of a star of 16 has 2¹⁵ - 1 sets of layouts, and a clique has as many for each stream."""
    asked = replace(problem(query, partitions=4), layouts=layouts)
    efforts: list[int] = []
    real = individual._best_flat

    def counted(draft: Draft, effort: float) -> None:
        real(draft, effort)
        efforts.append(draft.effort)

    monkeypatch.setattr(individual, "_best_flat", counted)
    verify(asked, optimize(asked, searcher="greedy"))
    assert max(efforts) <= 1.5 * individual.FLAT


@pytest.mark.parametrize("seed", seeds(range(12)))
def test_layouts_one_after_the_other_are_as_good_as_all_combinations(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    query = [star(5), multi_clique(3), graph("chain", *(f"r{at}.k{at} = r{at + 1}.k{at}" for at in range(4)))][seed % 3]
    cheap_copies = replace(IN_TUPLES, kept_row=0.01)
    for number in range(seed, seed + 100):  # until several layouts of a store pay
        asked = Problem((query,), statistics(number), 4, materialize=False, layouts="many", weights=cheap_copies)
        best = plan_alone(asked, query)
        if any(len(held) > 1 for held in best.layouts.values()):
            break
    else:
        raise AssertionError("no store has several layouts")
    monkeypatch.setattr(individual, "LAYOUTS", 0)
    assert plan_alone(asked, query).cost <= best.cost * 1.001
