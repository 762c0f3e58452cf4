"""Predicates that are no equalities, on values at the ends of their types."""

from __future__ import annotations

import math
import tempfile
from dataclasses import replace
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
from tests.support.plans import plans
from watersmeet.optimize.operator_trees import OperatorTree, paths_of
from watersmeet.optimize.search import optimize
from watersmeet.optimize.solution import price
from watersmeet.optimize.statistics import Statistics
from watersmeet.plan.ruleset import Range

NEWEST = "greatest(a.ts, b.ts, c.ts, d.ts)"

MOST, LEAST = 2**63 - 1, -(2**63)
VALUES: dict[str, tuple[str, pa.DataType, list[object]]] = {
    "k0": ("BIGINT", pa.int64(), [0, 1, MOST, MOST - 1, LEAST, LEAST + 1, 2**53, 2**53 + 1, None, -7]),
    "d": ("DOUBLE", pa.float64(), [0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, 0.2, 0.1 + 0.2, None, 1e308]),
    "i": ("INT", pa.int32(), [0, 1, 2**31 - 1, -(2**31), 5, -5, None, 46341, 3, 3]),
    "e": ("DOUBLE", pa.float64(), [0.3, 1.0, 2.5, -3.5, 7.0, 0.1, 0.7, 100.25, 1.5, -0.25]),
}
CONDITIONS = [
    "a.k0 < b.k0",
    "a.k0 >= b.k0",
    "a.k0 <> b.k0",
    "abs(a.k0 - b.k0) <= 1",
    "a.k0 - 1 < b.k0",
    "a.k0 <= b.d",
    "a.k0 * 2 < b.k0 * b.i",
    "a.d < b.d",
    "a.d <= b.d",
    "a.d >= b.d",
    "a.d <> b.d",
    "NOT (a.d < b.d)",
    "abs(a.d - b.d) < 0.1",
    "abs(a.e - b.e) <= 0.4",
    "a.d - b.d <= 0.1",
    "a.d + 0.1 >= b.d",
    "a.d * b.d > 1",
    "(a.d < b.d OR a.i < b.i)",
    "a.i + 1 > b.i",
    "a.i * b.i > 10",
    "a.i - b.i BETWEEN -2 AND 2",
    "a.e * b.e + a.i > b.i",
    "NOT (a.i < b.i AND a.e > b.e)",
]


def stream(name: str, order: list[int]) -> StreamCase:
    data: dict[str, pa.Array] = {
        "ts": seconds_after_epoch(range(10)),
        "id": pa.array(range(10), pa.int64()),
    }
    for column, (_, kind, values) in VALUES.items():
        data[column] = pa.array([values[at] for at in order], kind)
    columns = tuple((column, kind) for column, (kind, _, _) in VALUES.items())
    return StreamCase(name, columns, 0, pa.table(data), (3, 7))


def crossed(condition: str, others: str = "", name: str = "q") -> QueryCase:
    selected = "SELECT a.id, b.id AS other FROM s0 {0} a {1} s1 {0} b "
    # A value that cannot be computed makes the predicate false; DuckDB needs to be told.
    oracle = selected.format("", "CROSS JOIN") + f"WHERE coalesce(TRY({condition}), false) {others}"
    return QueryCase(name, selected.format("[UNBOUNDED]", ",") + f"WHERE {condition} {others}", oracle)


@given(st.data(), cases(max_streams=3, max_queries=3, max_rows=12, max_ticks=4, thetas=(4, 2)))
@settings(max_examples=examples(60))
def test_random_predicates_under_any_plan_give_the_oracles_results(data: st.DataObject, case: Case) -> None:
    """Two to five aliases, all or half of the predicates no equalities, anything materialized, one and three places."""
    with tempfile.TemporaryDirectory() as folder:
        engine = InProcess(Path(folder), case)
        for tick in range(case.ticks):
            if tick % 2 == 0:
                engine.follow(data.draw(plans(engine.problem)))
            if tick in case.restarts:
                engine.restart()
            engine.tick(case.pieces(tick))
        check_answers(case, Path(folder))


@pytest.mark.parametrize("others", ["", "AND a.id % 4 = b.id % 4"])
@pytest.mark.parametrize("partitions", [1, 3])
def test_extreme_values_compare_as_in_sql(tmp_path: Path, partitions: int, others: str) -> None:
    """Looked up by range or by scan, and tested behind an equality; a query for each condition."""
    streams = (stream("s0", list(range(10))), stream("s1", [3, 1, 4, 9, 5, 2, 6, 8, 7, 0]))
    queries = tuple(crossed(condition, others, f"q{place}") for place, condition in enumerate(CONDITIONS))
    case = Case(streams, queries, partitions, frozenset(), 2)
    engine = InProcess(tmp_path, case)
    engine.run()
    check_answers(case, tmp_path)


