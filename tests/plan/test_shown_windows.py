"""Windowed queries in explain and what-if: class, shared slices, and the reason for a slower class."""

from __future__ import annotations

import json

import pytest

from watersmeet.cli.explain import show_plan, what_one_more_adds
from watersmeet.pipeline import Pipeline
from watersmeet.plan.units import length_text

STREAMS = """
CREATE STREAM bids (auction BIGINT, price BIGINT, at TIMESTAMP) TIMESTAMP BY at FROM parquet 'bids';
CREATE STREAM auctions (id BIGINT, category INT, at TIMESTAMP) TIMESTAMP BY at FROM parquet 'auctions';
"""
QUERIES = """
CREATE QUERY hour AS SELECT auction, count(*) AS n FROM bids [RANGE 1 HOUR SLIDE 1 MINUTE] GROUP BY auction;
CREATE QUERY days AS SELECT auction, sum(price) AS n FROM bids [TUMBLE 2 DAYS] GROUP BY auction;
CREATE QUERY distinct_ones AS SELECT count(DISTINCT price) AS n FROM bids [TUMBLE 90 SECONDS];
CREATE QUERY middle AS SELECT median(price) AS n FROM bids [TUMBLE 90 SECONDS];
"""


@pytest.fixture
def pipeline() -> Pipeline:
    return Pipeline.read(STREAMS + QUERIES)


def test_explain_names_classes_slices_and_reasons(pipeline: Pipeline) -> None:
    text = show_plan(pipeline, None, "text")
    assert (
        "1 min of bids by auction: " in text
        and "100 keys in a window, read from a matrix of slices and keys  ⇒" in text
    )
    assert "hour: 1 h every 1 min of bids, from partial aggregates of slices (class slices): " in text
    assert "days: 2 d of bids, from partial aggregates of slices (class slices): " in text
    assert "distinct_ones: 90 s of bids, from partial aggregates of slices (class slices): " in text
    assert "middle: 90 s of bids, by Spark SQL over the rows of each window (class batch): " in text
    assert "Spark computes each window from its rows, because median has no partial aggregates" in text


STATISTICS = """{"arrivals": {"bids": 60000}, "progress": {"bids": 60},
"slices": {"elsewhere": {"title": "bids by auction", "rows": 60000, "slices": 60000, "keys": 5000}}}"""


def test_windowed_queries_have_a_price_that_adds_up(pipeline: Pipeline) -> None:
    plan = json.loads(show_plan(pipeline, STATISTICS, "json"))
    assert sum(query["cost"] for query in plan["windows"]) == pytest.approx(plan["window_cost"])
    assert plan["window_cost"] < sum(plan["estimate"].values()) and plan["unpriced"] == []
    costs = {query["name"]: query["cost"] for query in plan["windows"]}
    assert all(costs.values()) and costs["middle"] == max(costs.values()), "a job of Spark costs most"
    (shared,) = (store for store in plan["slices"] if store["serves"] == ["days", "hour"])
    assert shared["keys_of_window"] == pytest.approx(5000), "another store with these keys is known"
    assert shared["cost"] / 2 < costs["days"] < costs["hour"], "half of the store each; hour closes more windows"
    text = show_plan(pipeline, STATISTICS, "text")
    assert "  windows " in text and "windows by Spark" in text and "optimal" not in text
    assert "(assumed)" in show_plan(pipeline, None, "text")
    assert "(assumed)</text>" in show_plan(pipeline, None, "svg")


def test_explain_names_what_windows_are_read_from(pipeline: Pipeline) -> None:
    """By the rule that tasks have, with the keys that were measured."""
    for keys, structure in ((50, "a matrix of slices and keys"), (5000, "a list for each slice")):
        plan = json.loads(show_plan(pipeline, STATISTICS.replace("5000}", f"{keys}}}"), "json"))
        (shared,) = (store for store in plan["slices"] if store["serves"] == ["days", "hour"])
        assert shared["structure"] == structure


