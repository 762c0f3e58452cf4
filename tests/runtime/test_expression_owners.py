"""Who is suspended because an expression cannot be evaluated: the queries that have it, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import pytest

from watersmeet.model import ColumnRef, Expression, Query
from watersmeet.model.predicate import Theta
from watersmeet.options import Options
from watersmeet.pipeline import Pipeline
from watersmeet.plan.planner import AT_ONCE, make_plan
from watersmeet.runtime.tick.suspension import owners

STREAMS = "".join(
    f"CREATE STREAM {name} (k INT, v BIGINT, s STRING, at TIMESTAMP) TIMESTAMP BY at FROM parquet '{name}';\n"
    for name in "rtu"
)
QUERIES = {
    "filter": "SELECT r.v FROM r, t WHERE r.k = t.k AND r.v % 7 = 3 WINDOW 8 SECONDS",
    "longer_filter": "SELECT r.v FROM r, t WHERE r.k = t.k AND r.v % 7 = 3 AND length(r.s) = 5 WINDOW 8 SECONDS",
    "key": "SELECT r.v FROM r, t WHERE r.k + 1 = t.k + 2 WINDOW 8 SECONDS",
    "theta": "SELECT r.v FROM r, t WHERE r.k = t.k AND upper(r.s) < upper(t.s) WINDOW 8 SECONDS",
    "band": "SELECT r.v FROM r, u WHERE u.v * 2 BETWEEN r.v * 3 AND r.v * 3 + 5 WINDOW 8 SECONDS",
    "chain": "SELECT r.v FROM r, t, u WHERE r.k = t.k AND t.s = u.s AND u.v % 5 = 1 AND r.v + 1 < u.v WINDOW 8 SECONDS",
    "leaf": "SELECT r.v FROM r [RANGE 8 SECONDS] r ANTI JOIN u [RANGE 8 SECONDS] u ON r.k = u.k AND u.v % 3 = 1",
    "leaf_and_where": "SELECT r.v, u.v AS w FROM r [RANGE 8 SECONDS] r LEFT JOIN u [RANGE 8 SECONDS] u "
    "ON r.k = u.k AND length(u.s) = 2 WHERE length(r.s) > 4 AND (u.v IS NULL OR length(u.s) = 8)",
    "slices": "SELECT window_start, k % 4 AS g, sum(v * 2) AS a FROM r [RANGE 8 SECONDS SLIDE 4 SECONDS] "
    "WHERE v % 11 = 1 GROUP BY k % 4",
    "distinct": "SELECT window_start, count(DISTINCT v % 13) AS a FROM r [RANGE 8 SECONDS SLIDE 4 SECONDS]",
    "filtered": "SELECT window_start, k, sum(v) FILTER (WHERE length(s) = 3) AS a "
    "FROM t [RANGE 8 SECONDS SLIDE 4 SECONDS] WHERE v % 23 = 1 GROUP BY k",
    "otherwise_filtered": "SELECT window_start, k, sum(v) AS a FROM t [RANGE 8 SECONDS SLIDE 4 SECONDS] "
    "WHERE v % 29 = 1 GROUP BY k",
    "filtered_without_keys": "SELECT window_start, count(*) FILTER (WHERE length(s) = 3) AS a "
    "FROM u [RANGE 8 SECONDS SLIDE 4 SECONDS] WHERE v % 31 = 1",
    "filtered_factor": "SELECT window_start, sum(y.v) FILTER (WHERE length(y.s) = 4) AS b "
    "FROM r [RANGE 8 SECONDS SLIDE 4 SECONDS] x JOIN u [RANGE 8 SECONDS SLIDE 4 SECONDS] y ON x.k = y.k "
    "WHERE y.v % 37 = 1",
    "factorized": "SELECT window_start, x.k, sum(y.v * 5) AS b FROM r [RANGE 8 SECONDS SLIDE 4 SECONDS] x "
    "JOIN t [RANGE 8 SECONDS SLIDE 4 SECONDS] y ON x.k = y.k WHERE x.v % 17 = 1 GROUP BY x.k",
    "of_join": "SELECT window_start, max(r.v * 7) AS b FROM r [RANGE 8 SECONDS] r, t [RANGE 8 SECONDS] t "
    "WHERE r.k = t.k AND t.v % 19 = 2 GROUP BY window(result_time(), '5 seconds')",
}


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return Pipeline.read(STREAMS + "".join(f"CREATE QUERY {name} AS {text};\n" for name, text in QUERIES.items()))


def evaluated(part: object) -> Iterator[str]:
    """The texts of all expressions inside of a part of a plan, except the outputs of queries: each has its own."""
    if isinstance(part, Theta):
        yield part.text
    if isinstance(part, Expression):
        if not isinstance(part, ColumnRef):
            yield part.text
    elif isinstance(part, tuple):
        for each in part:
            yield from evaluated(each)
    elif is_dataclass(part) and not isinstance(part, Query):
        for each in fields(part):
            if each.name not in ("condition", "results", "windows", "outputs", "query"):
                yield from evaluated(getattr(part, each.name))


@pytest.mark.parametrize("materialize", ["on", "off"])
def test_every_expression_that_a_plan_evaluates_belongs_to_queries(pipeline: Pipeline, materialize: str) -> None:
    queries = list(pipeline.queries.values())
    plan = make_plan(AT_ONCE, tuple(pipeline.streams.values()), queries, Options(materialize=materialize))
    texts = set(evaluated(plan.rules))
    assert len(texts) > 15
    assert [text for text in texts if not owners([text], queries)] == []


def test_a_query_whose_expression_is_only_a_part_of_the_failed_one_is_not_suspended(pipeline: Pipeline) -> None:
    queries = [pipeline.queries[name] for name in ("filter", "longer_filter")]
    short, long = (query.join.aliases[0].filter for query in queries if query.join is not None)
    assert short is not None and long is not None and short.text in long.text
    assert owners([long.text], queries) == {"longer_filter"}
    assert owners([short.text], queries) == {"filter"}
    assert owners([f"({short.text}) IS NULL"], queries) == set()
