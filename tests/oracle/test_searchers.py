"""Plans of every searcher, those of papers too, run on random data, against DuckDB."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bench.optimizer.searchers  # noqa: F401  # adds the papers' to the table
from tests.support.answers import check_answers
from tests.support.cases import Case, cases
from tests.support.examples import examples
from tests.support.in_process import InProcess
from watersmeet.errors import ModelError
from watersmeet.optimize.joingraph import stream_of
from watersmeet.optimize.search import searchers
from watersmeet.optimize.statistics import Statistics


@pytest.mark.parametrize("searcher", sorted(searchers))
@given(
    case=cases(max_queries=4, max_rows=15, max_ticks=3), sizes=st.lists(st.integers(1, 1000), min_size=4, max_size=4)
)
@settings(max_examples=examples(8))
def test_the_plans_of_every_searcher_give_the_oracles_results(searcher: str, case: Case, sizes: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = InProcess(Path(folder), case)
        if searcher == "paper" and any(len(query.relations) > 4 for query in engine.problem.queries):
            return  # the number of its candidates explodes
        streams = sorted({stream_of(relation) for relation in engine.problem.relations})
        known = Statistics(sizes=dict(zip(streams, map(float, sizes), strict=False)))
        try:
            engine.follow(searchers[searcher](replace(engine.problem, statistics=known), 2.0))
        except ModelError:
            assert searcher == "chain"  # it takes linear join graphs only
            return
        engine.run()
        check_answers(case, Path(folder))
