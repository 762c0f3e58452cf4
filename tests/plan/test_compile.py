"""Which steps are shared, and what a query still checks for itself."""

from __future__ import annotations

from tests.support.declarations import numbered_queries, streams_of
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.search import optimize
from watersmeet.optimize.statistics import Statistics
from watersmeet.plan.compile import compile_solution
from watersmeet.plan.parts import parts_of
from watersmeet.plan.ruleset import Ruleset

SCRIPT = """
CREATE STREAM r (ts TIMESTAMP, a INT, n STRING) TIMESTAMP BY ts FROM parquet 'r';
CREATE STREAM s (ts TIMESTAMP, a INT, b INT, n STRING) TIMESTAMP BY ts FROM parquet 's';
CREATE STREAM t (ts TIMESTAMP, b INT, c INT) TIMESTAMP BY ts FROM parquet 't';
CREATE STREAM u (ts TIMESTAMP, c INT, a INT) TIMESTAMP BY ts FROM parquet 'u';
"""
STREAMS = streams_of(SCRIPT)
RS = "SELECT r.a FROM r, s WHERE r.a = s.a WINDOW 10 SECONDS"
RST = "SELECT x.a FROM r AS x, s AS y, t AS z WHERE y.a = x.a AND y.b = z.b WINDOW 10 SECONDS"


def plan(*texts: str, partitions: int = 1, statistics: Statistics | None = None) -> Ruleset:
    queries = numbered_queries(texts, STREAMS)
    graphs = tuple(part.graph for part in parts_of(queries))
    problem = Problem(graphs, statistics or Statistics(), partitions, materialize=False)
    return compile_solution(tuple(STREAMS.values()), queries, optimize(problem, searcher="greedy"), partitions)


def test_equal_steps_of_different_queries_are_one() -> None:
    alone = len(plan(RS).all_steps()) + len(plan(RST).all_steps())
    together = plan(RS, RST)
    assert len(together.all_steps()) == alone - 2  # r → s and s → r are in both
    (from_r,) = [start for start in together.starts if start.stream == "r"]
    (shared,) = from_r.steps
    assert [emit.queries for emit in shared.emits] == [("q0",)]
    assert [emit.queries for emit in shared.steps[0].emits] == [("q1",)]


def test_the_same_query_twice_costs_no_further_step() -> None:
    assert len(plan(RST, RST, RST).all_steps()) == len(plan(RST).all_steps())


def test_a_shared_step_takes_the_widest_window_and_the_narrower_query_checks_its_own() -> None:
    rules = plan(RS, RS.replace("10", "2"))
    for step in rules.all_steps():
        assert step.window == 10_000_000
        (both,) = step.emits
        assert both.queries == ("q0", "q1")
        assert both.windows == ((10_000_000, 10_000_000), (2_000_000, 2_000_000))
    assert all(emit.windows is None for step in plan(RS, RS).all_steps() for emit in step.emits)


def test_a_shared_step_passes_what_any_query_wants_and_each_checks_its_filter() -> None:
    filtered = RS.replace("WHERE", "WHERE s.b > 1 AND")
    rules = plan(filtered, RS.replace("WHERE", "WHERE s.b < 0 AND"))
    probing_s = next(step for step in rules.all_steps() if step.store == "s")
    assert [str(ask.block) for ask in probing_s.groups] == ["(('\"b\" > 1',), ('\"b\" < 0',))"]
    assert rules.stream_stores["s"].only_wanted
    assert not rules.stream_stores["r"].only_wanted
    unfiltered = plan(filtered, RS)
    probing_s = next(step for step in unfiltered.all_steps() if step.store == "s")
    assert [str(ask.block) for ask in probing_s.groups] == ["(('\"b\" > 1',), ())"]
    assert not unfiltered.store("r").blocks


def test_more_queries_than_a_word_has_bits_walk_in_several_groups() -> None:
    rules = plan(*(RS.replace("WHERE", f"WHERE s.b > {constant} AND") for constant in range(70)))
    (from_r,) = [start for start in rules.starts if start.stream == "r"]
    assert [len(step.emits[0].queries) for step in from_r.steps] == [64, 6]


def test_only_hashed_keys_are_verified_by_value() -> None:
    assert all(not emit.verify for step in plan(RST).all_steps() for emit in step.emits)
    text = plan("SELECT r.a FROM r, s WHERE r.n = s.n WINDOW 1 SECOND")
    assert all(len(emit.verify) == 1 for step in text.all_steps() for emit in step.emits)
    two = plan("SELECT r.a FROM r, s WHERE r.n = s.n AND r.a = s.a WINDOW 1 SECOND")
    assert all(len(step.key) == 2 and len(step.emits[0].verify) == 2 for step in two.all_steps())


def test_a_cycle_is_closed_by_a_key_of_two_columns() -> None:
    rules = plan("SELECT s.a FROM s, t, u WHERE s.b = t.b AND t.c = u.c AND u.a = s.a WINDOW 1 SECOND")
    closing = [step for step in rules.all_steps() if step.emits]
    assert closing
    assert all(len(step.key) == 2 for step in closing)


def test_each_result_is_found_from_its_last_alias_only() -> None:
    rules = plan("SELECT x.a FROM r AS x, r AS y WHERE x.a = y.a WINDOW 1 SECOND")
    seen = [([position for position, _ in step.emits[0].members], step.sees) for step in rules.all_steps()]
    assert sorted(seen) == [([0, 1], ()), ([1, 0], ("r",))]


def test_a_plan_goes_where_fewest_partners_are() -> None:
    statistics = Statistics(
        sizes={"r": 100, "s": 100, "t": 100},
        distinct={("t", "b"): 1000.0, ("s", "b"): 1000.0, ("r", "a"): 2.0, ("s", "a"): 2.0},
    )
    rules = plan(RST, statistics=statistics)
    (from_s,) = [start for start in rules.starts if start.stream == "s"]
    assert [step.store for step in from_s.steps] == ["t"]
