"""Plans as people see them: golden texts, JSON, drawings, what one more query adds."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.font_manager import FontProperties, findfont
from PIL import ImageFont

from tests.support.waiting import PATIENCE
from watersmeet import Engine
from watersmeet.cli.explain import show_plan, what_one_more_adds
from watersmeet.errors import ModelError
from watersmeet.optimize.research import Research

GOLDEN = Path(__file__).with_name("golden")
PIPELINE = (GOLDEN / "two.sql").read_text()
STATISTICS = (GOLDEN / "two.json").read_text()


PAPER = Research(costs="paper")


def engine(**options: object) -> Engine:
    engine = Engine(**{"research": PAPER, "plan_seconds": PATIENCE, **options})  # type: ignore[arg-type]
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
    assert show_plan(engine(**options).pipeline, STATISTICS, "text") + "\n" == (GOLDEN / f"{name}.txt").read_text()


def test_leaf_checks_are_shown_with_what_they_wait_for_and_whom_they_serve() -> None:
    given = engine(materialize="off")
    text = "SELECT r.a FROM r {0} JOIN s {0} ON r.a = s.a {1} t {0} ON s.b = t.b WINDOW 1 SECOND"
    for name, kind in (("left_over", "LEFT JOIN"), ("alone", "ANTI JOIN"), ("met", "SEMI JOIN")):
        given.query(name, text.format("", kind))
    shown = show_plan(given.pipeline, STATISTICS, "text")
    assert shown.partition("\nleaf checks\n")[2].partition("\n\n")[0].splitlines() == [
        "  r⋈s without a partner in t on s.b = t.b, when the watermark of t passes the deadline: 100"
        "  ⇒ left_over, alone",
        "  r⋈s with a partner in t on s.b = t.b, when the first partner or last row arrives: 300  ⇒ met",
    ]
    plan = json.loads(show_plan(given.pipeline, STATISTICS, "json"))
    assert [(check["preserved"], check["leaf"], check["by"]) for check in plan["checks"]] == [("r⋈s", "t", "hash")] * 2


def test_json_has_the_costs_of_the_papers_example() -> None:
    plan = json.loads(show_plan(engine(materialize="off", searcher="exact").pipeline, STATISTICS, "json"))
    assert (plan["probe_cost"], plan["cost"], plan["bound"], plan["individual_cost"]) == (800, 800, 800, 950)
    assert plan["optimal"] is True
    assert plan["storage_cost"] == 400
    assert {(step["start"], step["joined"], step["store"]) for step in plan["steps"]} >= {
        ("s", "s", "t"),
        ("s", "s⋈t", "r"),
        ("t", "t", "s"),
        ("t", "s⋈t", "u"),
    }


def test_costs_are_seconds_unless_the_papers_are_asked_for() -> None:
    known = {**json.loads(STATISTICS), "arrivals": {"r": 10, "s": 10, "t": 10, "u": 10}, "seconds": 0.5}
    given = engine(research=Research(), materialize="off", searcher="exact").pipeline
    plan = json.loads(show_plan(given, json.dumps(known), "json"))
    assert plan["unit"] == "seconds" and plan["ticks"] == pytest.approx(10)
    assert 0 < plan["cost"] < sum(plan["estimate"].values()) < 1
    assert plan["tuples"] == pytest.approx(sum(step["tuples"] for step in plan["steps"]))
    text = show_plan(given, json.dumps(known), "text")
    assert re.search(r"cost [\d.]+ (µs|ms) of CPU time a tick \(proven optimal\)", text)
    assert re.search(r"a tick takes about [\d.]+ ms of CPU time: tick .*, gather .*, steps .*, results ", text)
    assert re.search(r"that is [\d.]+ ms for a second of input", text)
    assert re.search(r"→ t on s.b = t.b: [\d.]+ µs, 10 tuples", text)


def test_a_filter_and_a_window_change_the_cost_and_the_paths() -> None:
    known = {
        "sizes": {"s": 100_000, "t": 100_000, "r": 100_000, "u": 100_000},
        "selectivities": [
            {"left": "s.b", "right": "t.b", "value": 2e-5},
            {"left": "t.c", "right": "u.c", "value": 2e-5},
        ],
        "filters": [{"stream": "s", "filter": '"b" = 7', "value": 0.001}],
    }

    def planned(condition: str = "", window: int = 10) -> tuple[float, list[str]]:
        asked = Engine(materialize="off", searcher="exact", plan_seconds=PATIENCE)
        asked.sql(PIPELINE[: PIPELINE.index("CREATE QUERY")])
        asked.query("longest", "SELECT u.c FROM r, u WHERE r.a = u.c WINDOW 10 SECONDS")
        asked.query(
            "q",
            f"SELECT u.c FROM s [RANGE 10 SECONDS], t [RANGE 10 SECONDS], u [RANGE {window} SECONDS] "
            f"WHERE s.b = t.b AND t.c = u.c{condition}",
        )
        plan = json.loads(show_plan(asked.pipeline, json.dumps(known), "json"))
        return plan["cost"], [step["store"] for step in plan["steps"] if step["start"] == "t"]

    cost, _ = planned()
    filtered, path = planned(" AND s.b = 7")
    assert filtered < 0.8 * cost
    assert path[0] == "s", "the filter leaves few rows of s"
    shorter, path = planned(window=1)
    assert shorter < cost
    assert path[0] == "u", "the window leaves few rows of u"


def test_the_text_begins_with_what_is_shared_and_ends_with_costs() -> None:
    text = show_plan(engine(materialize="off").pipeline, STATISTICS, "text")
    assert text.splitlines()[:4] == [
        "2 queries over 4 streams",
        "  10 steps instead of 12, 2 of them for several queries",
        "  4 stores instead of 6",
        "  sharing saves 16 % of the cost of the joins: 800 tuples sent, every query alone 950",
    ]
    titles = [line for line in text.splitlines()[1:] if line and not line.startswith(" ")]
    assert titles[0].startswith("steps") and titles[-1] == "costs"
    shared = json.loads(show_plan(engine(materialize="off").pipeline, STATISTICS, "json"))["sharing"]
    assert (shared["steps"], shared["steps_alone"], shared["shared_steps"]) == (10, 12, 2)
    assert (shared["stores"], shared["stores_alone"]) == (4, 6)


def test_what_is_assumed_is_called_so_in_every_format() -> None:
    given = engine(research=Research(), materialize="off")
    given.query("filtered", "SELECT r.a FROM r, s WHERE r.a = s.a AND s.b = 7 WINDOW 10 SECONDS")
    text = show_plan(given.pipeline, None, "text")
    assert "assumed, because it is not known yet: 1,000 tuples in each window of r, s, t, u; " in text
    assert "how many pairs satisfy 3 join predicates; how many rows pass 1 filter\n" in text
    assert "  r: 1,000 tuples (assumed)  ⇒ " in text
    assert all("(assumed)" in line for line in text.splitlines() if "→" in line)
    assert "10 ticks (assumed) renew the windows" in text
    assert "(proven optimal for what is assumed)" in text
    drawing = show_plan(given.pipeline, None, "svg")
    assert "1,000 tuples in its window (assumed)" in drawing and "assumed, because it is not known yet" in drawing
    plan = json.loads(show_plan(given.pipeline, None, "json"))
    assert plan["assumed"]["sizes"] == ["r", "s", "t", "u"] and plan["assumed"]["ticks"]
    assert all(one["assumed"] for what in ("starts", "steps", "stores") for one in plan[what])


def test_only_what_follows_from_something_unknown_is_assumed() -> None:
    known = {**json.loads(STATISTICS), "arrivals": {"r": 10}}
    given = engine(research=Research(), materialize="off").pipeline
    for kind in ("text", "svg"):
        assert "assumed" not in show_plan(given, json.dumps(known), kind)
    del known["sizes"]["u"]
    plan = json.loads(show_plan(given, json.dumps(known), "json"))
    assert {store["name"] for store in plan["stores"] if store["assumed"]} == {"u"}
    assert all(step["assumed"] == ("u" in (step["start"], step["joined"][-1], step["store"])) for step in plan["steps"])


LONG = """
CREATE QUERY a_query_with_a_name_that_is_much_longer_than_any_box_in_the_drawing_should_be_wide AS
  SELECT r.a FROM r, s WHERE r.a = s.a AND abs(r.a - s.b) + greatest(r.a, s.a, s.b, 17, 18, 19, 20) <> 12345678 AND
  concat('%WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW@', r.a) < concat('ÄÖÜ und <&>', s.b)
  WINDOW 1 HOUR;
