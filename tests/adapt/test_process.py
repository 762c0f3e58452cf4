"""The optimizer's process: it answers, it is restarted when it died, and it ends with its owner."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest

from tests.adapt.test_incremental import with_a_store
from tests.support.waiting import PATIENCE, eventually
from watersmeet.adapt.optimizer_process import NICENESS, OptimizerProcess
from watersmeet.optimize.search import verify
from watersmeet.optimize.statistics import Statistics
from watersmeet.options import Options
from watersmeet.plan.planner import START, make_plan, problem_of
from watersmeet.plan.proposals import PlanRequest, propose


@pytest.fixture
def optimizer() -> Iterator[OptimizerProcess]:
    process = OptimizerProcess()
    yield process
    process.close()


def request(**changes: object) -> PlanRequest:
    """A plan made without knowledge, and statistics for which S ⋈ T ⋈ U should be kept."""
    known = with_a_store()
    options = Options(plan_seconds=PATIENCE)
    plan = make_plan(START, known.streams, known.queries, replace(options, materialize="off"), Statistics())
    asked = PlanRequest(plan, options, known.problem.statistics, 0.2)
    return replace(asked, **changes)  # type: ignore[arg-type]


def test_it_answers_what_the_same_request_gives_here(optimizer: OptimizerProcess) -> None:
    asked = request()
    optimizer.ask(asked)
    optimizer.wait(PATIENCE)
    answer = optimizer.answer()
    assert answer is not None and answer.proposal is not None
    assert answer.proposal.solution.cost == pytest.approx(propose(asked).solution.cost)
    verify(problem_of(asked.plan.queries, asked.options, asked.statistics), answer.proposal.solution)
    assert optimizer.answer() is None, "an answer is given once"
    assert psutil.Process(optimizer.pid).nice() == min(19, os.nice(0) + NICENESS), "ticks come first"


def test_a_killed_process_is_no_answer_and_the_next_request_starts_another(optimizer: OptimizerProcess) -> None:
    optimizer.ask(request(options=Options(plan_seconds=PATIENCE, searcher="improve")))
    eventually(lambda: optimizer.pid is not None)
    first = optimizer.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    optimizer.wait(PATIENCE)
    answer = optimizer.answer()
    assert answer is not None and answer.proposal is None
    assert "process ended" in answer.failure
    optimizer.ask(request())
    optimizer.wait(PATIENCE)
    answer = optimizer.answer()
    assert answer is not None and answer.proposal is not None
    assert optimizer.pid != first


def test_what_cannot_be_planned_is_told(optimizer: OptimizerProcess) -> None:
    asked = request()
    streams_alone = problem_of(asked.plan.queries, asked.options, asked.statistics).least_storage
    optimizer.ask(replace(asked, options=Options(searcher="left-deep", storage_budget=streams_alone)))
    optimizer.wait(PATIENCE)
    answer = optimizer.answer()
    assert answer is not None and answer.proposal is None
    assert answer.failure.startswith("ModelError: ")
    assert "storage" in answer.failure


def test_closing_ends_the_process(optimizer: OptimizerProcess) -> None:
    optimizer.ask(request(options=Options(plan_seconds=PATIENCE, searcher="improve")))
    eventually(lambda: optimizer.pid is not None)
    pid = optimizer.pid
    optimizer.close()
    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
