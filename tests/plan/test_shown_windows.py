"""Windowed queries in explain and what-if: class, shared slices, and the reason for a slower class."""

from __future__ import annotations

import json

import pytest

from watersmeet.cli.explain import show_plan, what_one_more_adds
from watersmeet.pipeline import Pipeline
from watersmeet.plan.shown_windows import length_text

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
    assert "1 min of bids by auction  ⇒ days, hour" in text
    assert "hour: 1 h every 1 min of bids, by slices\n" in text
    assert "days: 2 d of bids, by slices\n" in text
    assert "distinct_ones: 90 s of bids, by slices\n" in text
    assert "middle: 90 s of bids, by batch\n" in text
    assert "Spark computes each window from its rows, because median has no partial aggregates" in text


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
    assert "its windows are computed by slices" in shared
    assert "shared with days, hour" in shared
    alone = what_one_more_adds(pipeline, "SELECT max(category) AS m FROM auctions [TUMBLE 1 HOUR]", None)
    assert "for it alone" in alone
    slow = what_one_more_adds(pipeline, "SELECT median(price) AS m FROM bids [TUMBLE 1 HOUR]", None)
    assert "its windows are computed by batch: Spark computes each window" in slow


@pytest.mark.parametrize(
    ("micros", "text"), [(60_000_000, "1 min"), (90_000_000, "90 s"), (7_200_000_000, "2 h"), (1_500, "1500 µs")]
)
def test_lengths(micros: int, text: str) -> None:
    assert length_text(micros) == text
