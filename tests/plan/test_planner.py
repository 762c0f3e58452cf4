"""One planner: what is done at a start, a change and an epoch, and when one plan is better than another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.adapt.test_incremental import with_a_store
from tests.support.waiting import PATIENCE
from watersmeet.optimize.research import Research
from watersmeet.optimize.search import optimize
from watersmeet.optimize.solution import allows, price
from watersmeet.optimize.statistics import Statistics
from watersmeet.options import Options
from watersmeet.plan.comparison import NOTICEABLE, Comparison
from watersmeet.plan.planner import CHANGE, START, Plan, make_plan, problem_of
from watersmeet.plan.proposals import PlanRequest, propose

OPTIONS = Options(plan_seconds=PATIENCE)
IN_STORE = with_a_store()


def known(partners: float) -> Statistics:
    """Keeping S ⋈ T ⋈ U saves the more the more rows of S each row of R meets."""
    statistics = IN_STORE.problem.statistics
    meets = {**statistics.selectivities, frozenset((("r", "a"), ("s", "a"))): partners / statistics.sizes["s"]}
    return replace(statistics, selectivities=meets)


def flat_plan(statistics: Statistics) -> Plan:
    return make_plan(START, IN_STORE.streams, IN_STORE.queries, replace(OPTIONS, materialize="off"), statistics)


def asked(active: Plan, statistics: Statistics, renewed: float = 1.0, options: Options = OPTIONS) -> PlanRequest:
    return PlanRequest(active, options, statistics, renewed)


@pytest.mark.parametrize(
    ("compared", "pays"),
    [
        (Comparison(100.0, 90.0), True),
        (Comparison(100.0, 96.0), False),  # too little to notice
        (Comparison(100.0, 90.0, price=4.0), True),
        (Comparison(100.0, 90.0, price=6.0), False),  # of the saving, half is within the error of the estimates
        (Comparison(100.0, 90.0, horizon=0.5, price=4.0), False),  # not in time
        (Comparison(90.0, 100.0), False),
    ],
)
def test_a_plan_replaces_another_if_it_saves_noticeably_more_than_the_change_costs(
    compared: Comparison, pays: bool
) -> None:
    assert compared.pays == pays


@pytest.mark.parametrize("partners", [0.001, 0.5, 1.5, 4.0])
def test_a_start_an_epoch_and_a_restart_agree(partners: float) -> None:
    """The plan that an engine starts with is not replaced by the same data, and a plan for other data is, by it."""
    statistics = known(partners)
    first = make_plan(START, IN_STORE.streams, IN_STORE.queries, OPTIONS, statistics)
    assert first.solution.cost == pytest.approx(optimize(first.problem, time_limit=PATIENCE).cost)
    again = propose(asked(first, statistics))
    assert not again.is_worth_it
    assert again.rules.version == first.rules.version
    for other in (flat_plan(Statistics()), IN_STORE):
        then = propose(asked(other, statistics))
        if then.is_worth_it:
            assert bool(then.solution.materialized) == bool(first.solution.materialized)
        else:
            now = price(first.problem, other.solution.paths, other.solution.layouts)
            assert now.cost * (1 - NOTICEABLE) <= first.solution.cost + then.comparison.price


def test_both_kinds_are_met_above() -> None:
    kinds = [
        bool(make_plan(START, IN_STORE.streams, IN_STORE.queries, OPTIONS, known(partners)).solution.materialized)
        for partners in (0.001, 4.0)
    ]
    assert kinds == [False, True]


def test_a_change_has_ten_epochs_to_pay_for_itself() -> None:
    request = asked(flat_plan(Statistics()), known(4.0), renewed=0.2)
    proposal = propose(request)
    compared = proposal.comparison
    assert proposal.solution.materialized and compared.price > 0
    assert compared.gain == pytest.approx(compared.before - proposal.solution.cost), "it renews all"
    assert proposal.is_worth_it
    slow = propose(replace(request, renewed=1e-6))
    assert slow.comparison.gain < slow.comparison.price and not slow.is_worth_it


@pytest.mark.parametrize("searcher", ["", "greedy", "left-deep"])
def test_streams_that_exceed_the_storage_budget_are_all_that_is_stored(searcher: str) -> None:
    statistics = known(4.0)
    needed = sum(statistics.sizes.values())
    options = replace(
        OPTIONS, storage_budget=needed - 50, research=Research(layouts="many"), partitions=3, searcher=searcher
    )
    plan = make_plan(START, IN_STORE.streams, IN_STORE.queries, options, statistics)
    assert plan.over_budget == 50
    assert plan.solution.storage == needed and not plan.solution.materialized
    enough = replace(options, storage_budget=needed * 1.5)
    assert not make_plan(START, IN_STORE.streams, IN_STORE.queries, enough, statistics).over_budget


def test_a_plan_for_more_queries_drops_what_the_budget_no_longer_allows() -> None:
    statistics = known(4.0)
    options = replace(OPTIONS, storage_budget=sum(statistics.sizes.values()) - 50)
    plan = make_plan(CHANGE, IN_STORE.streams, IN_STORE.queries, options, statistics, IN_STORE)
    assert not plan.solution.materialized
    proposal = propose(asked(IN_STORE, statistics, options=options))
    assert not proposal.solution.materialized
    assert allows(problem_of(IN_STORE.queries, options, statistics), proposal.solution)
