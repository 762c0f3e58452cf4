"""Orders that name what the plan says instead of having it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.support.declarations import bigint_streams, numbered_queries
from watersmeet.home.manifest import Manifest
from watersmeet.optimize.statistics import Statistics
from watersmeet.options import Options
from watersmeet.plan.planner import START, Plan, make_plan
from watersmeet.runtime.exec.plan_files import PlanFiles, PlansRead
from watersmeet.runtime.tick.orders import MergeOrder, ProbeOrder
from watersmeet.runtime.tick.tick import Tick
from watersmeet.runtime.tick.whole_tick import TickOrder

STREAMS = bigint_streams({"r": "k", "s": "k"})


def plan(queries: int) -> Plan:
    texts = [f"SELECT r.k FROM r, s WHERE r.k = s.k AND r.k > {at} WINDOW 1 SECOND" for at in range(queries)]
    return make_plan(START, tuple(STREAMS.values()), numbered_queries(texts, STREAMS), Options(), Statistics())


def order(given: Plan) -> ProbeOrder:
    return ProbeOrder("home", 3, "attempt", given.rules, 1, given.rules.starts[1:], {}, ())


def test_an_order_comes_out_as_it_went_in_and_is_small(tmp_path: Path) -> None:
    sizes = []
    for queries in (2, 40):
        given, files, read = plan(queries), PlanFiles(tmp_path, "run"), PlansRead()
        files.write(given)
        packed = files.pack(order(given))
        sizes.append(len(packed))
        first, second = read.unpack(packed), read.unpack(packed)
        assert first == order(given)
        assert first.starts[0] is first.rules.starts[1]
        assert first.rules is second.rules, "a worker reads it once"
    assert sizes[0] == sizes[1]


def test_streams_and_queries_of_a_plan_are_named_too(tmp_path: Path) -> None:
    given, files = plan(3), PlanFiles(tmp_path, "run")
    files.write(given)
    tick = Tick("home", "0", 1, "attempt", given.rules, given.streams, given.queries, Manifest())
    packed = files.pack(TickOrder(tick, tick.begin(), MergeOrder("home", 1, "attempt", (), ())))
    assert PlansRead().unpack(packed).tick == tick
    assert b"q1" not in packed


def test_a_plan_that_comes_again_with_other_queries_has_another_file(tmp_path: Path) -> None:
    """The rules may be the same though a query is another one, and a worker has read the file."""
    given, files, read = plan(1), PlanFiles(tmp_path, "run"), PlansRead()
    files.write(given)
    read.unpack(files.pack(order(given)))
    later = replace(given, queries=(replace(given.queries[0], since=7),))
    files.write(later)
    tick = Tick("home", "0", 1, "attempt", later.rules, later.streams, later.queries, Manifest())
    packed = files.pack(TickOrder(tick, tick.begin(), MergeOrder("home", 1, "attempt", (), ())))
    assert read.unpack(packed).tick.queries[0].since == 7


def test_two_plans_are_kept_and_a_late_file_of_another_run_is_not_read(tmp_path: Path) -> None:
    ours, theirs, read = PlanFiles(tmp_path, "ours"), PlanFiles(tmp_path, "theirs"), PlansRead()
    plans = [plan(number) for number in (1, 2, 3)]
    theirs.write(replace(plans[2], rules=replace(plans[2].rules, partitions=7)))  # a dead engine's
    for given in plans:
        ours.write(given)
        ours.write(given)
    folder = tmp_path / "orders" / "ours"
    assert len(list(folder.iterdir())) == 2, "a tick may be probed under one and the next be gathered under the other"
    for given in plans[1:]:
        assert read.unpack(ours.pack(order(given))).rules == given.rules
    ours.remove()
    assert not list(folder.iterdir())
