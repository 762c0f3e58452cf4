"""The exact searcher against all plans of small problems, and what must hold for any."""

from __future__ import annotations

import importlib
import importlib.util
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from bench.optimizer.other_solvers import solve_scip
from tests.optimize.brute_force import cheapest, effort
from tests.support.examples import seeds
from tests.support.optimizer_problems import IN_TUPLES, graph, link, paper_problem, random_demands, with_thetas
from tests.support.waiting import PATIENCE
from watersmeet.errors import ModelError
from watersmeet.optimize.exact import layout_tables as tables
from watersmeet.optimize.exact.search import exact as exact_within
from watersmeet.optimize.exact.search import simple_plan
from watersmeet.optimize.exact.solver import Model
from watersmeet.optimize.joingraph import QueryGraph, Subquery
from watersmeet.optimize.problem import Path, Problem, Want
from watersmeet.optimize.solution import Solution, price
from watersmeet.optimize.statistics import Statistics

exact_module = importlib.import_module("watersmeet.optimize.exact.search")
if importlib.util.find_spec("highspy") is None:
    pytest.skip("highspy is not installed", allow_module_level=True)


def random_query(rng: random.Random, name: str, relations: list[str], size: int) -> QueryGraph:
    chosen = rng.sample(relations, size)
    if "r" in chosen and size > 2 and rng.random() < 0.3:
        chosen[chosen.index("r") - 1] = "r@2"  # r with itself
    pairs = [(chosen[place], rng.choice(chosen[:place])) for place in range(1, size)]
    if size > 2 and rng.random() < 0.4:
        pairs.append((chosen[0], chosen[-1]))  # perhaps a cycle
    links = [link(f"{one}.{rng.choice('ab')}", f"{other}.{rng.choice('ab')}") for one, other in pairs]
    return QueryGraph(name, tuple(chosen), frozenset(links))


def random_problem(seed: int) -> Problem:
    rng = random.Random(seed)
    relations = ["r", "s", "t", "u"]
    sizes = rng.choice([(3,), (3, 2), (3, 3), (3, 3), (4,)])
    queries = tuple(random_query(rng, f"q{n}", relations, size) for n, size in enumerate(sizes))
    if seed % 3 == 0:
        queries = tuple(with_thetas(query, random.Random(seed), 0.5) for query in queries)
    columns = [(relation, column) for relation in relations for column in "ab"]
    statistics = Statistics(
        {relation: float(rng.choice([1, 10, 100, 130])) for relation in relations},
        {frozenset((one, other)): rng.choice([0.005, 0.01, 0.02, 0.3]) for one in columns for other in columns},
    )
    materialize, partitions = rng.random() < 0.7, rng.choice([1, 3, 8])
    layouts = rng.choice(["one", "one", "many", "ignored"])
    if layouts == "many" and partitions > 1 and materialize:
        queries = queries[:1]  # otherwise too many plans to look at
    problem = Problem(queries, statistics, partitions, materialize, layouts)
    if rng.random() < 0.4:
        least = simple_plan(replace(problem, layouts="ignored")).storage
        problem = replace(problem, storage_budget=least * rng.choice([1.0, 1.02, 1.2]) + rng.choice([0.0, 5.0]))
    return problem


def exact(problem: Problem, **options: Any) -> Solution:
    """With all the time that it takes."""
    return exact_within(problem, **{"time_limit": PATIENCE, **options})


def problem_in_seconds(seed: int) -> Problem:
    """The same with all kinds of costs, filters, windows and streams that are renewed at different speeds."""
    rng, problem = random.Random(seed), random_problem(seed)
    arrivals = {relation: size * rng.choice([0.05, 0.1, 0.4]) for relation, size in problem.statistics.sizes.items()}
    weights = replace(
        IN_TUPLES,
        phase=rng.choice([0.0, 1.0, 10.0]),
        index_entry=rng.choice([0.0, 0.5]),
        kept_row=rng.choice([0.1, 1.0]),
        step=rng.choice([0.0, 2.0]),
    )
    statistics = replace(problem.statistics, arrivals=arrivals if rng.random() < 0.7 else {})
    demands = random_demands(problem.queries, rng) if rng.random() < 0.7 else {}
    return replace(problem, statistics=statistics, weights=weights, demands=demands, storage_budget=None, ticks=0.0)


