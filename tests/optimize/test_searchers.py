"""All searchers on random problems: plans are complete, cost what they say, and keep their promises."""

from __future__ import annotations

import random
from dataclasses import replace
from importlib.util import find_spec
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.optimize.brute_force import Layouts
from tests.support.examples import examples
from tests.support.optimizer_problems import graph, mixed_problem, paper_problem, plan_alone
from tests.support.waiting import PATIENCE
from watersmeet.errors import ModelError
from watersmeet.optimize.heuristic.annealing import Choices, improve
from watersmeet.optimize.heuristic.draft_plan import Draft
from watersmeet.optimize.heuristic.greedy import fast, first_draft
from watersmeet.optimize.heuristic.individual import individual, individual_cost
from watersmeet.optimize.heuristic.numbered_problem import Space
from watersmeet.optimize.joingraph import QueryGraph
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.search import optimize, searchers, verify
from watersmeet.optimize.solution import Solution, price
from watersmeet.optimize.statistics import Statistics
from watersmeet.optimize.weights import PAPER

ITERATIONS = 40


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    largest: int = 5,
    materialize: bool | None = None,
    budget: bool = False,
    places: int | None = None,
) -> Problem:
    return mixed_problem(
        random.Random(draw(st.integers(0, 10**6))),
        relations=draw(st.integers(3, 8)),
        queries=draw(st.integers(1, 6)),
        largest=largest,
        partitions=draw(st.sampled_from((1, 3, 8))) if places is None else places,
        materialize=draw(st.booleans()) if materialize is None else materialize,
        layouts=draw(st.sampled_from(("one", "many", "ignored"))),
        spare_storage=draw(st.sampled_from((0.0, 0.3, 1.0))) if budget else None,
        thetas=draw(st.sampled_from((0.0, 0.0, 0.4, 1.0))),
    )


@given(problems(budget=True))
@settings(max_examples=examples(60))
def test_plans_are_complete_and_cost_what_they_say(problem: Problem) -> None:
    plans: list[Solution] = [fast(problem), improve(problem, iterations=ITERATIONS), individual(problem)]
    assert plans[1].cost <= plans[0].cost * (1 + 1e-9)
    for name in ("flat", "left-deep"):
        try:
            plans.append(searchers[name](problem, 1.0))
        except ModelError as rejected:
            expected = {
                "flat": False,
                "left-deep": not problem.materialize or problem.storage_budget is not None,
            }
            assert expected[name], rejected
    for plan in plans:
        verify(problem, plan)


@given(problems())
@settings(max_examples=examples(40))
def test_sharing_never_costs_more_than_each_query_alone(problem: Problem) -> None:
    # With filters the store of a stream that is shared has more rows than each query alone would need.
    problem = replace(problem, demands={})
    alone = individual(problem)
    assert alone.cost <= individual_cost(problem) * (1 + 1e-9)
    assert improve(problem, iterations=ITERATIONS, start=alone).cost <= alone.cost * (1 + 1e-9)


@given(problems(budget=True))
@settings(max_examples=examples(40))
def test_more_search_never_costs_more(problem: Problem) -> None:
    """Also with several places: the queries' own plans put together have one placement for each store, too."""
    names = ("improve", "greedy", "individual")
    costs = {name: optimize(problem, searcher=name, time_limit=0.05).cost for name in names}
    assert costs["improve"] <= costs["greedy"] * (1 + 1e-9)
    assert costs["greedy"] <= costs["individual"] * (1 + 1e-9)


@pytest.mark.skipif(find_spec("highspy") is None, reason="no solver")
@given(problems(largest=3))
@settings(max_examples=examples(40))
def test_a_proof_is_below_every_other_plan(problem: Problem) -> None:
    best = optimize(problem, searcher="exact", time_limit=PATIENCE)
    if not best.optimal:
        return
    for name in ("improve", "greedy", "individual", "flat"):
        limit = 0.05 if name == "improve" else PATIENCE
        assert best.cost <= optimize(problem, searcher=name, time_limit=limit).cost * (1 + 1e-6), name


@given(problems(), st.randoms(use_true_random=False))
@settings(max_examples=examples(30))
def test_the_order_of_the_queries_changes_nothing(problem: Problem, chance: random.Random) -> None:
    order = chance.sample(problem.queries, len(problem.queries))
    shuffled = [
        QueryGraph(f"other{at}", tuple(chance.sample(query.relations, len(query.relations))), query.links)
        for at, query in enumerate(order)
    ]
    demands = {f"other{at}": problem.demands[q.name] for at, q in enumerate(order) if q.name in problem.demands}
    other = replace(problem, queries=tuple(shuffled), demands=demands)
    assert fast(other).cost == fast(problem).cost
    assert improve(other, iterations=ITERATIONS).cost == improve(problem, iterations=ITERATIONS).cost
    assert individual(other).cost == pytest.approx(individual(problem).cost)


