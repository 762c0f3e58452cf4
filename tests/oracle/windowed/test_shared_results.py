"""Aggregates over one join that differ in keys, arguments, filters and windows: columns are read once for all of them,
and each gives what DuckDB gives."""

from __future__ import annotations

from pathlib import Path
from random import Random
from unittest import mock

import pytest

from tests.oracle.windowed.queries import declaration, rows
from tests.support.windowed import Asked, WindowedRun
from watersmeet.model.forms import PairAggregates
from watersmeet.runtime.emit.assemble import Assembly
from watersmeet.runtime.emit.shared import Shared

# Outputs, filter, seconds of RANGE and SLIDE. The third and fourth differ in their windows alone.
QUERIES = (
    ("r.k AS k, count(*) AS n", "TRUE", 10, 5),
    ("r.s AS k, sum(t.w) AS n", "r.v > 0", 10, 10),
    ("t.w AS k, max(r.v) AS n", "TRUE", 20, 5),
    ("t.w AS k, max(r.v) AS n", "TRUE", 6, 3),
    ("r.v % 2 AS k, sum(CASE WHEN r.v > 1 THEN t.w ELSE 0 END) AS n", "t.w < 10", 20, 5),
)


def asked(outputs: str, condition: str, length: int, slide: int) -> Asked:
    bracket = f"[RANGE {length} SECONDS SLIDE {slide} SECONDS]"
    text = "SELECT {} FROM r {} JOIN t {} ON r.k = t.k WHERE {} GROUP BY {}"
    key = outputs.partition(" AS k")[0]
    ends = "{start} AS b, {end} AS e, "
    return Asked(
        text.format(f"window_start AS b, window_end AS e, {outputs}", bracket, bracket, condition, key),
        text.format(ends + outputs, "", "", condition, key),
    )


@pytest.mark.parametrize("partitions", [1, 3])
def test_columns_of_results_are_read_once(partitions: int, tmp_path: Path) -> None:
    random = Random(7)
    run = WindowedRun(tmp_path / "home", declaration(4), partitions)
    for number, each in enumerate(QUERIES):
        run.add(f"q{number}", asked(*each), kind=PairAggregates.kind)
    with (
        mock.patch.object(Assembly, "columns", autospec=True, side_effect=Assembly.columns) as read,
        mock.patch.object(Shared, "some", autospec=True, side_effect=Shared.some) as parts,
    ):
        for number in range(8):
            now = 4 * number
            run.tick({"r": rows(random, "r", now, 5), "t": rows(random, "t", now, 5)})
        run.flush()
    assert parts.call_count > 2 * len(QUERIES), "many queries take the same results"
    wanted = [
        (id(made), member, name)
        for made, of_members in (call.args for call in read.call_args_list)
        for member, names in of_members.items()
        for name in names
    ]
    assert len(wanted) == len(set(wanted)), "a column is read once"
    run.check()