def small_problems(first: int, count: int) -> Iterator[tuple[int, Problem]]:
    """Random problems with few enough plans to look at all of them."""
    seeds = ((seed, random_problem(seed)) for seed in range(first, first + 10 * count))
    return islice(((seed, problem) for seed, problem in seeds if effort(problem) <= 500), count)


def random_plan(problem: Problem, rng: random.Random) -> Solution:
    """Streams only, in any order, with any layout."""
    paths: dict[Want, Path] = {}
    for start, whole in problem.wants:
        joined, path = frozenset((start,)), []
        while joined != whole.relations:
            following = rng.choice(sorted(problem.host(whole).reachable(joined)))
            path.append(Subquery(frozenset((following,)), frozenset()))
            joined |= {following}
        paths[start, whole] = tuple(path)
    streams = simple_plan(problem).layouts
    return price(problem, paths, {stream: (rng.choice(problem.layout_candidates(stream)),) for stream in streams})


@pytest.mark.parametrize("first", seeds(range(0, 26_000, 1000)))
def test_agrees_with_all_plans(first: int) -> None:
    for seed, problem in small_problems(first, 20):
        expected, found = cheapest(problem), exact(problem)
        assert found.cost == pytest.approx(expected.cost), seed
        assert found.bound == pytest.approx(found.cost), seed
        assert found.optimal, seed
        if problem.storage_budget is not None:
            assert found.storage <= problem.storage_budget * (1 + 1e-9), seed


@pytest.mark.parametrize("first", seeds(range(200_000, 212_000, 1000)))
def test_agrees_with_all_plans_in_seconds(first: int) -> None:
    for seed in range(first, first + 30):
        problem = problem_in_seconds(seed)
        if effort(problem) > 100:
            continue
        expected, found = cheapest(problem), exact(problem)
        assert found.cost == pytest.approx(expected.cost), seed
        assert found.bound == pytest.approx(found.cost), seed
        assert found.optimal, seed


