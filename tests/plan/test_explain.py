"""Plans as people see them: golden texts, JSON, drawings, what one more query adds."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from watersmeet import Engine
from watersmeet.errors import ModelError
from watersmeet.studying import show_plan, what_one_more_adds

GOLDEN = Path(__file__).with_name("golden")
PIPELINE = (GOLDEN / "two.sql").read_text()
STATISTICS = (GOLDEN / "two.json").read_text()


def engine(**options: object) -> Engine:
    engine = Engine(**options)  # type: ignore[arg-type]
    engine.sql(PIPELINE)
    return engine


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("joint", {"materialize": "off"}),
        ("alone", {"materialize": "off", "searcher": "individual"}),
        ("places", {"partitions": 3}),
        ("left-deep", {"searcher": "left-deep"}),
    ],
)
def test_the_text_is_as_in_the_golden_file(name: str, options: dict[str, object]) -> None:
    assert show_plan(engine(**options), STATISTICS, "text") + "\n" == (GOLDEN / f"{name}.txt").read_text()


def test_json_has_the_costs_of_the_papers_example() -> None:
    plan = json.loads(show_plan(engine(materialize="off", searcher="exact"), STATISTICS, "json"))
    assert (plan["probe_cost"], plan["cost"], plan["bound"], plan["individual_cost"]) == (800, 800, 800, 950)
    assert plan["optimal"] is True
    assert plan["storage_cost"] == 400
    assert {(step["start"], step["joined"], step["store"]) for step in plan["steps"]} >= {
        ("s", "s", "t"),
        ("s", "s⋈t", "r"),
        ("t", "t", "s"),
        ("t", "s⋈t", "u"),
    }


def test_the_drawing_is_a_well_formed_svg() -> None:
    root = ElementTree.fromstring(show_plan(engine(searcher="left-deep"), STATISTICS, "svg"))
    assert root.tag.endswith("svg")
    texts = " ".join(root.itertext())
    assert "every query alone" in texts
    assert "⇒ q1" in texts


def test_one_more_query_adds_less_than_it_costs_alone() -> None:
    text = what_one_more_adds(
        engine(materialize="off"), "SELECT u.c FROM t, u WHERE t.c = u.c WINDOW 10 SECONDS", STATISTICS
    )
    assert "it adds 75" in text
    assert "alone it would cost 200; sharing saves 125" in text


@pytest.mark.parametrize(
    ("statistics", "words"),
    [
        ("{", "not JSON"),
        ('{"size": {}}', "unknown parts: size"),
        ('{"sizes": {"r": 0}}', "above 0"),
        ('{"selectivities": [{"left": "r.a", "right": "s.a", "value": 2}]}', "above 1"),
        ('{"selectivities": [{"left": "r", "right": "s.a", "value": 1}]}', "not a column"),
        ('{"selectivities": [{"left": "r.a"}]}', "expected form"),
        ('{"rates": {"x": 5}}', "no query has a bounded window over x"),
    ],
)
def test_wrong_statistics_are_named(statistics: str, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        show_plan(engine(), statistics, "text")


def test_impossible_wishes_are_refused_with_what_to_change() -> None:
    with pytest.raises(ModelError, match="cannot hold the streams themselves"):
        show_plan(engine(storage_budget=10), STATISTICS, "text")
    with pytest.raises(ModelError, match="no searcher luck"):
        show_plan(engine(searcher="luck"), STATISTICS, "text")
    with pytest.raises(ModelError, match="no format png"):
        show_plan(engine(), STATISTICS, "png")
