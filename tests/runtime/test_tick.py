"""The tick as a pure function: who works on what, what is kept, what is thrown away."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from watersmeet.home import layout
from watersmeet.home.counters import Counters
from watersmeet.home.manifest import BucketInfo, Manifest, ResultFile, commit, load_newest
from watersmeet.model import Alias, Column, ColumnRef, Equality, JoinForm, KeyPart, Output, Query, Stream
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.search import optimize
from watersmeet.plan.compile import compile_solution
from watersmeet.plan.parts import parts_of
from watersmeet.runtime.tick.commit import committed
from watersmeet.runtime.tick.orders import GatherReport, MergeReport, TaskReport
from watersmeet.runtime.tick.tick import LARGE_MERGE, MIN_ROWS, Tick, split
from watersmeet.store.merge import FAN_IN

KEY = KeyPart(ColumnRef("k", "int"), "int")
STREAMS = tuple(Stream(name, (Column("ts", "timestamp"), Column("k", "int")), "ts", lateness=5) for name in ("a", "b"))
JOIN = JoinForm(
    (Alias("x", "a", 100), Alias("y", "b", 10)),
    (Equality("x", "y", KEY, KEY),),
    (Output("k", "int", ColumnRef("k", "int", "x")),),
)
QUERY = Query("q", JOIN)


MERGED = BucketInfo("a", "merged", 40, 100, 0, 100, 200, 1, FAN_IN, alive_until=200)


def bucket(store: str, tick: int, tau_min: int, tau_max: int, rows: int = 10) -> BucketInfo:
    name = f"{store}-{tick}-{tau_min}"
    return BucketInfo(store, name, rows, 100, 0, tau_min, tau_max, tick, tick, alive_until=tau_max)


def tick_after(
    before: Manifest, *queries: Query, streams: tuple[Stream, ...] = STREAMS, group: str = "0", idle: bool = False
) -> Tick:
    asked = () if idle else queries or (QUERY,)
    solution = optimize(Problem(tuple(part.graph for part in parts_of(asked))), searcher="greedy")
    rules = compile_solution(streams, asked, solution)
    return Tick("home", group, 7, "attempt", rules, streams, asked, before)


def report(stream: str, *buckets: BucketInfo, newest: int | None = None) -> GatherReport:
    counts = Counters(rows=Counter({stream: sum(bucket.rows for bucket in buckets)}))
    return GatherReport(stream, list(buckets), [], counts, newest)


@pytest.mark.parametrize("tasks", [1, 2, 3, 7])
def test_every_new_row_is_in_exactly_one_share(tasks: int) -> None:
    buckets = [bucket("a", 1, at, at, rows) for at, rows in enumerate((1, MIN_ROWS, 5 * MIN_ROWS + 3, 2))]
    shares = split(buckets, tasks)
    assert len(shares) <= tasks
    covered = Counter(
        (piece.bucket.file, row) for share in shares for piece in share for row in range(piece.begin, piece.end)
    )
    assert set(covered.values()) == {1}
    assert len(covered) == sum(bucket.rows for bucket in buckets)
    sizes = [sum(piece.end - piece.begin for piece in share) for share in shares]
    assert max(sizes) - min(sizes) <= tasks


def test_a_small_tick_is_not_split_and_an_empty_one_is_no_work() -> None:
    assert len(split([bucket("a", 1, 0, 0, 5)], 8)) == 1
    assert split([], 8) == ()


def test_late_is_what_is_below_the_streams_own_watermark() -> None:
    order = tick_after(Manifest(tick=3, newest={"a": 50})).begin()
    assert order.tick == 4
    assert order.watermarks["a"] == 45
    assert order.watermarks["b"] < -(1 << 60)


def test_a_row_is_kept_until_every_other_watermark_has_passed_its_window() -> None:
    # A row of a (window 100) is dead once b's watermark is past τ + 100; b's newest is 155, its watermark 150.
    dead, alive = bucket("a", 1, 0, 49), bucket("a", 2, 0, 50)
    before = Manifest(tick=3, newest={"a": 60, "b": 100}, buckets=(dead, alive))
    tick = tick_after(before)
    manifest, garbage = committed(tick, [report("b", bucket("b", 4, 60, 155), newest=155)], [])
    assert {kept.file for kept in manifest.buckets} == {alive.file, "b-4-60"}
    assert garbage == [dead.file]
    assert manifest.newest == {"a": 60, "b": 155}


def test_merged_buckets_replace_their_inputs_in_the_same_manifest() -> None:
    inputs = tuple(bucket("a", tick, 100, 200) for tick in range(1, FAN_IN + 1))
    tick = tick_after(Manifest(tick=9, newest={"a": 200, "b": 120}, buckets=inputs))
    small, large = tick.merge_orders()
    (job,) = small.jobs
    assert job.inputs == inputs and not large.jobs
    manifest, garbage = committed(tick, [report("a", bucket("a", 10, 190, 210))], [], [MergeReport(job, MERGED)])
    assert {kept.file for kept in manifest.buckets} == {"merged", "a-10-190"}
    assert sorted(garbage) == sorted(old.file for old in inputs)


def test_a_large_merge_is_not_part_of_the_tick_and_is_not_begun_twice() -> None:
    inputs = tuple(replace(bucket("a", tick, 100, 200), bytes=LARGE_MERGE) for tick in range(1, FAN_IN + 1))
    tick = tick_after(Manifest(tick=9, newest={"a": 200, "b": 120}, buckets=inputs))
    small, large = tick.merge_orders()
    (job,) = large.jobs
    assert job.inputs == inputs and not small.jobs
    assert [order.jobs for order in tick.merge_orders(running=[job])] == [(), ()]


def test_a_tick_waits_for_few_bytes_of_merges_whatever_their_number() -> None:
    def run(store: str, size: int) -> tuple[BucketInfo, ...]:
        return tuple(replace(bucket(store, tick, 100, 200), bytes=size) for tick in range(1, FAN_IN + 1))

    larger, smaller = run("a", LARGE_MERGE // FAN_IN // 2 + 1), run("b", LARGE_MERGE // FAN_IN // 2)
    tick = tick_after(Manifest(tick=9, newest={"a": 200, "b": 120}, buckets=(*larger, *smaller)))
    small, large = tick.merge_orders()
    assert [job.inputs for job in small.jobs] == [smaller]
    assert [job.inputs for job in large.jobs] == [larger]


def test_a_merge_that_took_several_ticks_counts_only_if_all_its_inputs_are_still_there() -> None:
    inputs = tuple(bucket("a", tick, 100, 200) for tick in range(1, FAN_IN + 1))
    job = tick_after(Manifest(tick=9, newest={"a": 200, "b": 120}, buckets=inputs)).merge_orders()[0].jobs[0]
    for left, expected in ((inputs, {"merged"}), (inputs[1:], {one.file for one in inputs[1:]})):
        tick = tick_after(Manifest(tick=11, newest={"a": 200, "b": 120}, buckets=left))
        manifest, garbage = committed(tick, [], [], [MergeReport(job, MERGED)])
        named = {kept.file for kept in manifest.buckets}
        assert named == expected
        assert set(garbage) == {"merged", *(one.file for one in left)} - named, "what is not named is deleted"


def test_the_next_tick_can_be_gathered_before_this_one_is_probed() -> None:
    tick = tick_after(Manifest(tick=3, newest={"a": 50}))
    ahead = replace(tick, before=tick.foreseen([report("a", newest=80)])).begin()
    assert (ahead.tick, ahead.watermarks["a"]) == (5, 75)


def test_the_manifest_names_batch_results_and_running_totals() -> None:
    tick = tick_after(Manifest(tick=1, batches={"0": 6, "1": 2}, totals=Counters(rows=Counter(a=5))))
    result = ResultFile("q", "staged", "final", 3)
    manifest, _ = committed(
        tick,
        [report("a", bucket("a", 2, 0, 9), newest=9)],
        [TaskReport(results=[result], counts=Counters(results=Counter(q=3)))],
    )
    assert manifest.batches == {"0": 7, "1": 2}
    assert manifest.results == (result,)
    assert manifest.totals == Counters(rows=Counter(a=15), results=Counter(q=3))


# Queries that come and go ----------------------------------------------------------------------------

STORED = (bucket("a", 1, 90, 100), bucket("b", 2, 90, 100))


def test_a_query_is_backfilled_in_its_first_tick_only_and_from_stored_rows() -> None:
    before = Manifest(tick=3, newest={"a": 100, "b": 100}, buckets=STORED, queries={"other": 1})
    wanted = replace(QUERY, backfill=True)
    assert tick_after(before, QUERY).phases() == [1]
    tick = tick_after(before, wanted)
    assert tick.phases() == [0, 1]
    arrived = [report("a", bucket("a", 4, 95, 105), newest=105)]
    order = tick.probe_order(0, arrived, [], 2)
    assert [start.backfills for start in order.starts] == ["q"]
    assert {piece.bucket.file for share in order.work for piece in share} == {"a-1-90"}
    after, _ = committed(tick, arrived, [])
    assert after.queries == {"q": 4}, "the other one is gone"
    assert tick_after(after, wanted).phases() == [1]
    assert committed(tick_after(after, wanted), [], [])[0].queries == {"q": 4}


def test_a_name_given_to_another_query_between_two_ticks_is_new() -> None:
    before = Manifest(tick=9, newest={"a": 100, "b": 100}, buckets=STORED, queries={"q": 4})
    again = tick_after(before, replace(QUERY, backfill=True, addition="second"))
    assert again.backfills() == {"q"}
    after, _ = committed(again, [], [])
    assert after.queries == {"q": 10}
    assert tick_after(after, replace(QUERY, backfill=True, addition="second")).backfills() == set()


def test_the_tick_that_was_promised_does_not_make_a_query_new() -> None:
    """It was promised tick 5, the engine was killed, and tick 4 of its next life was its first."""
    query = replace(QUERY, backfill=True, since=5, addition="first")
    before = Manifest(tick=4, newest={"a": 100, "b": 100}, buckets=STORED, queries={"q": 4}, additions={"q": "first"})
    assert tick_after(before, query).backfills() == set()


def test_a_manifest_of_an_older_version_tells_additions_apart_by_their_ticks() -> None:
    before = Manifest(tick=9, newest={"a": 100, "b": 100}, buckets=STORED, queries={"q": 4}, additions=None)
    assert tick_after(before, replace(QUERY, backfill=True, since=4, addition="x")).backfills() == set()
    assert tick_after(before, replace(QUERY, backfill=True, since=10, addition="x")).backfills() == {"q"}


def test_a_tick_without_a_group_leaves_the_positions_alone() -> None:
    before = Manifest(tick=3, batches={"0": 6}, newest={"a": 100, "b": 100}, buckets=STORED)
    manifest, garbage = committed(tick_after(before, group=""), [], [])
    assert (manifest.tick, manifest.batches, garbage) == (4, {"0": 6}, [])


def test_what_no_query_reads_is_freed_unless_it_is_retained() -> None:
    before = Manifest(tick=3, newest={"a": 100, "b": 100}, buckets=STORED, queries={"q": 1})
    manifest, garbage = committed(tick_after(before, idle=True), [], [])
    assert manifest.buckets == ()
    assert manifest.queries == {}
    assert sorted(garbage) == ["a-1-90", "b-2-90"]
    # a's watermark is 95, so rows from 75 on are kept; b's are not.
    keeping = (replace(STREAMS[0], retain=20), STREAMS[1])
    assert [rule.name for rule in tick_after(before, streams=keeping, idle=True).rules.stores] == ["a"]
    older = (bucket("a", 1, 60, 74), bucket("a", 1, 61, 75), *STORED)
    manifest, garbage = committed(tick_after(replace(before, buckets=older), streams=keeping, idle=True), [], [])
    assert {kept.file for kept in manifest.buckets} == {"a-1-61", "a-1-90"}
    assert sorted(garbage) == ["a-1-60", "b-2-90"]


def test_retain_never_shortens_what_a_query_needs() -> None:
    keeping = tuple(replace(stream, retain=1) for stream in STREAMS)
    alive = bucket("a", 2, 0, 50)  # b's watermark is 150, and a's window 100
    before = Manifest(tick=3, newest={"a": 160, "b": 155}, buckets=(alive,))
    assert committed(tick_after(before, streams=keeping), [], [])[0].buckets == (alive,)


def test_a_manifest_from_before_queries_were_in_it_is_read(tmp_path: Path) -> None:
    commit(tmp_path, Manifest(tick=1, queries={"q": 1}))
    assert load_newest(tmp_path).queries == {"q": 1}
    path = layout.manifest(tmp_path, 1)
    _, _, body = path.read_text().partition("\n")
    older = body.replace(',"queries":{"q":1},"additions":{}', "")
    assert older != body
    path.write_text(json.dumps({"format": 1, "checksum": zlib.crc32(older.encode())}) + "\n" + older)
    assert load_newest(tmp_path) == Manifest(tick=1, additions=None)
