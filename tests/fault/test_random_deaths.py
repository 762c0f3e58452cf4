"""Random queries, plans and deaths, other partitions after each: the results never depend on any of it."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fault.stepwise import Stepwise
from tests.support.cases import Case, cases
from tests.support.examples import examples
from tests.support.faults.workload import make_case
from tests.support.plans import plans

# Where the driver is when it dies (its tasks have written everything that they had to), or a stop without harm.
ENDS = ("stop", "commit.before", "manifest.linked", "publish.before", "discard.before")
stories = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(ENDS), st.sampled_from((1, 2, 3))), max_size=5)


@given(case=cases(max_streams=3, max_queries=4, max_rows=20, max_ticks=6), story=stories, data=st.data())
@settings(max_examples=examples(60))
def test_deaths_and_changes_of_partitions_do_not_show(
    case: Case, story: list[tuple[int, str, int]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as name:
        engine = Stepwise(Path(name), case)
        for ticks, end, partitions in story:
            engine.follow(data.draw(plans(engine.problem)))
            engine.run_until(min(engine.done + ticks, case.ticks))
            if engine.done < case.ticks and end != "stop":
                engine.die_at(end)
            engine = Stepwise(Path(name), replace(case, partitions=partitions))
        engine.run_until(case.ticks)
        engine.check_answers()


@pytest.mark.parametrize("partitions", [(1, 3, 1), (3, 1, 3), (3, 2, 5)])
def test_partitions_change_between_runs(tmp_path: Path, partitions: tuple[int, ...]) -> None:
    """With windows that reach over the changes, and merges of buckets of each layout."""
    case = make_case(ticks=15, rows=12)
    for number, count in enumerate(partitions, 1):
        engine = Stepwise(tmp_path, replace(case, partitions=count))
        engine.run_until(case.ticks * number // len(partitions))
    engine.check_answers()
