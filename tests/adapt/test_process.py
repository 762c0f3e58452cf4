"""The optimizer's process: it answers, it is restarted when it died, and it ends with its owner."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.adapt.test_incremental import with_a_store
from tests.support.waiting import eventually
from watersmeet.adapt.optimizer_process import OptimizerProcess
from watersmeet.adapt.proposal import Request, propose
from watersmeet.optimize.search import optimize, verify
from watersmeet.optimize.statistics import Statistics
from watersmeet.options import Options
from watersmeet.plan.planner import make_plan, problem_of


@pytest.fixture
def optimizer() -> Iterator[OptimizerProcess]:
    process = OptimizerProcess()
    yield process
    process.close()


def request(**changes: object) -> Request:
    """A plan made without knowledge, and statistics for which S ⋈ T ⋈ U should be kept."""
    known = with_a_store()
    options = Options(plan_seconds=0.5)
    plan = make_plan(known.streams, known.queries, replace(options, materialize="off"), Statistics())
    asked = Request(plan.streams, plan.queries, options, known.problem.statistics, 0.2, plan.solution, plan.rules)
    return replace(asked, **changes)  # type: ignore[arg-type]


def test_it_answers_what_the_same_request_gives_here(optimizer: OptimizerProcess) -> None:
    asked = request()
    optimizer.ask(7, asked)
    optimizer.wait(120)
    answer = optimizer.answer()
    assert answer is not None and answer.proposal is not None
    assert answer.number == 7
    assert answer.proposal.solution.cost == pytest.approx(propose(asked).solution.cost)
    verify(problem_of(asked.queries, asked.options, asked.statistics), answer.proposal.solution)
    assert optimizer.answer() is None, "an answer is given once"


def test_a_killed_process_is_no_answer_and_the_next_request_starts_another(optimizer: OptimizerProcess) -> None:
    optimizer.ask(1, request(options=Options(plan_seconds=60.0, searcher="improve")))
    eventually(lambda: optimizer.pid is not None)
    first = optimizer.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    optimizer.wait(120)
    answer = optimizer.answer()
    assert answer is not None and answer.proposal is None
    assert "process ended" in answer.failure
    optimizer.ask(2, request())
    optimizer.wait(120)
    answer = optimizer.answer()
    assert answer is not None and answer.proposal is not None
    assert optimizer.pid != first


def test_what_cannot_be_planned_is_told(optimizer: OptimizerProcess) -> None:
    optimizer.ask(1, request(options=Options(storage_budget=1.0)))
    optimizer.wait(120)
    answer = optimizer.answer()
    assert answer is not None and answer.proposal is None
    assert "storage budget" in answer.failure


def test_closing_ends_the_process(optimizer: OptimizerProcess) -> None:
    optimizer.ask(1, request(options=Options(plan_seconds=60.0, searcher="improve")))
    eventually(lambda: optimizer.pid is not None)
    pid = optimizer.pid
    optimizer.close()
    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_change_must_be_worth_its_price() -> None:
    known = request().statistics
    often = {**known.selectivities, frozenset((("r", "a"), ("s", "a"))): 0.01}  # every row of R meets one of S
    asked = request(statistics=replace(known, selectivities=often))
    proposal = propose(asked)
    assert proposal.solution.materialized and proposal.price > 0
    assert proposal.gain == pytest.approx(proposal.cost_in_force - proposal.solution.cost), "ten epochs renew it all"
    assert proposal.is_worth_it
    slow = propose(replace(asked, renewed=1e-6))
    assert slow.gain < slow.price and not slow.is_worth_it


def test_the_plan_in_force_stays_if_it_is_the_best() -> None:
    plan = with_a_store()
    proposal = propose(
        Request(plan.streams, plan.queries, Options(), plan.problem.statistics, 1.0, plan.solution, plan.rules)
    )
    best = optimize(plan.problem).cost
    assert proposal.solution.cost == pytest.approx(best)
    assert proposal.rules.version == plan.rules.version
    assert not proposal.is_worth_it