@pytest.mark.parametrize("first", seeds(range(100_000, 103_000, 1000)))
@pytest.mark.parametrize("large", [0, 10_000])
def test_tables_and_parts_change_no_cost(first: int, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables for small queries too, and with them every program searched by parts or as a whole."""
    monkeypatch.setattr(tables, "SMALLEST", 2)
    monkeypatch.setattr(exact_module, "LARGE", large)
    for seed, problem in small_problems(first, 20):
        expected, found = cheapest(problem), exact(problem)
        assert found.bound <= expected.cost * (1 + 1e-6), seed
        assert found.cost == pytest.approx(expected.cost), seed


@pytest.mark.parametrize("seed", seeds(range(4)))
def test_larger_problems_with_and_without_tables(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = paper_problem(14, 5, 4, seed=seed)
    with_tables = exact(problem)
    monkeypatch.setattr(tables, "LARGEST", 0)
    assert with_tables.optimal
    assert exact(problem).cost == pytest.approx(with_tables.cost)


@pytest.mark.thorough
def test_the_random_problems_have_all_settings() -> None:
    problems = [problem for first in range(0, 26_000, 3000) for _, problem in small_problems(first, 20)]
    assert len(problems) >= 160
    assert {problem.partitions for problem in problems if problem.has_layouts} == {3, 8}
    assert {problem.layouts for problem in problems} == {"one", "many", "ignored"}
    assert any("r@2" in problem.relations and problem.has_layouts for problem in problems)
    assert any(len(query.links) >= len(query.relations) for problem in problems for query in problem.queries)
    plans = [exact(problem) for problem in problems[:50]]
    assert any(plan.materialized for plan in plans)
    assert any(len(held) > 1 for plan in plans for held in plan.layouts.values())
    tight = [
        problem
        for problem in problems[:100]
        if problem.storage_budget is not None
        and exact(replace(problem, storage_budget=None)).storage > problem.storage_budget
    ]
    assert len(tight) > 5, "budgets must matter"


@pytest.mark.parametrize("seed", seeds(range(50_000, 50_020)))
def test_any_order_of_queries_costs_the_same(seed: int) -> None:
    problem = random_problem(seed)
    queries = list(problem.queries)
    random.Random(seed).shuffle(queries)
    other = replace(problem, queries=tuple(reversed(queries)))
    assert exact(other).cost == pytest.approx(exact(problem).cost)


@pytest.mark.parametrize("seed", seeds(range(60_000, 60_020)))
def test_no_plan_is_cheaper(seed: int) -> None:
    problem = random_problem(seed)
    best = exact(problem)
    plans = [random_plan(problem, random.Random(number)) for number in range(20)]
    assert best.bound <= best.cost <= min(plan.cost for plan in plans) * (1 + 1e-9)
    assert exact(problem, start=plans[0]).cost == pytest.approx(best.cost)


@pytest.mark.parametrize("limit", [0.0, 1e-4])
def test_without_time_there_is_still_a_plan(limit: float) -> None:
    rng = random.Random(7)
    relations = [f"t{n}" for n in range(12)]
    problem = Problem(tuple(random_query(rng, f"q{n}", relations, 5) for n in range(12)), partitions=4)
    plan = exact(problem, time_limit=limit)
    assert all(want in plan.paths for want in problem.wants)
    assert plan.cost == pytest.approx(price(problem, plan.paths, plan.layouts).cost)
    assert 0 <= plan.bound <= plan.cost
    good = exact(problem, time_limit=1.0)
    assert exact(problem, time_limit=limit, start=good).cost <= good.cost * (1 + 1e-9)


def test_two_queries_share_what_each_alone_would_not_choose() -> None:
    """The example of CLASH, section V: 475 tuples for each query alone, 800 for both together."""
    q1, q2 = graph("q1", "r.a = s.a", "s.b = t.b"), graph("q2", "s.b = t.b", "t.c = u.c")
    pairs = {("r", "s", "a"): 0.01, ("s", "t", "b"): 0.015, ("t", "u", "c"): 0.01}
    statistics = Statistics(
        dict.fromkeys("rstu", 100.0),
        {frozenset(((one, column), (other, column))): value for (one, other, column), value in pairs.items()},
    )
    both = Problem((q1, q2), statistics, materialize=False, layouts="ignored")
    for alone in (q1, q2):
        assert exact(replace(both, queries=(alone,))).cost == pytest.approx(475)
    plan = exact(both)
    assert plan.cost == pytest.approx(800)
    orders = {want: [str(store) for store in path] for want, path in plan.paths.items()}
    assert orders["s", q1.whole] == ["t", "r"]
    assert orders["t", q2.whole] == ["s", "u"]


def test_a_query_over_one_relation_and_no_query_at_all() -> None:
    single = QueryGraph("q", ("r",), frozenset())
    assert exact(Problem((single,), partitions=3)).cost == 0
    assert exact(Problem(())).optimal


def test_a_missing_solver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyscipopt", None)
    with pytest.raises(ModelError, match="pyscipopt"):
        solve_scip(Model(), 1.0)


@pytest.mark.parametrize("name", ["scip", "cp-sat"])
def test_other_solvers_agree(name: str) -> None:
    """In a process of its own: HiGHS and OR-Tools cannot be loaded into one."""
    package = {"scip": "pyscipopt", "cp-sat": "ortools"}[name]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    seeds = range(70_000, 70_030)
    text = (
        "from tests.optimize.test_exact import random_problem\n"
        "from watersmeet.optimize.exact.search import exact\n"
        "from bench.optimizer.other_solvers import SOLVERS\n"
        f"for seed in {seeds!r}: print(exact(random_problem(seed), solver=SOLVERS[{name!r}]).cost)"
    )
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert run.returncode == 0, run.stderr
    costs = [float(line) for line in run.stdout.split()]
    assert costs == pytest.approx([exact(random_problem(seed)).cost for seed in seeds])
