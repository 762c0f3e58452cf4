"""LEFT, RIGHT, SEMI and ANTI joins, [NOT] EXISTS and [NOT] IN against batch queries over the same input."""

from __future__ import annotations

import datetime as dt
import random
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.test_changes import live, lives, with_arrivals
from tests.oracle.test_counts import check_counts, counting_engine
from tests.support.answers import check_answers, oracle_answers, stored_answers
from tests.support.cases import SECOND, Case, QueryCase, StreamCase, bracket
from tests.support.examples import examples
from tests.support.in_process import InProcess
from tests.support.leaf_cases import LeafQuery, leaf_cases
from tests.support.parquet_input import EPOCH, TIMESTAMP
from tests.support.plans import plans
from watersmeet.runtime.probe import walk
from watersmeet.runtime.tick import tick as ticks


@given(leaf_cases())
@settings(max_examples=examples(150))
def test_random_queries_give_the_oracles_results(case: Case) -> None:
    """Any form, one to three preserved aliases, NULL keys, restarts, one and three places, one to three tasks."""
    with tempfile.TemporaryDirectory() as folder:
        engine = InProcess(Path(folder), case)
        engine.run()
        check_answers(case, Path(folder))


@given(st.data(), leaf_cases(max_rows=15, max_ticks=4))
@settings(max_examples=examples(60))
def test_the_plan_does_not_matter(data: st.DataObject, case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = InProcess(Path(folder), case)
        for number in range(case.ticks):
            engine.follow(data.draw(plans(engine.problem)))
            if number in case.restarts:
                engine.restart()
            engine.tick(case.pieces(number))
        check_answers(case, Path(folder))


@given(leaf_cases(max_rows=20, max_ticks=4))
@settings(max_examples=examples(60))
def test_neither_tasks_nor_chunks_matter(case: Case) -> None:
    """Up to three tasks probe a tick, two rows at a time: of partners in different ones, one is the first."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(ticks, "MIN_ROWS", 1),
        mock.patch.object(walk, "ROWS_IN", 2),
    ):
        engine = InProcess(Path(folder), case)
        engine.run()
        check_answers(case, Path(folder))


@given(leaf_cases(max_ticks=12, late=True))
@settings(max_examples=examples(60))
def test_late_rows_are_no_partners_and_have_none(case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = InProcess(Path(folder), case)
        engine.run()
        check_answers(replace(case, streams=tuple(map(in_time, case.streams))), Path(folder))


def in_time(stream: StreamCase) -> StreamCase:
    """The rows that are not below the watermark of the tick before."""
    kept: list[pa.Table] = []
    newest: int | None = None
    for tick in range(len(stream.cuts) + 1):
        piece = stream.piece(tick)
        times = piece.column("ts").cast(pa.int64()).to_pylist()
        late = [newest is not None and time < newest - stream.lateness for time in times]
        kept.append(piece.filter(pa.array([not each for each in late], pa.bool_())))
        newest = max([time for time in times if time is not None] + ([] if newest is None else [newest]), default=None)
    return replace(stream, rows=pa.concat_tables(kept))


@given(st.data(), leaf_cases())
@settings(max_examples=examples(40))
def test_counts_are_the_oracles(data: st.DataObject, case: Case) -> None:
    names = [query.name for query in case.queries]
    counted = set(data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True)))
    with tempfile.TemporaryDirectory() as folder:
        engine = counting_engine(Path(folder), case, counted)
        engine.restart()
        engine.run()
        check_counts(engine, counted)


@given(st.data(), leaf_cases(max_rows=15, max_ticks=5))
@settings(max_examples=examples(60))
def test_every_life_of_a_query_over_kept_streams_gives_the_oracles_results(data: st.DataObject, case: Case) -> None:
    """With BACKFILL and without; a result is found in one tick, and the lives that have that tick have the result."""
    lived = data.draw(lives(case))
    timed = tuple(replace(query, oracle=query.timed) for query in case.queries if isinstance(query, LeafQuery))
    answers = oracle_answers(replace(case, streams=tuple(map(with_arrivals, case.streams)), queries=timed))
    expected = {life.query.name: Counter[tuple[object, ...]]() for life in lived}
    for life in lived:
        for (*row, tick), count in answers[life.query.name].items():
            if isinstance(tick, int) and tick < life.end and (life.backfill or tick >= life.begin):
                expected[life.query.name][tuple(row)] += count
    with tempfile.TemporaryDirectory() as folder:
        live(data, case, lived, Path(folder), retained=True)
        for name, wanted in expected.items():
            assert stored_answers(Path(folder) / "results" / name) == wanted, name


@given(st.data(), leaf_cases(max_rows=20, max_ticks=5))
@settings(max_examples=examples(80))
def test_a_flush_decides_all_absences_so_far_and_none_twice(data: st.DataObject, case: Case) -> None:
    """After any tick: rows come, the engine restarts and another flush finds nothing new. One and three places."""
    at = data.draw(st.integers(0, case.ticks - 1))
    flushed = tuple(
        replace(query, oracle=query.flushed.format(flush=at)) for query in case.queries if isinstance(query, LeafQuery)
    )
    with tempfile.TemporaryDirectory() as folder:
        engine = InProcess(Path(folder), case)
        for number in range(case.ticks):
            if number in case.restarts:
                engine.restart()
            engine.tick(case.pieces(number))
            if number == at:
                engine.flush()
                engine.restart()
                engine.flush()
        check_answers(replace(case, streams=tuple(map(with_arrivals, case.streams)), queries=flushed), Path(folder))


EVERY_FORM = {
    "left": "SELECT a.id, b.id AS other FROM s0 {a} a LEFT JOIN s1 {b} b ON a.k = b.k",
    "anti": "SELECT a.id FROM s0 {a} a ANTI JOIN s1 {b} b ON a.k = b.k",
    "semi": "SELECT a.id FROM s0 {a} a SEMI JOIN s1 {b} b ON a.k = b.k",
    "pairs": "SELECT a.id, c.id AS c FROM s0 {a} a JOIN s0 {c} c ON a.k = c.k + 1 ANTI JOIN s1 {b} b ON c.k = b.k",
}


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("lateness", [0, 2])
def test_rows_are_stored_until_they_have_told_all(tmp_path: Path, tasks: int, lateness: int) -> None:
    """A row a tick: whatever can expire does."""
    case = row_by_row(lateness, tasks)
    engine = InProcess(tmp_path, case)
    engine.run()
    check_answers(case, tmp_path)
    newest = max(bucket.tau_max for bucket in engine.manifest.buckets)
    assert min(bucket.tau_max for bucket in engine.manifest.buckets) > newest - 15 * SECOND


@pytest.mark.parametrize("lateness", [(2, 0), (0, 2)])
def test_another_lateness_neither_loses_nor_doubles_an_absence(tmp_path: Path, lateness: tuple[int, int]) -> None:
    """LATENESS is part of the declaration, which may be another one at the next start."""
    first, then = (row_by_row(seconds, 1) for seconds in lateness)
    ordered = tuple(replace(stream, lateness=first.streams[0].lateness) for stream in row_by_row(0, 1).streams)
    engine = InProcess(tmp_path, replace(first, streams=ordered))
    for tick in range(first.ticks):
        if tick == first.ticks // 2:
            engine.streams = {
                name: replace(stream, lateness=then.streams[0].lateness) for name, stream in engine.streams.items()
            }
            engine.change(engine.queries)
            engine.restart()
        engine.tick(engine.case.pieces(tick))
    check_answers(replace(then, streams=ordered), tmp_path)


def row_by_row(lateness: int, tasks: int) -> Case:
    streams = tuple(steady_stream(f"s{at}", lateness * SECOND, seed) for at, seed in enumerate((7, 11)))
    windows = {"a": 5 * SECOND, "b": 2 * SECOND, "c": 3 * SECOND}
    brackets = {alias: bracket(window) for alias, window in windows.items()}
    queries = tuple(
        QueryCase(name, text.format(**brackets), batch_query(name, windows, lateness * SECOND))
        for name, text in EVERY_FORM.items()
    )
    return Case(streams, queries, 1, frozenset((40,)), tasks)


def steady_stream(name: str, lateness: int, seed: int, rows: int = 100) -> StreamCase:
    """A row about every second, not quite in order if rows may come late."""
    chosen = random.Random(seed)
    times = [at * SECOND - chosen.randint(0, lateness) for at in range(rows)]
    data = {
        "ts": pa.array([EPOCH + dt.timedelta(microseconds=time) for time in times], TIMESTAMP),
        "id": pa.array(range(rows), pa.int64()),
        "k": pa.array([chosen.choice((0, 1, 2, 3, 4, None)) for _ in range(rows)], pa.int64()),
    }
    return StreamCase(name, (("k", "BIGINT"),), lateness, pa.table(data), tuple(range(1, rows)))


def batch_query(form: str, windows: dict[str, int], lateness: int) -> str:
    a, b = "epoch_us(a.ts)", "epoch_us(b.ts)"
    latest, deadline, key = a, f"{a} + {windows['a']}", "a"
    preserved, inside = "s0 AS a", "true"
    if form == "pairs":
        c = "epoch_us(c.ts)"
        latest, deadline, key = f"greatest({a}, {c})", f"least({a} + {windows['a']}, {c} + {windows['c']})", "c"
        preserved, inside = "s0 AS a CROSS JOIN s0 AS c", f"a.k = c.k + 1 AND {latest} <= {deadline}"
    partner = f"{key}.k = b.k AND {b} <= {deadline} AND {b} + {windows['b']} >= {latest}"
    exists = f"EXISTS (SELECT 1 FROM s1 AS b WHERE {partner})"
    decided = f"{deadline} < (SELECT max(epoch_us(ts)) - {lateness} FROM s1)"
    absent = f"FROM {preserved} WHERE {inside} AND NOT {exists} AND {decided}"
    return {
        "left": f"SELECT a.id, b.id FROM s0 AS a, s1 AS b WHERE {partner} UNION ALL SELECT a.id, NULL {absent}",
        "anti": f"SELECT a.id {absent}",
        "semi": f"SELECT a.id FROM s0 AS a WHERE {exists}",
        "pairs": f"SELECT a.id, c.id {absent}",
    }[form]
