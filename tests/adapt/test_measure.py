"""Measurements: from ticks without Spark to statistics that are close to the data's own."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.declarations import bigint_streams
from tests.support.sketches import validate
from tests.support.waiting import PATIENCE
from watersmeet.adapt.decisions import changes, largest, reason
from watersmeet.adapt.measure import REMEMBERED, Measurements, all_links, learned, live_rows, measure_tick
from watersmeet.adapt.statistics_file import recall, remember
from watersmeet.adapt.step_facts import step_facts
from watersmeet.adapt.window_sketches import WindowSketches
from watersmeet.home import layout
from watersmeet.home.manifest import BucketInfo, Manifest
from watersmeet.io.sinks import prepare_folder, result_folder
from watersmeet.model import ColumnRef, KeyPart
from watersmeet.optimize.statistics import Statistics
from watersmeet.options import Options
from watersmeet.plan.planner import START, Plan, make_plan
from watersmeet.runtime.exec.local import LocalExecutor
from watersmeet.runtime.gather import Gather
from watersmeet.runtime.tick.commit import committed
from watersmeet.runtime.tick.tick import Tick, walk_phases
from watersmeet.sql import build_query
from watersmeet.store.codes import Codes
from watersmeet.store.sketch import Sketch, sketch

SECOND = 1_000_000
ROWS = 400
KEYS = {"r.a": 50, "s.a": 50, "s.b": 800, "t.b": 800}
COLUMNS = {"r": "a", "s": "ab", "t": "b"}
R_S = frozenset((("r", "a"), ("s", "a")))


def plan_for(statistics: Statistics) -> Plan:
    streams = bigint_streams(COLUMNS)
    sql = "SELECT r.a, t.b FROM r, s, t WHERE r.a = s.a AND s.b = t.b WINDOW 4 SECONDS"
    return make_plan(
        START, tuple(streams.values()), [build_query("q", sql, streams)], Options(materialize="off"), statistics
    )


def run_ticks(home: Path, plan: Plan, ticks: int) -> tuple[Measurements, Manifest]:
    """The real tasks of some ticks, one after the other; a tick is a second of event time."""
    rng = np.random.default_rng(3)
    query = plan.queries[0]
    prepare_folder(result_folder(home, query.name, query.sink), query.sink, query.outputs)
    manifest, total, facts, executor = Manifest(), Measurements(), step_facts(plan), LocalExecutor()
    for number in range(ticks):
        tick = Tick(str(home), "0", number, f"try{number}", plan.rules, plan.streams, plan.queries, manifest)
        order, reports = tick.begin(), []
        for name, columns in COLUMNS.items():
            times = np.sort(rng.integers(number * SECOND, (number + 1) * SECOND, ROWS))
            data = {"ts": pa.array(times, pa.timestamp("us"))}
            data |= {column: pa.array(rng.integers(0, KEYS[f"{name}.{column}"], ROWS)) for column in columns}
            reports.append(Gather(order, plan.rules.stream_stores[name], name).run(pa.table(data).to_batches()))
        probed = walk_phases(tick, reports, 1, lambda order: executor.submit(order).result(PATIENCE))
        after, _ = committed(tick, reports, probed)
        sketches = {(report.stream, part): made for report in reports for part, made in report.sketches.items()}
        total = total.plus(measure_tick(manifest, after, plan, facts, sketches, 0.5))
        manifest = after
    return total, manifest


def test_ticks_tell_rates_sizes_and_selectivities(tmp_path: Path) -> None:
    plan = plan_for(Statistics())
    measured, manifest = run_ticks(tmp_path, plan, 10)
    assert measured.rates == {name: 2 * ROWS for name in COLUMNS}
    for name in COLUMNS:
        assert measured.live[name] == pytest.approx(4 * ROWS, rel=0.05), "the rows of four seconds are in the window"
    known = learned(Statistics(), measured, all_links(plan.problem), 0.1)
    assert known.selectivities[frozenset((("r", "a"), ("s", "a")))] == pytest.approx(1 / 50, rel=0.1)
    assert known.selectivities[frozenset((("s", "b"), ("t", "b")))] == pytest.approx(1 / 800, rel=0.2)
    assert known.distinct["r", "a"] == 50
    assert measured.renewed == pytest.approx(2.5, rel=0.1)

    middle, worst = measured.errors
    assert 1.5 < middle <= worst, "one partner for each probe was a wrong guess"
    good = plan_for(known)
    better, _ = run_ticks(tmp_path / "again", good, 10)
    assert max(better.errors) < 1.5, "estimates by what was measured are near"

    remember(tmp_path, manifest.tick, known, measured)
    assert recall(tmp_path) == known


def test_an_equality_that_no_step_runs_is_known_by_its_sketches(tmp_path: Path) -> None:
    plan = plan_for(Statistics())
    measured, _ = run_ticks(tmp_path, plan, 6)
    blind = Measurements(measured.ticks, 1.0, measured.rows, measured.live, sketches=measured.sketches)
    found = blind.selectivities(all_links(plan.problem))
    assert found[frozenset((("r", "a"), ("s", "a")))] == pytest.approx(1 / 50, rel=0.1)
    assert found[frozenset((("s", "b"), ("t", "b")))] == pytest.approx(1 / 800, rel=0.4)


counts = st.builds(
    lambda rows, pairs: Measurements(
        1, 0.5, {"r": rows}, {"r": float(rows)}, {(R_S, "r"): (float(rows), float(pairs))}
    ),
    st.integers(0, 100),
    st.integers(0, 100),
)


@given(st.lists(counts, min_size=1, max_size=6))
def test_an_epoch_is_the_sum_of_its_ticks(ticks: list[Measurements]) -> None:
    whole = Measurements()
    for tick in ticks:
        whole = whole.plus(tick)
    assert whole.ticks == len(ticks)
    assert whole.rows == Counter({"r": sum(tick.rows["r"] for tick in ticks)}) or not any(whole.rows.values())
    assert whole.live == ticks[-1].live
    (found,) = whole.links.values()
    assert found == (sum(t.rows["r"] for t in ticks), sum(next(iter(t.links.values()))[1] for t in ticks))


A = KeyPart(ColumnRef("a", "bigint"), "bigint")
PERSONS, BIDS = 1000, 20_000  # of an epoch


def epoch_of_bids(number: int) -> Measurements:
    """The keys of new persons (r) and of bids (s) by persons of the same epoch, of whom every hundredth is popular."""
    rng = np.random.default_rng(number)
    persons = np.arange(number * PERSONS, (number + 1) * PERSONS)
    popular = rng.random(BIDS) < 0.9
    bidders = np.where(popular, rng.choice(persons[::100], BIDS), rng.choice(persons, BIDS))
    keys = {"r": persons, "s": bidders}
    return Measurements(
        1,
        1.0,
        {name: len(values) for name, values in keys.items()},
        {name: (number + 1.0) * len(values) for name, values in keys.items()},
        sketches={(name, A): sketch(Codes(values), len(values)) for name, values in keys.items()},
    )


@pytest.mark.parametrize("found_by_persons", [None, 0.0], ids=["no step", "a step that finds nothing"])
def test_partners_that_arrive_together_are_rare_in_the_window(found_by_persons: float | None) -> None:
    """A bid has one partner among all persons so far, and a person hardly any among the bids before."""
    links, older = all_links(plan_for(Statistics()).problem), WindowSketches()
    for number in range(8):
        epoch = epoch_of_bids(number)
        if found_by_persons is not None:
            epoch = replace(epoch, links={(R_S, "r"): (float(PERSONS * BIDS * number) or 1.0, found_by_persons)})
        found = epoch.selectivities(links, older.all())[R_S]
        older.add(epoch.sketches, epoch.live)
        pairs = (2 * number + 1) * PERSONS * BIDS  # of a new row and one of the window
        assert found == pytest.approx(BIDS / pairs, rel=0.3), f"after epoch {number}"
    assert epoch.distinct(older.all())["r", "a"] == pytest.approx(8 * PERSONS, rel=0.2)


def test_steps_from_both_streams_are_believed_whatever_sketches_say() -> None:
    links = all_links(plan_for(Statistics()).problem)
    both = {(R_S, "r"): (1e6, 50.0), (R_S, "s"): (3e6, 350.0)}
    assert replace(epoch_of_bids(0), links=both).selectivities(links)[R_S] == pytest.approx(1e-4, rel=0.01)


@given(st.lists(st.tuples(st.integers(0, 300), st.floats(0, 1)), min_size=1, max_size=40))
def test_sketches_of_the_window_have_as_many_rows_as_the_window(epochs: list[tuple[int, float]]) -> None:
    older, held = WindowSketches(), 0.0
    for number, (rows, share) in enumerate(epochs):
        held = (held + rows) * share
        older.add({("r", A): sketch(Codes(np.arange(rows) + number), rows)}, {"r": held})
        for whole in older.all().values():
            validate(whole)
            assert whole.rows == pytest.approx(held, abs=1.0)
    older.add({}, {})
    assert older.all() == {}, "a stream that no query reads has no window"


def test_rows_that_left_the_window_are_not_alive() -> None:
    plan = plan_for(Statistics())

    def bucket(low: int, high: int) -> BucketInfo:
        return BucketInfo("r", f"{low}", 100, 1, 0, low * SECOND, high * SECOND, 1, 1)

    manifest = Manifest(1, newest={"r": 10 * SECOND}, buckets=(bucket(0, 5), bucket(4, 8), bucket(8, 10)))
    live = live_rows(manifest, {"r": 4 * SECOND}, plan.rules)
    assert live == {"r": pytest.approx(150, rel=0.01)}


def test_nothing_found_is_rare_but_not_impossible() -> None:
    plan = plan_for(Statistics())
    pair = frozenset((("r", "a"), ("s", "a")))
    for pairs in (100.0, 1e6):
        found = Measurements(links={(pair, "r"): (pairs, 0.0)}).selectivities(all_links(plan.problem))[pair]
        assert 0 < found < 1 / pairs


def test_what_is_not_told_stays_and_what_is_told_takes_over() -> None:
    plan = plan_for(Statistics())
    one, other = frozenset((("r", "a"), ("s", "a"))), frozenset((("s", "b"), ("t", "b")))
    old = Statistics({"r": 10.0, "x": 3.0}, {one: 0.5, other: 0.25})
    told = Measurements(1, 1.0, {"r": 5}, {"r": 99.0}, {(one, "r"): (1e6, 1e4)})
    new = learned(old, told, all_links(plan.problem), keep=0.1)
    assert new.sizes == {"r": 99.0, "x": 3.0}
    assert new.selectivities[one] == pytest.approx(0.1 * 0.5 + 0.9 * 0.01, rel=1e-3)
    assert new.selectivities[other] == 0.25


def test_filters_that_come_and_go_do_not_add_up() -> None:
    known = Statistics()
    for number in range(REMEMBERED + 50):
        told = Measurements(filters={("r", "x > 0"): (10.0, 5.0), ("r", f"x = {number}"): (10.0, 1.0)})
        known = learned(known, told, (), keep=0.1)
    assert len(known.filters) == REMEMBERED + 2
    assert ("r", "x > 0") in known.filters and ("r", f"x = {number}") in known.filters
    assert ("r", "x = 0") not in known.filters


def test_a_reason_names_what_changed_most() -> None:
    pair = frozenset((("s", "b"), ("t", "b")))
    old, new = Statistics({"r": 100.0}, {pair: 0.08}), Statistics({"r": 150.0}, {pair: 0.001})
    assert reason(old, new) == (
        "s.b = t.b finds 80 times fewer partners than estimated; r has 1.5 times more rows than estimated"
    )
    assert largest(old, new) == pytest.approx(80)
    assert largest(new, new) == 1
    assert "cheaper plan" in reason(new, new)
    assert changes(Statistics(), Statistics()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"statistics": 3}', '{"statistics": {"sizes": {"r": -1}}}'])
def test_damaged_statistics_are_no_statistics(tmp_path: Path, text: str) -> None:
    (tmp_path / layout.STATISTICS).write_text(text)
    assert recall(tmp_path) is None


def test_key_groups_are_kept_for_looking(tmp_path: Path) -> None:
    groups = np.r_[np.full(63, 1.0), 65.0]
    made = Sketch(128.0, np.empty(0, np.uint64), np.empty(0), groups)
    remember(tmp_path, 1, Statistics(), Measurements(sketches={("r", A): made}))
    assert '"r.a": {"skew": 32.5' in (tmp_path / layout.STATISTICS).read_text()
