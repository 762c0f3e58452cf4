"""Planning for few new queries: complete plans in which the paths of the others are as they were."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.declarations import bigint_streams, continuous_query
from tests.support.optimizer_problems import mixed_problem
from tests.support.waiting import PATIENCE
from watersmeet.model import Query, Stream
from watersmeet.optimize.heuristic.incremental import extended
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.search import optimize, verify
from watersmeet.optimize.statistics import Statistics
from watersmeet.options import Options
from watersmeet.plan.planner import CHANGE, START, Plan, make_plan
from watersmeet.plan.ruleset import Step

COLUMNS = {"r": "ad", "s": "ab", "t": "bc", "u": "c", "v": "d"}
CHAIN = "r.a = s.a AND s.b = t.b AND t.c = u.c"
LONGER = CHAIN + " AND r.d = v.d"


@given(st.integers(0, 10**6), st.sampled_from([(1, "one"), (4, "one"), (4, "many")]), st.booleans(), st.booleans())
def test_the_plan_is_complete_and_other_paths_stay(
    seed: int, places: tuple[int, str], materialize: bool, readable: bool
) -> None:
    chance = random.Random(seed)
    whole = mixed_problem(
        chance,
        relations=chance.randint(4, 7),
        queries=8,
        largest=4,
        partitions=places[0],
        layouts=places[1],
        materialize=materialize,
    )
    left = chance.sample(whole.queries, chance.randint(1, len(whole.queries) - 1))
    before = Problem(tuple(left), whole.statistics, places[0], materialize, places[1])
    previous = optimize(before, searcher="greedy")
    gone = left[0].name
    after = Problem(
        tuple(query for query in whole.queries if query.name != gone),
        whole.statistics,
        places[0],
        materialize,
        places[1],
    )
    staying = {query.name for query in left} - {gone}
    found = extended(after, previous, staying, lambda query, store: readable)
    assert found is not None
    verify(after, found)
    for query in after.queries:
        if query.name in staying:
            for relation in query.relations:
                assert found.paths[relation, query.whole] == previous.paths[relation, query.whole]
    for store, layouts in found.layouts.items():
        assert previous.layouts.get(store, layouts) == layouts


def streams() -> dict[str, Stream]:
    return bigint_streams({name: ("id", *columns) for name, columns in COLUMNS.items()})


def query(name: str, condition: str, names: str = "rstu", window: int = 5) -> Query:
    listed = ", ".join(f"{one} [RANGE {window} SECONDS]" for one in names)
    selected = ", ".join(f"{one}.id AS {one}" for one in names)
    return continuous_query(name, f"SELECT {selected} FROM {listed} WHERE {condition}", streams())


def with_a_store() -> Plan:
    """S ⋈ T ⋈ U is tiny, R is large and finds several rows of S: the optimizer keeps the join of the three."""
    statistics = Statistics(
        {"r": 10_000_000.0, "s": 1000.0, "t": 1000.0, "u": 1000.0},
        {
            frozenset((("s", "b"), ("t", "b"))): 1e-4,
            frozenset((("t", "c"), ("u", "c"))): 1e-4,
            frozenset((("r", "a"), ("s", "a"))): 4e-3,
        },
    )
    plan = make_plan(
        START,
        tuple(streams().values()),
        [query("first", CHAIN)],
        Options(searcher="exact", plan_seconds=PATIENCE),
        statistics,
    )
    assert plan.rules.materialized, "the test needs a plan with a materialized store"
    return plan


@pytest.mark.parametrize(
    ("fresh", "shares"),
    [
        (query("second", CHAIN), True),
        (query("second", CHAIN, window=4), True),
        (query("second", LONGER, "rstuv"), True),
        (query("second", LONGER, "rstuv", window=6), False),
        (query("second", LONGER + " AND s.b > 3", "rstuv"), False),
    ],
)
def test_a_new_query_reads_a_store_only_if_it_stays_the_same_store(fresh: Query, shares: bool) -> None:
    plan = with_a_store()
    queries = [*plan.queries, fresh]
    after = make_plan(CHANGE, plan.streams, queries, Options(), plan.problem.statistics, plan)
    assert after.solution.searcher == "incremental"
    assert after.rules.materialized == plan.rules.materialized
    (start,) = [start for start in after.rules.starts if start.relation == "r" and start.phase]
    through = next(step for step in start.steps if step.store in plan.rules.materialized)
    assert ("second" in queries_below(through)) == shares


def queries_below(step: Step) -> set[str]:
    return {name for emit in step.emits for name in emit.queries}.union(*map(queries_below, step.steps))


def test_many_changes_are_planned_as_a_whole() -> None:
    plan = with_a_store()
    others = [query(f"q{number}", "r.a = s.a", "rs", window=number + 1) for number in range(3)]
    after = make_plan(CHANGE, plan.streams, [*plan.queries, *others], Options(), Statistics(), plan)
    assert after.solution.searcher == "greedy"
    assert make_plan(CHANGE, plan.streams, others, Options(), Statistics()).solution.searcher == "greedy"
