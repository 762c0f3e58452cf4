"""A task that has a tick to itself writes one bucket for each store, and one file for each query."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.answers import check_answers
from tests.support.cases import Case, QueryCase, StreamCase
from tests.support.in_process import InProcess
from tests.support.parquet_input import seconds_after_epoch
from tests.support.plans import plan_by
from tests.support.waiting import PATIENCE
from watersmeet.errors import StateError
from watersmeet.home.manifest import BucketInfo
from watersmeet.plan.ruleset import Ruleset, StreamStore
from watersmeet.runtime.emit import materialized_rows
from watersmeet.runtime.emit.materialized_rows import seen_alike
from watersmeet.runtime.exec import probing
from watersmeet.runtime.exec.executor import Rank
from watersmeet.runtime.exec.local import LocalExecutor
from watersmeet.runtime.tick import tick
from watersmeet.runtime.tick.orders import MergeOrder
from watersmeet.store.merge import MergeJob
from watersmeet.store.placement import Placement

TICKS, ROWS = 3, 10  # rows of each tick and stream


def stream(name: str) -> StreamCase:
    count = TICKS * ROWS
    rows = pa.table(
        {
            "ts": seconds_after_epoch([0] * count),
            "id": pa.array(range(count), pa.int64()),
            "k0": pa.array([number % 5 for number in range(count)], pa.int64()),
        }
    )
    return StreamCase(name, (("k0", "BIGINT"),), 0, rows, tuple(range(ROWS, count, ROWS)))


def chain(tasks: int) -> Case:
    """Four streams joined by one key, so that rows of all of them make rows of a materialized store."""
    streams = tuple(stream(f"s{number}") for number in range(4))
    sql = (
        "SELECT a0.id, a1.id AS second, a2.id AS third, a3.id AS fourth "
        "FROM s0 {0} a0, s1 {0} a1, s2 {0} a2, s3 {0} a3 WHERE a0.k0 = a1.k0 AND a1.k0 = a2.k0 AND a2.k0 = a3.k0"
    )
    query = QueryCase("q0", sql.format("[RANGE 1 SECOND]"), sql.format(""))
    return Case(streams, (query,), 1, frozenset(), tasks)


def materializing(home: Path, tasks: int) -> InProcess:
    engine = InProcess(home, chain(tasks))
    engine.follow(plan_by(engine.problem, lambda options: max(options, key=len)))
    assert len(engine.rules.materialized) > 1 and len(engine.rules.phases()) > 1
    return engine


def new_buckets(engine: InProcess) -> Counter[str]:
    """By materialized store, the buckets of the last tick."""
    manifest = engine.manifest
    new = [bucket.store for bucket in manifest.buckets if bucket.first_tick == manifest.tick]
    return Counter(store for store in new if store in stores(engine.rules))


def stores(rules: Ruleset) -> set[str]:
    return set(rules.materialized)


@pytest.mark.parametrize("few_bytes", [0, -1], ids=["a tick is one order", "in parts"])
def test_one_bucket_a_store_and_one_file_a_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_bytes: int
) -> None:
    monkeypatch.setattr(LocalExecutor, "few_bytes", few_bytes)
    engine = materializing(tmp_path, tasks=1)
    for number in range(TICKS):
        engine.tick(engine.case.pieces(number))
        assert new_buckets(engine) == dict.fromkeys(stores(engine.rules), 1)
        assert [file.query for file in engine.manifest.results] == ["q0"]
        engine.restart()  # which compares the files of the state with the manifest
    check_answers(engine.case, tmp_path)


def test_rows_that_do_not_fit_into_memory_are_written_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(materialized_rows, "BUCKET_ROWS", 50)
    engine = materializing(tmp_path, tasks=1)
    engine.run()
    assert max(new_buckets(engine).values()) > 1
    check_answers(engine.case, tmp_path)


def test_several_tasks_let_each_other_see_their_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tick, "MIN_ROWS", 4)
    monkeypatch.setattr(probing, "SHORT", 0)
    monkeypatch.setattr(LocalExecutor, "few_bytes", -1)
    engine = materializing(tmp_path, tasks=3)
    engine.run()
    assert max(new_buckets(engine).values()) > 1, "tasks have stored rows of their own"
    check_answers(engine.case, tmp_path)


def test_probes_that_take_little_time_are_left_to_one_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tick, "MIN_ROWS", 4)
    monkeypatch.setattr(probing, "SHORT", 10**12)
    monkeypatch.setattr(LocalExecutor, "few_bytes", -1)
    engine = materializing(tmp_path, tasks=3)
    engine.tick(engine.case.pieces(0))
    assert max(new_buckets(engine).values()) > 1, "nothing is known yet of the time"
    for number in range(1, TICKS):
        engine.tick(engine.case.pieces(number))
        assert new_buckets(engine) == dict.fromkeys(stores(engine.rules), 1)
    check_answers(engine.case, tmp_path)


def test_relations_are_told_apart_only_where_a_step_does(tmp_path: Path) -> None:
    rules = materializing(tmp_path, tasks=1).rules
    for store in rules.materialized:
        alike = seen_alike(rules, store)
        assert alike.keys() == {relation for relation, _ in rules.store(store).members}
        for step in (step for step in rules.all_steps() if step.store == store):
            for relation, stands_for in alike.items():
                assert (relation in step.sees) == (stands_for in step.sees)
    assert any(len(set(seen_alike(rules, store).values())) < len(rules.store(store).members) for store in stores(rules))


def test_the_engines_own_process_does_not_wait_for_a_merge_beside_the_ticks(tmp_path: Path) -> None:
    """The merge waits for a writer of what it reads, until the ticks have ended."""
    engine = materializing(tmp_path, tasks=1)
    assert engine.loop is not None and isinstance(engine.loop.executor, LocalExecutor)
    os.mkfifo(tmp_path / "fifo")
    fifo = BucketInfo("s0", "fifo", 1, 1, 0, 0, 0, 1, 1)
    order = MergeOrder(str(tmp_path), 1, "x", (MergeJob((fifo,), 0),), (StreamStore("l", (), (), (), Placement()),))
    merging = engine.loop.executor.submit(order, Rank.BESIDE)
    engine.run()
    assert not merging.done()
    with open(tmp_path / "fifo", "wb"):
        (report,) = merging.result(PATIENCE)
    assert isinstance(report.failure, StateError), "what it read is no bucket"
    engine.loop.executor.close()
    check_answers(engine.case, tmp_path)