def test_what_was_measured_is_not_called_assumed(pipeline: Pipeline) -> None:
    planned = json.loads(show_plan(pipeline, None, "json"))
    assert all(query["assumed"] for query in planned["windows"])
    slices = {store["name"]: {"title": "t", "rows": 1, "slices": 1, "keys": 1} for store in planned["slices"]}
    known = json.dumps({"arrivals": {"bids": 10}, "progress": {"bids": 60}, "slices": slices})
    measured = json.loads(show_plan(pipeline, known, "json"))
    assert not any(shown["assumed"] for shown in (*measured["windows"], *measured["slices"]))


def test_windows_without_rows_need_no_job(pipeline: Pipeline) -> None:
    seldom = json.loads(show_plan(pipeline, '{"arrivals": {"bids": 1}, "progress": {"bids": 900000}}', "json"))
    (middle,) = (query["cost"] for query in seldom["windows"] if query["name"] == "middle")
    assert 0.4 < middle < 0.6, "one job for the one row of a tick, in which 10,000 windows end"


@pytest.mark.parametrize("known", [None, '{"rates": {"bids": 100, "auctions": 10}}'])
def test_joins_cost_the_same_beside_windows(pipeline: Pipeline, known: str | None) -> None:
    join = "SELECT a.id FROM bids b, auctions a WHERE b.auction = a.id WINDOW 1 HOUR"
    mixed = json.loads(show_plan(pipeline.with_query(pipeline.query("joined", join)), known, "json"))
    alone = json.loads(show_plan(Pipeline.read(f"{STREAMS} CREATE QUERY joined AS {join};"), known, "json"))
    assert (mixed["cost"], mixed["steps"]) == (alone["cost"], alone["steps"])
    assert mixed["window_cost"] > 0 == alone["window_cost"]


def test_they_are_in_the_drawing_with_what_they_share(pipeline: Pipeline) -> None:
    drawing = show_plan(pipeline, None, "svg")
    for shown in ("hour", "days", "distinct_ones", "middle", "1 min slices by auction", "rows of bids"):
        assert f">{shown}</text>" in drawing
    assert "4 queries over 1 stream" in drawing and "3 stores of slices instead of 4" in drawing


def test_json_has_them_too(pipeline: Pipeline) -> None:
    plan = json.loads(show_plan(pipeline, None, "json"))
    assert {(each["name"], each["kind"]) for each in plan["windows"]} == {
        ("hour", "slices"),
        ("days", "slices"),
        ("distinct_ones", "slices"),
        ("middle", "batch"),
    }
    serves = {store["width"]: sorted(store["serves"]) for store in plan["slices"] if store["keys"]}
    assert serves == {60_000_000: ["days", "hour"], 90_000_000: ["distinct_ones"]}


def test_what_if_says_which_slices_one_more_query_shares(pipeline: Pipeline) -> None:
    counting = "SELECT auction, count(*) AS n FROM bids [TUMBLE 1 HOUR] GROUP BY auction"
    shared = what_one_more_adds(pipeline, counting, None)
    assert "cost now " in shared and "it adds " in shared and "sharing saves " in shared
    assert "\nits windows are computed from partial aggregates of slices\n" in shared
    assert "(assumed), shared with days, hour" in shared and "steps" not in shared
    alone = what_one_more_adds(pipeline, "SELECT max(category) AS m FROM auctions [TUMBLE 1 HOUR]", None)
    assert "for it alone" in alone
    slow = what_one_more_adds(pipeline, "SELECT median(price) AS m FROM bids [TUMBLE 1 HOUR]", None)
    assert "its windows are computed by Spark SQL over the rows of each window: Spark computes each window" in slow


def test_what_if_takes_rates_of_streams_that_the_query_does_not_read(pipeline: Pipeline) -> None:
    rates = '{"rates": {"bids": 100, "auctions": 10}}'
    text = what_one_more_adds(pipeline, "SELECT count(*) AS n FROM auctions [TUMBLE 1 HOUR]", rates)
    assert "its share of the windows is " in text


@pytest.mark.parametrize(
    ("micros", "text"), [(60_000_000, "1 min"), (90_000_000, "90 s"), (7_200_000_000, "2 h"), (1_500, "1500 µs")]
)
def test_lengths(micros: int, text: str) -> None:
    assert length_text(micros) == text
