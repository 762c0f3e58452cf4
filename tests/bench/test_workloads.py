"""The queries of the benchmarks mean the same in every system's text."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bench.peers import duck
from bench.windows.estimated import WINDOWED
from bench.workloads import nexmark, three_way
from bench.workloads.model import MICROS, Query, Table, Workload
from bench.workloads.texts import flink_select, watersmeet_script
from watersmeet.engine import Engine
from watersmeet.pipeline import Pipeline


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    return nexmark.make(tmp_path_factory.mktemp("nexmark"), scale=0.001)


def test_a_workload_survives_json(small: Workload) -> None:
    assert Workload.from_json(small.to_json()) == small


def test_events_are_in_nexmarks_proportion(small: Workload) -> None:
    persons, auctions, bids = (sum(small.rows[name]) for name in ("persons", "auctions", "bids"))
    assert (auctions, bids) == (3 * persons, 46 * persons)


def test_duckdb_counts_what_the_definition_says(small: Workload) -> None:
    """q8 by a loop over all pairs: same person, same ten seconds of the clock."""
    tables = {
        name: [
            row for tick in range(2) for row in pq.read_table(f"{small.folder}/{name}/{tick:06d}.parquet").to_pylist()
        ]
        for name in ("persons", "auctions")
    }
    pairs = product(tables["persons"], tables["auctions"])
    expected = sum(p["id"] == a["seller"] and p["pane"] == a["pane"] for p, a in pairs)
    assert expected > 0
    assert duck.counts(small, ticks=2)["q8"] == expected


def test_windows_are_compared_in_both_directions() -> None:
    query = Query("q", (Table("x", "r", 2), Table("y", "s", 3)), (("x.a", "y.a"),), ("x.a",))
    near = query.near("{}.ts")
    assert near == [f"y.ts - x.ts <= {2 * MICROS}", f"x.ts - y.ts <= {3 * MICROS}"]
    assert "y.rt BETWEEN x.rt - INTERVAL '3.001' SECOND AND x.rt + INTERVAL '2.001' SECOND" in flink_select(query, True)
    assert "BETWEEN" not in flink_select(query, interval_joins=False)
    assert all(part in flink_select(query, interval_joins=False) for part in near)


def test_a_table_that_is_joined_to_nothing_before_it_is_rejected() -> None:
    r, s, t = three_way.QUERY.tables
    with pytest.raises(ValueError, match="t is not connected"):
        list(replace(three_way.QUERY, tables=(r, t, s)).joins())


def test_watersmeet_accepts_the_scripts(small: Workload, tmp_path: Path) -> None:
    engine = Engine(home=tmp_path / "home")
    engine.sql(watersmeet_script(small, small.queries))
    assert [handle.name for handle in engine.queries] == ["q3", "q8", "q20", "q23"]


@pytest.mark.parametrize("name", WINDOWED)
def test_pipelines_with_windows_are_valid(name: str, tmp_path: Path) -> None:
    made = WINDOWED[name](tmp_path, 0.01, ticks=2)
    queries = Pipeline.read(made.text, tmp_path / "pipeline.sql").queries.values()
    kinds = {query.form.kind for query in queries}
    assert any(query.is_windowed for query in queries)
    assert ("batch" in kinds) == name.startswith("Spark"), kinds
    assert ("task" in kinds) == ("tasks" in name or name == "TPC-H, all"), kinds
