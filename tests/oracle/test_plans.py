"""The plan never changes the results: random plans, with anything materialized, against DuckDB."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.answers import check_answers
from tests.support.cases import Case, QueryCase, StreamCase, cases
from tests.support.examples import examples
from tests.support.in_process import InProcess
from tests.support.parquet_input import seconds_after_epoch
from tests.support.plans import plan_by, plans
from watersmeet.runtime.exec import probing
from watersmeet.runtime.exec.local import LocalExecutor
from watersmeet.runtime.tick import tick as tick_module
from watersmeet.runtime.tick.tick import MIN_ROWS
from watersmeet.store.bucket_file import verify_file


@given(st.data(), cases(max_queries=6, max_rows=20, max_ticks=6))
@settings(max_examples=examples(60))
def test_any_plan_gives_the_oracles_results(data: st.DataObject, case: Case) -> None:
    """Also when the plan changes between ticks: a store that is new is filled from what is stored."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        # A tick is one order, or some; and one task probes, or several.
        patch.setattr(LocalExecutor, "few_bytes", data.draw(st.sampled_from((0, -1))))
        patch.setattr(tick_module, "MIN_ROWS", data.draw(st.sampled_from((1, MIN_ROWS))))
        patch.setattr(probing, "SHORT", data.draw(st.sampled_from((0, probing.SHORT))))
        engine = InProcess(Path(folder), case)
        for tick in range(case.ticks):
            if tick == 0 or data.draw(st.booleans()):
                engine.follow(data.draw(plans(engine.problem)))
            if tick in case.restarts:
                engine.restart()
            engine.tick(case.pieces(tick))
            for bucket in engine.manifest.buckets:
                verify_file(Path(folder), bucket)
        check_answers(case, Path(folder))


def test_a_kept_row_passes_the_filter_of_its_own_relation(tmp_path: Path) -> None:
    """Of three uses of one stream only the third is filtered; a step for the second must not stand in for it."""
    rows = pa.table(
        {
            "ts": seconds_after_epoch([0] * 3),
            "id": pa.array([0, 1, 2], pa.int64()),
            "k0": pa.array([7, 7, 7], pa.int64()),
            "v": pa.array([0, 0, 1], pa.int32()),
        }
    )
    stream = StreamCase("s0", (("k0", "BIGINT"), ("v", "INT")), 0, rows, (1, 2))
    selected = "SELECT a0.id, a1.id AS second, a2.id AS third FROM s0 {} a0, s0 {} a1, s0 {} a2"
    where = "WHERE a0.k0 = a1.k0 AND a1.k0 = a2.k0 AND a0.k0 = a2.k0 AND a2.v > 0"
    window = "[RANGE 1 SECOND]"
    query = QueryCase(
        "q0", f"{selected.format(window, window, window)} {where}", f"{selected.format('', '', '')} {where}"
    )
    for pair in range(3):
        case = Case((stream,), (query,), 1, frozenset(), 1)
        home = tmp_path / str(pair)
        engine = InProcess(home, case)
        kept = [subquery for subquery in engine.problem.queries[0].connected if len(subquery) == 2][pair]
        plan = plan_by(engine.problem, lambda options: next((o for o in options if o == kept), options[0]))  # noqa: B023
        assert plan.materialized
        for tick in range(3):
            if tick:
                engine.follow(plan)
            engine.tick({"s0": stream.piece(tick)})
        check_answers(case, home)
