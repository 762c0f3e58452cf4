"""What one task writes for queries, and what suspends one of them there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from watersmeet.model import ColumnRef, Output, Query, Sink
from watersmeet.model.forms import WindowSql
from watersmeet.model.limits import Limits
from watersmeet.model.sliding_window import SlidingWindow
from watersmeet.plan.ruleset import Ruleset
from watersmeet.runtime.emit.result_files import ResultFiles
from watersmeet.runtime.tick.orders import TaskReport, WritingOrder

OUTPUTS = (Output("n", "bigint", ColumnRef("n", "bigint")), Output("at", "timestamp", ColumnRef("at", "timestamp")))
QUERY = Query("q", WindowSql("", (), OUTPUTS), SlidingWindow(10, 10))


def rows(count: int) -> pa.Table:
    return pa.table({"n": pa.array(range(count), pa.int64()), "at": pa.array(range(count), pa.timestamp("us"))})


def written(home: Path, limits: Limits, query: Query, *tables: pa.Table) -> TaskReport:
    return written_for([query], home, limits, [(query.name, table) for table in tables])


def written_for(queries: list[Query], home: Path, limits: Limits, found: list[tuple[str, pa.Table]]) -> TaskReport:
    rules, report = Ruleset("v", 1, (), (), (), limits), TaskReport()
    order = WritingOrder(str(home), 7, "0123456789abcdef", rules)
    results = ResultFiles(order, "task", report, {query.name: query for query in queries})
    for name, table in found:
        results.add(name, table)
    results.finish()
    return report


def test_rows_of_all_windows_are_one_staged_file(tmp_path: Path) -> None:
    report = written(tmp_path, Limits(), QUERY, rows(3), rows(0), rows(2))
    (file,) = report.results
    assert (file.query, file.rows, report.counts.results["q"]) == ("q", 5, 5)
    assert not Path(file.final).exists()
    found = pq.read_table(file.staged)
    assert found.num_rows == 5
    assert found.schema.field("at").type == pa.timestamp("us", "UTC")


def test_nothing_is_written_where_there_is_nothing(tmp_path: Path) -> None:
    report = written(tmp_path, Limits(), QUERY, rows(0))
    assert (report.results, report.suspended, dict(report.counts.results)) == ([], {}, {})


@pytest.mark.parametrize(
    ("limits", "option"), [(Limits(matches=4), "max_matches"), (Limits(result_bytes=10), "max_result_bytes")]
)
def test_too_many_results_suspend_the_query(tmp_path: Path, limits: Limits, option: str) -> None:
    report = written(tmp_path, limits, QUERY, rows(3), rows(2))
    assert report.results == []
    assert option in report.suspended["q"]
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_results_that_are_only_counted(tmp_path: Path) -> None:
    report = written(tmp_path, Limits(), replace(QUERY, sink=Sink("count")), rows(3), rows(2))
    (file,) = report.results
    assert pq.read_table(file.staged).to_pylist() == [{"tick": 7, "query": "q", "matches": 5}]
    assert report.counts.results["q"] == 5


def test_a_folder_that_cannot_be_written_suspends_the_query(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("in the way")
    report = written(tmp_path, Limits(), replace(QUERY, sink=Sink(path=str(tmp_path / "out"))), rows(3))
    assert report.results == []
    assert "out" in report.suspended["q"]


def test_queries_of_one_task_have_files_of_their_own_and_one_for_all_counts(tmp_path: Path) -> None:
    counted = replace(QUERY, sink=Sink("count"))
    queries = [QUERY, replace(QUERY, name="r"), replace(counted, name="c"), replace(counted, name="d")]
    found = [("q", rows(3)), ("c", rows(1)), ("r", rows(4)), ("d", rows(2)), ("q", rows(2)), ("c", rows(5))]
    report = written_for(queries, tmp_path, Limits(matches=5), found)
    assert {file.query: file.rows for file in report.results} == {"q": 5, "r": 4, "counts": 2}
    (counts,) = (file for file in report.results if file.query == "counts")
    assert pq.read_table(counts.staged).to_pylist() == [{"tick": 7, "query": "d", "matches": 2}]
    assert set(report.suspended) == {"c"}, "it has six, and is the only one to be suspended"
    assert dict(report.counts.results) == {"q": 5, "r": 4, "d": 2}
