"""Queries with equal outputs and other filters and windows: their rows are read once, and differ by query."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.answers import check_answers
from tests.support.cases import Case, QueryCase, StreamCase
from tests.support.in_process import InProcess
from tests.support.parquet_input import seconds_after_epoch
from watersmeet.runtime.emit import results
from watersmeet.runtime.emit.assemble import Assembly

TICKS, ROWS = 4, 40  # rows of each tick and stream
PLAIN = "x.id, x.s, y.n AS n, y.s AS other"
FILTERS = ("x.n < 12", "x.n > 4 AND y.n <> 7", "y.s <> 'b'", "x.n < 12 AND y.n < 3", "x.n = 100")


def stream(name: str, turn: int) -> StreamCase:
    count = TICKS * ROWS
    rows = pa.table(
        {
            "ts": seconds_after_epoch(number * 0.05 for number in range(count)),
            "id": pa.array(range(count), pa.int64()),
            "n": pa.array([None if number % 17 == 0 else number * turn % 20 for number in range(count)], pa.int64()),
            "s": pa.array([None if number % 23 == 0 else "abc"[number * turn % 3] for number in range(count)]),
        }
    )
    return StreamCase(name, (("n", "BIGINT"), ("s", "STRING")), 0, rows, tuple(range(ROWS, count, ROWS)))


def case(outputs: str, tasks: int = 1, oracle: str = "") -> Case:
    queries = []
    for at, condition in enumerate(FILTERS):
        where = f"FROM x{{0}}, y{{0}} WHERE x.s = y.s AND x.id % 5 = y.id % 5 AND {condition}"
        seconds = 1 + at % 2
        near = f" AND abs(epoch_us(x.ts) - epoch_us(y.ts)) <= {seconds * 1_000_000}"
        window = f" [RANGE {seconds} SECONDS]"
        queries.append(
            QueryCase(
                f"q{at}",
                f"SELECT {outputs} {where.format(window)}",
                f"SELECT {oracle or outputs} {where.format('')}{near}",
            )
        )
    return Case((stream("x", 7), stream("y", 3)), tuple(queries), 1, frozenset({2}), tasks)


@pytest.mark.parametrize("few", [results.FEW, 5, 0])
@pytest.mark.parametrize("tasks", [1, 2])
def test_each_query_gets_the_rows_that_it_wants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: int, few: int
) -> None:
    """Also where pieces are small, so that rows of a query come from many of them."""
    monkeypatch.setattr(results, "FLUSH_ROWS", 50)
    monkeypatch.setattr(results, "FEW", few)
    engine = InProcess(tmp_path, case(PLAIN, tasks))
    engine.run()
    check_answers(engine.case, tmp_path)
    totals = engine.manifest.totals.results
    assert all(totals[f"q{at}"] for at in range(4)) and not totals["q4"]


def test_rows_are_read_once_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    before = Assembly.columns

    def columns(self: Assembly, wanted: dict[int, list[str]]) -> dict[tuple[int, str], pa.ChunkedArray]:
        read.append(len(self))
        return before(self, wanted)

    monkeypatch.setattr(Assembly, "columns", columns)
    engine = InProcess(tmp_path, case(PLAIN))
    engine.run()
    check_answers(engine.case, tmp_path)
    assert 0 < sum(read) < engine.manifest.totals.results.total()


def test_a_value_that_fails_counts_for_those_that_want_its_row(tmp_path: Path) -> None:
    """Which rows fail is known of the rows of each query."""
    failing = "x.id, CAST({} AS TINYINT) AS tiny"
    made = case(failing.format("x.n * 10"), oracle=failing.format("CASE WHEN x.n * 10 <= 127 THEN x.n * 10 END"))
    engine = InProcess(tmp_path, made)
    engine.run()
    check_answers(engine.case, tmp_path)
    failed = engine.manifest.totals.failed_values
    answers = {query.name: query.oracle for query in made.queries}
    assert failed["q2"] and failed["q0"] == 0 == failed["q3"], answers["q0"]
