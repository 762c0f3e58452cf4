"""The MultiStream experiments: their inputs, texts and tables, and one tiny run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench.multistream.inputs import RELATIONS, TPCH, Inputs, chain_columns, chain_keys, chain_query, query, shares
from bench.multistream.latency import CONDITIONS
from bench.multistream.probing import flat_tree, left_deep_tree, paper_cost
from bench.multistream.running import QUANTILES, Ran, Run, carry_out
from bench.multistream.showing import fill_page, markdown
from bench.workloads import tpch
from bench.workloads.model import Query, Stream, Workload
from bench.workloads.texts import watersmeet_script
from watersmeet.options import Options
from watersmeet.plan.planner import START, make_plan
from watersmeet.sql import CreateQuery, CreateStream, build_query, parse_script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_chain_has_the_selectivities_of_its_letters(tmp_path: Path) -> None:
    rows = 3000
    workload = Inputs(tmp_path).chain("LMH", rows, ticks=3)
    assert workload.counted() == dict.fromkeys("abcd", rows)
    for (_, _, share), partners in zip(shares(workload), (0.01, 1.0, 10.0), strict=True):
        expected = rows * partners  # pairs; their number varies by about its root
        assert share * rows**2 == pytest.approx(expected, abs=5 * expected**0.5)


def test_neighbours_in_a_chain_share_a_key() -> None:
    assert chain_columns("MLM") == {"a": ("k1",), "b": ("k1", "k2"), "c": ("k2", "k3"), "d": ("k3",)}
    assert chain_keys("LMH", 1000) == {"k1": 100_000, "k2": 1000, "k3": 100}
    assert chain_query("ML").equalities == (("a.k1", "b.k1"), ("b.k2", "c.k2"))


def test_results_of_an_input_are_counted_by_duckdb(tmp_path: Path) -> None:
    inputs = Inputs(tmp_path)
    workload = inputs.chain("M", 500, ticks=2)
    ((_, _, share),) = shares(workload)
    assert inputs.results(workload) == pytest.approx(share * 500**2)


def _planned(script: str) -> set[str]:
    """How the steps of a pipeline look into stores."""
    streams, queries = {}, []
    for one in parse_script(script):
        if isinstance(one, CreateStream):
            streams[one.stream.name] = one.stream
        elif isinstance(one, CreateQuery):
            queries.append(build_query(one.name, one.select, streams))
    plan = make_plan(START, tuple(streams.values()), queries, Options(searcher="flat", partitions=2))
    return {step.by for step in plan.rendered().steps}


def _tpch(name: str) -> Workload:
    relations, equalities = TPCH[name]
    streams = tuple(
        Stream(relation, {"ts": "timestamp", **dict.fromkeys(tpch.COLUMNS[relation], "bigint")})
        for relation in relations
    )
    return Workload(name, "nowhere", streams, (query(name, relations, equalities),), {})


@pytest.mark.parametrize("name", TPCH)
def test_every_join_is_looked_up_by_hash_and_as_a_predicate_by_a_scan(name: str) -> None:
    workload = _tpch(name)
    assert _planned(watersmeet_script(workload, workload.queries)) == {"hash"}
    assert _planned(watersmeet_script(workload, workload.queries, theta=True, sink="count")) == {"scan"}


def test_joins_of_the_queries() -> None:
    made: dict[str, Query] = {name: _tpch(name).queries[0] for name in TPCH}
    assert {name: len(list(one.joins())) for name, one in made.items()} == {"q2": 4, "q3": 2, "q5": 5}
    assert len(made["q5"].equalities) == 6  # one more than a tree: the cycle over nations


def test_local_joins_compare_the_same_columns() -> None:
    assert CONDITIONS["theta"] == "NOT ({0} < {1} OR {0} > {1})".format(*CONDITIONS["hash"].split(" = "))


def test_the_papers_formula_says_what_the_paper_says() -> None:
    """V-B: with low selectivities a left-deep plan saves over half, unless a task can hold whole relations."""
    flat, deep = flat_tree(RELATIONS), left_deep_tree(RELATIONS)

    def saved(partners: float, capacity: float) -> float:
        return 1 - paper_cost(deep, partners, capacity) / paper_cost(flat, partners, capacity)

    assert saved(0.01, 0.1) > 0.5
    assert abs(saved(0.01, 1.0)) < 0.01
    assert saved(0.01, 0.1) > saved(1.0, 0.1) > saved(10.0, 0.1)


def test_two_relations_by_the_papers_formula() -> None:
    # Each tuple of either relation is sent to the two tasks of the other, and weighed by 1/2.
    assert paper_cost(flat_tree("ab"), 1.0, 0.5) == pytest.approx(2 * 10**6 * 2 / 2)


def test_speed_is_that_of_the_ticks_after_the_first() -> None:
    ticks = [
        {"rows": 100, "probe": 9.0, "finished_at": 50.0},
        {"rows": 30, "probe": 0.5, "finished_at": 52.0},
        {"rows": 10, "probe": 1.5, "finished_at": 54.0},
    ]
    ran = Ran(0, ticks, {}, 0, 0.0, [], [])
    assert (ran.rows_per_second, ran.rows_per_second_of_probing) == (10.0, 20.0)


def _told() -> dict[str, Any]:
    machine = {"date": "2026-01-02T03:04:05", "cores": 2, "load": [1.25, 1, 1]}
    return {"title": "rows", "columns": ["plan", "rows"], "rows": [["flat", "7"]], "short": True, "machine": machine}


def test_a_table_of_the_page_is_renewed() -> None:
    page = "before\n<!-- table 8a -->\nold\n<!-- end -->\nafter\n<!-- table 8b -->\nkept\n<!-- end -->\n"
    filled = fill_page(page, {"8a": markdown(_told())})
    assert "| plan | rows |\n|---|---|\n| flat | 7 |" in filled
    assert "old" not in filled
    assert filled.endswith("after\n<!-- table 8b -->\nkept\n<!-- end -->\n")
    assert "2026-01-02 on 2 cores by `bench/run multistream --short`; load at the end 1.2" in filled


def test_a_tiny_run_counts_what_it_probes_and_stores(spark: SparkSession, tmp_path: Path) -> None:
    inputs = Inputs(tmp_path)
    workload = inputs.chain("MM", 60, ticks=2)
    scratch = tmp_path / "run"
    scratch.mkdir()
    ran = carry_out(Run(workload, "left-deep", "theta", partitions=2, watched=True), scratch, spark)
    assert ran.results == inputs.results(workload)
    assert ran.looked_up == ["scan"]
    assert len(ran.materialized) == 1
    assert [ran.stored[name] for name in "abc"] == [60, 60, 60]
    assert len(ran.stored) == 4
    assert [sum(ran.places[-1][name]) for name in ran.stored] == list(ran.stored.values())
    # Each row and each inner result is sent to both partitions once: to its partner store, and to the third relation's.
    inner = next(count for name, count in ran.stored.items() if name not in "abc")
    assert ran.probed == 2 * (3 * 60 + inner)


def test_a_fed_run_tells_latencies(spark: SparkSession, tmp_path: Path) -> None:
    inputs = Inputs(tmp_path)
    workload = inputs.chain("M", 300, ticks=5)
    scratch = tmp_path / "run"
    scratch.mkdir()
    ran = carry_out(Run(workload, "flat", period=0.1), scratch, spark)
    assert ran.results == inputs.results(workload)
    assert len(ran.latencies) == len(QUANTILES)
    assert 0 < ran.latencies[0] <= ran.latencies[-1]