@given(problems(materialize=True, budget=True), st.integers(0, 1000))
@settings(max_examples=examples(40))
def test_the_cost_kept_by_a_draft_is_the_price_of_its_plan(problem: Problem, seed: int) -> None:
    draft = first_draft(Space(problem))
    chance = random.Random(seed)
    choices = Choices(draft)
    for _ in range(30):
        before = draft.mark()
        state = (dict(draft.paths), {store: held for store, held in draft.layouts.items() if held})
        # Either anything goes or nothing does: what is taken back must leave no trace.
        kept = choices.step(chance, chance.choice((0.0, 10.0 * draft.cost)))
        if not kept:
            assert (draft.paths, {store: held for store, held in draft.layouts.items() if held}) == state
            assert draft.mark() == before
        draft.commit()
        plan = draft.solution("test", 0.0)
        verify(problem, plan)
        assert plan.cost == pytest.approx(draft.cost, rel=1e-9)
        assert plan.storage == pytest.approx(draft.storage, rel=1e-9)
    again = Draft(Space(problem))
    again.adopt(plan)
    assert again.cost == pytest.approx(plan.cost)


@given(problems(largest=4, materialize=False))
@settings(max_examples=examples(25))
def test_a_query_alone_is_exact(problem: Problem) -> None:
    """Against all probe orders under all single layouts."""
    layouts = "one" if problem.layouts == "many" else problem.layouts
    problem = replace(problem, layouts=layouts, weights=PAPER)  # otherwise paths share indexes
    query = problem.queries[0]
    alone = replace(problem, queries=(query,))
    best = min(
        sum(
            min(_cost(alone, query, start, order, layouts) for order in _orders(query, start))
            for start in query.relations
        )
        for layouts in _all_layouts(alone)
    )
    assert plan_alone(problem, query).cost == pytest.approx(best)


def _orders(query: QueryGraph, start: str) -> list[tuple[str, ...]]:
    others = sorted(set(query.relations) - {start})
    return [
        order
        for order in permutations(others)
        if all(order[at] in query.reachable(frozenset((start, *order[:at]))) for at in range(len(order)))
    ]


def _all_layouts(problem: Problem) -> list[Layouts]:
    layouts: list[Layouts] = [{}]
    if problem.has_layouts:
        for relation in problem.relations:
            store = problem.queries[0].within(frozenset((relation,)))
            layouts = [{**some, store: (end,)} for some in layouts for end in problem.layout_candidates(store)]
    return layouts


def _cost(problem: Problem, query: QueryGraph, start: str, order: tuple[str, ...], layouts: Layouts) -> float:
    path = tuple(query.within(frozenset((relation,))) for relation in order)
    return price(problem, {(start, query.whole): path}, layouts).cost


@pytest.mark.parametrize("partitions", [1, 3, 8])
def test_more_queries_than_relations(partitions: int) -> None:
    problem = paper_problem(10, 40, 3, partitions=partitions)
    greedy = optimize(problem, searcher="greedy")
    better = improve(problem, iterations=200)
    verify(problem, better)
    assert better.cost <= greedy.cost
    if partitions == 1:
        assert greedy.cost < 0.6 * individual_cost(problem)


def test_self_joins_share_one_store() -> None:
    query = graph("q", "r.a = r@2.b", "r@2.a = s.a", "s.b = r@3.b")
    problem = Problem((query,), Statistics({"r": 10.0, "s": 100.0}), partitions=4)
    for name in ("greedy", "improve", "individual", "flat", "left-deep"):
        plan = optimize(problem, searcher=name, time_limit=0.2)
        assert plan.storage >= 110.0
        assert len([store for store in plan.layouts if store.is_stream]) <= 2


def test_a_query_over_one_stream_needs_no_probe() -> None:
    problem = Problem((QueryGraph("all", ("r",), frozenset()), graph("q", "r.a = s.a")))
    plan = optimize(problem, searcher="improve", time_limit=0.1)
    assert plan.paths["r", problem.queries[0].whole] == ()
    assert optimize(Problem((QueryGraph("all", ("r",), frozenset()),)), searcher="greedy").cost == 0


def test_no_queries_no_cost() -> None:
    for name in ("greedy", "improve", "individual", "flat"):
        assert optimize(Problem(()), searcher=name, time_limit=0.1).cost == 0


def test_queries_without_a_plan_are_rejected() -> None:
    apart = QueryGraph("q", ("r", "s", "t"), graph("q", "r.a = s.a").links)
    with pytest.raises(ModelError, match="nothing compares t"):
        optimize(Problem((apart,)))
    with pytest.raises(ModelError, match="unknown searcher best"):
        optimize(Problem((graph("q", "r.a = s.a"),)), searcher="best")
    with pytest.raises(ModelError, match="less than the streams need"):
        Problem((graph("q", "r.a = s.a"),), storage_budget=1.0)


def test_the_default_proves_small_problems_where_a_solver_is_installed() -> None:
    problem = paper_problem(10, 5, 3)
    plan = optimize(problem, time_limit=PATIENCE)
    if find_spec("highspy"):
        assert plan.optimal
    assert plan.cost <= optimize(problem, searcher="greedy").cost


def test_the_same_problem_has_the_same_plan() -> None:
    problem = paper_problem(20, 10, 4)
    one, other = (improve(problem, iterations=100) for _ in range(2))
    assert one.paths == other.paths
    assert one.layouts == other.layouts
