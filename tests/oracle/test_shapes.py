"""Continuous joins with subqueries, WITH, parentheses and other names: DuckDB gives the same for the same text."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.answers import check_answers
from tests.support.cases import Case, QueryCase, stream_cases
from tests.support.examples import examples
from tests.support.in_process import InProcess

SHAPES = {
    "parentheses": """
        SELECT a.id AS x, b.id AS y, c.id AS z
        FROM s0 a JOIN (s1 b JOIN s2 c ON b.k0 = c.k0 AND b.v < c.v) ON a.k0 = b.k0""",
    "subquery": """
        SELECT t.x, t.y, c.id AS z, t.w - t.u * 2 AS d
        FROM (SELECT a.id AS x, b.id AS y, a.k0, a.v + 1 AS w, a.v - b.v AS u FROM s0 a JOIN s1 b ON a.k0 = b.k0
          WHERE a.v > -2) t JOIN s2 c ON t.k0 = c.k0 AND t.w * 2 > c.v - 1""",
    "common": """
        WITH p AS (SELECT id, k0, v - 1 AS u FROM s0 WHERE v <> 0), q (i, j) AS (SELECT id, k0 FROM s1)
        SELECT p.id AS x, q.i AS y, r.id AS z FROM p, q, p AS r
        WHERE p.k0 = q.j AND r.k0 = q.j AND p.u * 2 <= r.u""",
    "common_of_common": """
        WITH p AS (SELECT id, k0, v FROM s0 WHERE v > -2), q AS (SELECT p.id AS i, s1.v + p.v AS w, p.k0 FROM p, s1
          WHERE p.k0 = s1.k0)
        SELECT q.i, q.w * q.w AS w2, c.id FROM q JOIN s2 c USING (k0)""",
    "columns": "SELECT a.i AS x, b.id AS y FROM s0 AS a (t, i, k, w) JOIN s1 b ON a.k = b.k0 WHERE a.w >= b.v",
    "natural": "SELECT x, y, k0 FROM (SELECT id AS x, k0 FROM s0) a NATURAL JOIN (SELECT id AS y, k0 FROM s1) b",
    "same_alias": """
        SELECT b.id AS x, a.id AS y FROM s0 a JOIN s1 b ON a.k0 = b.k0
        WHERE EXISTS (SELECT 1 FROM s2 a WHERE a.k0 = b.k0 AND a.v > b.v)""",
    "names_of_outputs": """
        SELECT a.v + b.v AS w, w * 2 AS d, d - w * w AS e, a.id AS x, b.id AS y FROM s0 a JOIN s1 b ON a.k0 = b.k0""",
    "subquery_of_in": """
        SELECT a.id AS x FROM s0 a
        WHERE a.k0 IN (SELECT t.j FROM (SELECT k0 AS j, v + 1 AS w FROM s1 WHERE v > -1) t WHERE t.w * 2 > a.v)""",
    "subquery_of_semi": """
        SELECT a.id AS x FROM s0 a SEMI JOIN (SELECT k0, v + 1 AS w FROM s1 WHERE v > -3) t
          ON a.k0 = t.k0 AND t.w * 2 > a.v""",
    "semi_in_parentheses": """
        SELECT a.id AS x, b.id AS y FROM s0 a JOIN (s1 b SEMI JOIN s2 c ON b.k0 = c.k0 AND b.v < c.v) ON a.k0 = b.k0""",
    "exists_in_from": """
        SELECT t.id AS x, b.id AS y
        FROM (SELECT id, k0 FROM s0 a WHERE EXISTS (SELECT 1 FROM s2 c WHERE c.k0 = a.k0 AND c.v < a.v)) t, s1 b
        WHERE t.k0 = b.k0""",
}


@given(st.data())
@settings(max_examples=examples(60))
def test_every_shape_gives_the_oracles_results(data: st.DataObject) -> None:
    """NULL keys, restarts, one and three partitions, one to three tasks."""
    ticks = data.draw(st.integers(1, 4))
    streams = tuple(data.draw(stream_cases(f"s{number}", ["INT"], ticks, 12)) for number in range(3))
    names = data.draw(st.lists(st.sampled_from(sorted(SHAPES)), min_size=1, max_size=4, unique=True))
    queries = tuple(QueryCase(name, f"{SHAPES[name]} WINDOW UNBOUNDED", SHAPES[name]) for name in names)
    restarts = frozenset(data.draw(st.lists(st.integers(0, ticks), max_size=2)))
    partitions, tasks = data.draw(st.sampled_from((1, 3))), data.draw(st.integers(1, 3))
    case = Case(streams, queries, partitions, restarts, tasks)
    with tempfile.TemporaryDirectory() as folder:
        InProcess(Path(folder), case).run()
        check_answers(case, Path(folder))