CREATE QUERY few AS SELECT r.a FROM r WHERE r.a > 3 WINDOW 1 HOUR;
CREATE QUERY missing AS SELECT u.c FROM u ANTI JOIN t ON u.c = t.c WINDOW 1 HOUR;
CREATE QUERY counted AS SELECT a, count(*) AS n FROM s [TUMBLE 1 HOUR] WHERE b * 1000 + a * 2000 > 7 GROUP BY a;
CREATE QUERY middle AS SELECT median(c) AS n FROM u [RANGE 1 HOUR SLIDE 1 MINUTE];
CREATE QUERY per_minute AS SELECT r.a, count(*) AS n FROM r [RANGE 10 SECONDS], s [RANGE 1 HOUR] WHERE r.a = s.a
  GROUP BY r.a, window(result_time(), '1 minute');
"""
SVG = "{http://www.w3.org/2000/svg}"


def _font(size: float, bold: bool) -> ImageFont.FreeTypeFont:
    """The widest of the fonts that are usual for sans-serif."""
    properties = FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")
    return ImageFont.truetype(findfont(properties), size)


def test_the_drawing_has_every_query_and_cuts_nothing() -> None:
    given = engine(searcher="left-deep")
    given.sql(LONG)
    root = ElementTree.fromstring(show_plan(given.pipeline, None, "svg"))
    # Lines of a wrapped text are joined again: only spaces may be where it was broken.
    shown = "".join("".join(text.itertext()) for text in root.iter(f"{SVG}text")).replace(" ", "")
    plan = given.plan()
    wanted = [
        *given.pipeline.queries,
        *(on for step in plan.steps for on in step.on),
        *(one.form for one in plan.windows),
    ]
    assert len(given.pipeline.queries) == 8
    for piece in wanted:
        assert piece.replace(" ", "") in shown
    styles = dict(re.findall(r"\.(\w+) { font-size: ([\d.]+px; font-weight: \w+)", root.findtext(f"{SVG}style") or ""))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for group in root.iter(f"{SVG}g"):
        (frame,) = group.iter(f"{SVG}rect")
        left, top, wide, high = (float(frame.attrib[name]) for name in ("x", "y", "width", "height"))
        assert left + wide <= width and top + high <= height
        for text in group.iter(f"{SVG}text"):
            size, _, weight = styles[text.attrib["class"]].partition("px; font-weight: ")
            drawn = _font(float(size), weight == "bold").getlength("".join(text.itertext()))
            assert left < float(text.attrib["x"]) and float(text.attrib["x"]) + drawn < left + wide
            assert top < float(text.attrib["y"]) < height
            assert (float(text.attrib["y"]) < top + high) == (text.attrib["class"] != "end")


def test_steps_without_an_equality_say_how_they_look_up_rows() -> None:
    mixed = engine(partitions=3, searcher="greedy")
    window = "WINDOW 10 SECONDS"
    mixed.query("band", f"SELECT u.c FROM t, u WHERE abs(t.c - u.c) < 5 AND t.b <> u.c {window}")
    mixed.query("unequal", f"SELECT u.c FROM r, u WHERE r.a <> u.c {window}")
    mixed.query("all", f"SELECT r.a FROM r CROSS JOIN t {window}")
    text = show_plan(mixed.pipeline, "{}", "text")
    assert "→ t by range on ABS(t.c - u.c) < 5 and t.b <> u.c: " in text
    assert "→ u by scan on r.a <> u.c: " in text
    assert "→ t by scan on every pair of r and t: " in text
    assert ", to 3 partitions" in text
    steps = json.loads(show_plan(mixed.pipeline, "{}", "json"))["steps"]
    assert {step["by"] for step in steps} == {"hash", "range", "scan"}
    assert all(step["copies"] == 3 for step in steps if step["by"] != "hash")  # stores with a key are in all partitions


def test_only_a_large_store_without_an_equality_is_spread() -> None:
    def stores(size: int, research: Research = PAPER) -> dict[str, str]:
        unequal = Engine(partitions=4, research=research)
        unequal.sql(PIPELINE[: PIPELINE.index("CREATE QUERY")])
        unequal.query("q", "SELECT r.a FROM r, t WHERE r.a <> t.c WINDOW 10 SECONDS")
        shown = json.loads(show_plan(unequal.pipeline, json.dumps({"sizes": {"r": size, "t": 100}}), "json"))
        return {store["name"]: store["layouts"][0] for store in shown["stores"]}

    assert stores(10) == {"r": "in one partition", "t": "in one partition"}
    assert stores(1_000_000) == {"r": "round-robin over 4 partitions", "t": "in one partition"}
    spread = stores(10, replace(PAPER, parallelism="all"))
    assert spread == {"r": "round-robin over 4 partitions", "t": "round-robin over 4 partitions"}


def test_statistics_of_a_predicate_change_what_is_expected_of_it() -> None:
    def cost(selectivity: float) -> float:
        three = Engine(materialize="off")
        three.sql(PIPELINE)
        three.query("q", "SELECT u.c FROM s, t, u WHERE s.b < t.b AND t.c = u.c WINDOW 10 SECONDS")
        known = {"left": "s", "right": "t", "predicate": '"l.b" < "r.b"', "value": selectivity}
        given = json.dumps({"selectivities": [known]})
        return float(json.loads(show_plan(three.pipeline, given, "json"))["cost"])

    assert cost(0.001) < cost(0.9)


def test_one_more_query_adds_less_than_it_costs_alone() -> None:
    text = what_one_more_adds(
        engine(materialize="off").pipeline, "SELECT u.c FROM t, u WHERE t.c = u.c WINDOW 10 SECONDS", STATISTICS
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
        show_plan(engine().pipeline, statistics, "text")


def test_a_storage_budget_that_the_streams_exceed_is_told() -> None:
    small = engine(storage_budget=10)
    text = show_plan(small.pipeline, STATISTICS, "text")
    assert "the streams alone exceed the storage budget by 390 tuples" in text
    shown = json.loads(show_plan(small.pipeline, STATISTICS, "json"))
    assert (shown["over_budget"], shown["storage_cost"]) == (390, 400)
    enough = engine(storage_budget=400)
    assert "exceed" not in show_plan(enough.pipeline, STATISTICS, "text")
    assert json.loads(show_plan(enough.pipeline, STATISTICS, "json"))["over_budget"] == 0


def test_impossible_settings_are_rejected_with_what_to_change() -> None:
    with pytest.raises(ModelError, match="option searcher: invalid value 'luck'"):
        show_plan(engine(searcher="luck").pipeline, STATISTICS, "text")
    with pytest.raises(ModelError, match="unknown format png"):
        show_plan(engine().pipeline, STATISTICS, "png")
