"""The windowed queries of SASPAR (TPC-H) and Nexmark: each is accepted, and computed as expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.declarations import streams_of
from watersmeet.model import WindowedQuery
from watersmeet.sql import build_query

FOLDER = Path(__file__).parents[3] / "bench" / "workloads" / "windowed"
CLASSES = {
    "tpch": {
        **{
            "q1": "slices",
            "q3": "factorized",
            "q4": "batch",
            "q5": "batch",
            "q6": "slices",
            "q7": "batch",
            "q8": "batch",
        },
        **{
            "q9": "factorized",
            "q10": "factorized",
            "q12": "factorized",
            "q14": "factorized",
            "q17": "batch",
            "q18": "batch",
        },
        **{"q19": "batch"},
    },
    "nexmark": {
        **{
            "q5": "batch",
            "q7": "batch",
            "q8": "batch",
            "q11": "slices",
            "q15": "batch",
            "q16": "batch",
            "q17": "slices",
        },
    },
}


@pytest.mark.parametrize(
    ("workload", "name"), [(workload, name) for workload, names in CLASSES.items() for name in names]
)
def test_classes(workload: str, name: str) -> None:
    streams = streams_of((FOLDER / workload / "streams.sql").read_text())
    query = build_query(name, (FOLDER / workload / f"{name}.sql").read_text(), streams)
    assert isinstance(query, WindowedQuery)
    assert (query.kind, bool(query.reason)) == (CLASSES[workload][name], query.kind != "slices")


@pytest.mark.parametrize("workload", CLASSES)
def test_all_files_are_tested(workload: str) -> None:
    assert {path.stem for path in (FOLDER / workload).glob("*.sql")} == {"streams", *CLASSES[workload]}
