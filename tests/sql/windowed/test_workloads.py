"""The windowed queries of SASPAR (TPC-H) and Nexmark: each is accepted, and computed as expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.declarations import streams_of
from watersmeet.sql import build_query

FOLDER = Path(__file__).parents[3] / "bench" / "workloads" / "windowed"
CLASSES = {
    "tpch": {
        **dict.fromkeys(("q1", "q6"), "slices"),
        **dict.fromkeys(("q3", "q8", "q9", "q10", "q12", "q14"), "factorized"),
        **dict.fromkeys(("q4", "q5", "q7", "q17", "q18", "q19"), "task"),
    },
    "nexmark": {**dict.fromkeys(("q11", "q15", "q16", "q17"), "slices"), **dict.fromkeys(("q5", "q7", "q8"), "task")},
}


@pytest.mark.parametrize(
    ("workload", "name"), [(workload, name) for workload, names in CLASSES.items() for name in names]
)
def test_classes(workload: str, name: str) -> None:
    streams = streams_of((FOLDER / workload / "streams.sql").read_text())
    query = build_query(name, (FOLDER / workload / f"{name}.sql").read_text(), streams)
    assert query.is_windowed
    assert (query.form.kind, bool(query.reason)) == (CLASSES[workload][name], query.form.kind != "slices")


@pytest.mark.parametrize("workload", CLASSES)
def test_all_files_are_tested(workload: str) -> None:
    assert {path.stem for path in (FOLDER / workload).glob("*.sql")} == {"streams", *CLASSES[workload]}
