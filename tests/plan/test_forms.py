"""Queries that could be computed in several forms: the cheapest one is chosen, and kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from watersmeet.adapt.origins_file import recall_windows, remember_windows
from watersmeet.home import layout
from watersmeet.home.sealed import write_sealed
from watersmeet.model import Query
from watersmeet.optimize.research import Research
from watersmeet.optimize.statistics import Statistics
from watersmeet.options import Options
from watersmeet.pipeline import Pipeline
from watersmeet.plan.explain import explain
from watersmeet.plan.planner import AT_ONCE, CHANGE, Plan, make_plan
from watersmeet.plan.rendered import RenderedPlan
from watersmeet.plan.units import seconds_text
from watersmeet.windows.protocol import StoredWindows

PIPELINE = Pipeline.read(
    "CREATE STREAM bids (auction BIGINT, price BIGINT, at TIMESTAMP) TIMESTAMP BY at FROM parquet 'bids';"
)
SLICED = PIPELINE.query("q", "SELECT max(price) AS n FROM bids [TUMBLE 1 HOUR]")
BY_SPARK = PIPELINE.query("q", "SELECT median(price) AS n FROM bids [TUMBLE 1 HOUR]")


@pytest.fixture
def query() -> Query:
    """What the two texts ask for does not matter: it stands for a query with two forms."""
    return replace(SLICED, forms=(BY_SPARK.form, SLICED.form))


def planned(query: Query, stored: StoredWindows | None = None, **weights: float) -> Plan:
    known = Statistics(weights=weights)
    return make_plan(AT_ONCE, tuple(PIPELINE.streams.values()), [query], Options(), known, stored=stored)


def kind(plan: Plan) -> tuple[str, str]:
    """The form of the query, and the operator of its windows."""
    return plan.queries[0].form.kind, plan.rules.windows[0].operator


def test_the_cheapest_form_is_chosen(query: Query) -> None:
    assert kind(planned(query)) == ("slices", "slices")
    alone = planned(SLICED)
    assert alone.queries == (SLICED,) and not alone.windows.forms, "one form is no choice"


def test_a_form_is_kept_whatever_it_costs(query: Query, tmp_path: Path) -> None:
    kept = planned(query, StoredWindows(forms={"q": "batch"}))
    assert kind(kept) == ("batch", "sql")
    streams = tuple(PIPELINE.streams.values())
    again = make_plan(CHANGE, streams, [query], Options(), Statistics(), kept)
    assert kind(again) == ("batch", "sql"), "as in the plan before"
    remember_windows(tmp_path, kept.windows.remembered, StoredWindows())
    after_restart = planned(query, recall_windows(tmp_path, PIPELINE.query))
    assert kind(after_restart) == ("batch", "sql"), "as in the life before"
    assert kind(planned(query, StoredWindows(forms={"q": "gone"}))) == ("slices", "slices"), "there is no such form"


def test_forms_that_read_rows_are_chosen_anew_in_every_plan() -> None:
    """They keep nothing else, so that nothing is lost with a change."""
    query = PIPELINE.query(
        "q", "SELECT price FROM bids [TUMBLE 1 HOUR] EXCEPT SELECT auction FROM bids [TUMBLE 1 HOUR]"
    )
    assert [form.kind for form in query.forms] == ["task", "batch"]
    plan = planned(query, StoredWindows(forms={"q": "batch"}))
    assert kind(plan) == ("task", "task")
    shown = plan.rendered()
    (window,) = shown.windows
    assert (window.kind, list(window.prices)) == ("task", ["task", "batch"])
    assert 0 < (window.prices["task"] or 0) < (window.prices["batch"] or 0)
    assert "by DuckDB in a task over the rows of each window (class task)" in explain(shown)
    by_spark = replace(query, form=query.forms[1], forms=query.forms[1:])
    assert kind(planned(by_spark, plan.windows.remembered)) == ("batch", "sql")
    assert not plan.rules.stream_stores["bids"].only_wanted, "windows are computed from all rows"


def test_a_home_of_an_earlier_version_has_first_forms(tmp_path: Path) -> None:
    """What its open windows need is in the stores of these, whatever others would cost."""
    query = JOINED.query("q", BY_SELLER)
    (tmp_path / layout.SLICES).parent.mkdir(exist_ok=True)
    write_sealed(tmp_path / layout.SLICES, {"stores": {}, "founders": []})
    known = recall_windows(tmp_path, JOINED.query)
    assert known.has_first_forms
    ends = frozenset((("bids", "auction"), ("auctions", "id")))
    few = Statistics(selectivities={ends: 1e-6})
    plans = [make_plan(AT_ONCE, tuple(JOINED.streams.values()), [query], Options(), few, stored=stored) for stored in
             (known, StoredWindows())]  # fmt: skip
    assert [plan.queries[0].form.kind for plan in plans] == ["factorized", "pairs"]


def test_founders_are_made_again_in_their_form(query: Query, tmp_path: Path) -> None:
    plan = planned(query, StoredWindows(forms={"q": "slices"}))
    remember_windows(tmp_path, plan.windows.remembered, StoredWindows())
    known = recall_windows(tmp_path, lambda name, text: replace(query, form=query.forms[0]))
    assert known.origins == plan.windows.origins and known.origins
    assert [founder.form.kind for origin in known.origins.values() for founder in origin.queries] == ["slices"]


def test_a_home_without_forms_has_the_choice_by_price(query: Query, tmp_path: Path) -> None:
    only = planned(SLICED)
    remember_windows(tmp_path, only.windows.remembered, StoredWindows())
    known = recall_windows(tmp_path, PIPELINE.query)
    assert known.origins == only.windows.origins and not known.forms
    assert kind(planned(query, known)) == ("slices", "slices")


def test_a_suspended_query_keeps_its_form(query: Query) -> None:
    """Rows are stored for it as that form needs them, and it is resumed in it."""
    streams, kept = tuple(PIPELINE.streams.values()), planned(query, StoredWindows(forms={"q": "batch"}))
    without = make_plan(CHANGE, streams, [], Options(), Statistics(), kept, suspended=[query])
    assert [each.form.kind for each in without.suspended] == ["batch"]
    assert not without.rules.stream_stores["bids"].only_wanted, "its windows are computed from all rows"
    assert kind(make_plan(CHANGE, streams, [query], Options(), Statistics(), without)) == ("batch", "sql")


JOINED = Pipeline.read(
    "CREATE STREAM bids (auction BIGINT, price BIGINT, at TIMESTAMP) TIMESTAMP BY at FROM parquet 'bids';"
    "CREATE STREAM auctions (id BIGINT, seller BIGINT, at TIMESTAMP) TIMESTAMP BY at FROM parquet 'auctions';"
)
BY_SELLER = (
    "SELECT a.seller, sum(b.price) AS total FROM bids [RANGE 1 MINUTE SLIDE 1 SECOND] b "
    "JOIN auctions [RANGE 1 MINUTE SLIDE 1 SECOND] a ON b.auction = a.id GROUP BY a.seller"
)


def kind_of_join(partners: float | None, backfill: bool = False) -> str:
    return plan_of_join(partners, backfill).queries[0].form.kind


def plan_of_join(partners: float | None, backfill: bool = False, stored: StoredWindows | None = None) -> Plan:
    """`partners`: how many bids an auction has, of 60,000 in a minute; None: nobody knows."""
    query = replace(JOINED.query("q", BY_SELLER), backfill=backfill)
    ends = frozenset((("bids", "auction"), ("auctions", "id")))
    known = Statistics(
        sizes={"bids": 60_000.0, "auctions": 60_000.0},
        selectivities={} if partners is None else {ends: partners / 60_000},
        arrivals={"bids": 1_000.0, "auctions": 1_000.0},
        progress={"bids": 1.0, "auctions": 1.0},
    )
    return make_plan(AT_ONCE, tuple(JOINED.streams.values()), [query], Options(), known, stored=stored)


def test_few_partners_are_found_one_by_one_and_many_are_factorized() -> None:
    assert [form.kind for form in JOINED.query("q", BY_SELLER).forms] == ["factorized", "pairs"]
    assert kind_of_join(0.3) == "pairs"
    assert kind_of_join(1_000) == "factorized"
    assert kind_of_join(None) == "factorized", "it is not assumed that there are few"
    assert kind_of_join(0.3, backfill=True) == "factorized", "results among stored rows are not found"
    kept = StoredWindows(forms={"q": "pairs"})
    assert plan_of_join(1_000, stored=kept).queries[0].form.kind == "pairs"
    assert plan_of_join(0.3, True, kept).queries[0].form.kind == "factorized", "the name has another query now"


def test_explain_has_the_price_of_each_form() -> None:
    shown = plan_of_join(0.3).rendered()
    assert f"Alone it would take {prices_text(shown)} of CPU time a tick." in explain(shown)
    (query,) = shown.windows
    assert query.kind == "pairs" and list(query.prices) == ["factorized", "pairs"]
    assert (query.prices["pairs"] or 0) < (query.prices["factorized"] or 0)
    (unknown,) = plan_of_join(None).rendered().windows
    assert unknown.prices["pairs"] is None and unknown.prices["factorized"]
    assert "pairs: no price while it is not known what joins." in explain(plan_of_join(None).rendered())
    json.dumps(plan_of_join(None).rendered().as_json(), allow_nan=False)
    assert planned(SLICED).rendered().windows[0].prices == {}


def prices_text(shown: RenderedPlan) -> str:
    found = shown.windows[0].prices.items()
    return ", ".join(f"{kind} {seconds_text(price)}" for kind, price in found if price is not None)


OPENED = (
    "SELECT a.seller, b.price, window_start FROM bids [TUMBLE 1 MINUTE] b "
    "JOIN auctions [TUMBLE 1 MINUTE] a ON b.auction = a.id"
)


BY_PAIRS = Options(research=Research(form="pair rows"))


def plan_of_rows(
    stored: StoredWindows | None = None,
    backfill: bool = False,
    known: Statistics | None = None,
    text: str = OPENED,
    options: Options = BY_PAIRS,
) -> Plan:
    query = replace(JOINED.query("q", text), backfill=backfill)
    streams = tuple(JOINED.streams.values())
    return make_plan(AT_ONCE, streams, [query], options, known or Statistics(), stored=stored)


def test_results_of_a_join_have_a_price_though_nothing_is_known_of_it() -> None:
    """They are what the query gives, so that every form makes each of them."""
    assert [form.kind for form in JOINED.query("q", OPENED).forms] == ["pair rows", "task", "batch"]
    assert kind(plan_of_rows()) == ("pair rows", "pairs")
    assert kind(plan_of_rows(backfill=True)) == ("task", "task"), "results among stored rows are not found"
    shown = explain(plan_of_rows().rendered())
    assert "(class pair rows)" in shown and "Alone it would take pair rows" in shown and "batch" in shown


def test_results_have_a_price_in_each_form() -> None:
    """A hundred partners for each row have to be found by every form; few rows in seldom windows cost Spark a job."""
    ends = frozenset((("bids", "auction"), ("auctions", "id")))
    for rows, partners in ((1_000, 100), (10, 0.1)):
        known = Statistics(
            sizes={"bids": 60.0 * rows, "auctions": 60.0 * rows},
            selectivities={ends: partners / (60 * rows)},
            arrivals={"bids": float(rows), "auctions": float(rows)},
            progress={"bids": 1.0, "auctions": 1.0},
        )
        (found,) = plan_of_rows(known=known).rendered().windows
        assert found.prices["task"] and found.prices["pair rows"] and found.prices["batch"]
        assert max(found.prices["task"], found.prices["pair rows"]) < found.prices["batch"]


def test_open_windows_of_an_earlier_version_are_computed_from_rows() -> None:
    """What they need is in the stores of their streams alone, and a home remembers no form of such a query."""
    chosen = Options()
    assert kind(plan_of_rows(StoredWindows(answered=frozenset({"q"})), options=chosen)) == ("task", "task")
    assert kind(plan_of_rows(StoredWindows(has_first_forms=True), options=chosen)) == ("task", "task")
    assert kind(plan_of_rows(StoredWindows(answered=frozenset({"other"})))) == ("pair rows", "pairs")
    kept = StoredWindows(forms={"q": "pair rows"}, answered=frozenset({"q"}))
    assert kind(plan_of_rows(kept)) == ("pair rows", "pairs")


def test_two_windowed_queries_and_a_continuous_one_share_the_steps_of_one_join() -> None:
    texts = {
        "rows": OPENED,
        "others": OPENED.replace("TUMBLE 1 MINUTE", "RANGE 1 MINUTE SLIDE 1 SECOND"),
        "continuous": "SELECT a.id FROM bids [RANGE 1 MINUTE] b JOIN auctions [RANGE 1 MINUTE] a ON b.auction = a.id",
    }
    queries = [JOINED.query(name, text) for name, text in texts.items()]
    plan = make_plan(AT_ONCE, tuple(JOINED.streams.values()), queries, BY_PAIRS, Statistics())
    assert len(plan.rules.all_steps()) == 2, "one for each stream whose rows come last"
    assert {query for step in plan.rules.all_steps() for query in plan.rules.queries_of(step)} == set(texts)
