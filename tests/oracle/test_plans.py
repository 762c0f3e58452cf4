"""The plan never changes the results: random plans, with anything materialized, against DuckDB."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.answers import oracle_answers, stored_answers
from tests.oracle.cases import Case, cases
from tests.oracle.inprocess import InProcess
from tests.oracle.plans import plans
from watersmeet.store.bucket import verify_file


def check(case: Case, home: Path) -> None:
    for name, expected in oracle_answers(case).items():
        assert stored_answers(home / "results" / name) == expected, name


@given(st.data(), cases(max_queries=6, max_rows=20, max_ticks=6))
@settings(max_examples=60)
def test_any_plan_gives_the_oracles_results(data: st.DataObject, case: Case) -> None:
    """Also when the plan changes between ticks: a store that is new is filled from what is stored."""
    with tempfile.TemporaryDirectory() as folder:
        engine = InProcess(Path(folder), case)
        for tick in range(case.ticks):
            if tick == 0 or data.draw(st.booleans()):
                engine.follow(data.draw(plans(engine.problem)))
            if tick in case.restarts:
                engine.restart()
            engine.tick({stream.name: stream.piece(tick) for stream in case.streams})
            for bucket in engine.manifest.buckets:
                verify_file(Path(folder), bucket)
        check(case, Path(folder))