def test_a_band_has_two_ends_whichever_side_is_probed(tmp_path: Path) -> None:
    streams = (stream("s0", list(range(10))), stream("s1", list(range(10))))
    condition = "a.ts BETWEEN b.ts - INTERVAL '2' SECOND AND b.ts + INTERVAL '1' SECOND"
    case = Case(streams, (crossed(condition),), 1, frozenset(), 1)
    engine = InProcess(tmp_path, case)
    steps = engine.rules.all_steps()
    assert len(steps) == 2
    for step in steps:
        assert isinstance(step.range, Range)
        assert (len(step.range.lows), len(step.range.highs), step.tests) == (1, 1, ())
        assert step.range.part in engine.rules.store(step.store).sorted_by
    engine.run()
    check_answers(case, tmp_path)


def test_a_cross_join_gives_every_pair(tmp_path: Path) -> None:
    streams = (stream("s0", list(range(10))), stream("s1", list(range(10))))
    text = "SELECT a.id, b.id AS other FROM s0 {0} a CROSS JOIN s1 {0} b"
    case = Case(streams, (QueryCase("q", text.format("[UNBOUNDED]"), text.format("")),), 3, frozenset(), 1)
    engine = InProcess(tmp_path, case)
    engine.run()
    check_answers(case, tmp_path)


def test_a_large_store_without_an_equality_is_spread_and_a_small_one_is_in_one_place(tmp_path: Path) -> None:
    streams = (stream("s0", list(range(10))), stream("s1", list(range(10))))
    case = Case(streams, (crossed("a.i < b.i"),), 3, frozenset(), 1)
    engine = InProcess(tmp_path, case)
    engine.follow(optimize(replace(engine.problem, statistics=Statistics({"s0": 2e6, "s1": 10.0}))))
    engine.run()
    places = {(bucket.store, bucket.partition) for bucket in engine.manifest.buckets}
    assert {place for store, place in places if store == "s0"} == {0, 1, 2}
    assert len([place for store, place in places if store == "s1"]) == 1
    check_answers(case, tmp_path)


LINKS = ["{0}.i < {1}.i", "abs({0}.e - {1}.e) <= 1.5", "{0}.i <> {1}.i", "{0}.k0 = {1}.k0", "{0}.e * {1}.e > 0.5"]
A, B, C, D = "s0", "s1", "s2", "s3"
SHAPES = {  # MultiStream, Fig. 6
    "I": OperatorTree((A, B, C, D)),
    "II": OperatorTree((OperatorTree((A, B)), C, D)),
    "III": OperatorTree((OperatorTree((A, B)), OperatorTree((C, D)))),
    "IV": OperatorTree((OperatorTree((A, B, C)), D)),
    "V": OperatorTree((OperatorTree((OperatorTree((A, B)), C)), D)),
    "V, zigzag": OperatorTree((OperatorTree((A, OperatorTree((B, C)))), D)),
}


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
@given(
    orders=st.lists(st.permutations(range(10)), min_size=4, max_size=4),
    links=st.lists(st.sampled_from(LINKS), min_size=3, max_size=3),
    cuts=st.lists(st.integers(0, 10), min_size=2, max_size=2),
)
@settings(max_examples=examples(4))
def test_all_tree_shapes_give_the_oracles_results(
    shape: str, partitions: int, orders: list[list[int]], links: list[str], cuts: list[int]
) -> None:
    streams = tuple(
        replace(stream(name, order), cuts=tuple(sorted(cuts))) for name, order in zip((A, B, C, D), orders, strict=True)
    )
    pairs = zip("abc", "bcd", links, strict=True)
    conditions = [link.format(left, right) for left, right, link in pairs]
    selected = "SELECT a.id, b.id AS b, c.id AS c, d.id AS d FROM s0 {0} a, s1 {0} b, s2 {0} c, s3 {0} d WHERE "
    near = [f"{NEWEST} - {alias}.ts <= INTERVAL 6 SECOND" for alias in "abcd"]
    sure = [condition if "=" in condition else f"coalesce(TRY({condition}), false)" for condition in conditions]
    query = QueryCase(
        "q",
        selected.format("[RANGE 6 SECONDS]") + " AND ".join(conditions),
        selected.format("") + " AND ".join([*sure, *near]),
    )
    case = Case(streams, (query,), partitions, frozenset((1,)), 2)
    with tempfile.TemporaryDirectory() as folder:
        engine = InProcess(Path(folder), case)
        (graph,) = engine.problem.queries
        engine.follow(price(engine.problem, paths_of(engine.problem, graph, SHAPES[shape]), {}))
        assert len(engine.rules.materialized) == len(SHAPES[shape].inner)
        engine.run()
        check_answers(case, Path(folder))
