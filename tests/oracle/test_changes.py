"""Queries come and go between ticks, with and without BACKFILL: each life of a query against DuckDB."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.answers import oracle_answers, stored_answers
from tests.support.cases import Case, QueryCase, StreamCase, cases
from tests.support.declarations import continuous_query
from tests.support.examples import examples
from tests.support.in_process import InProcess
from tests.support.plans import plans
from watersmeet.model import Query
from watersmeet.store.bucket_file import verify_file

Answers = dict[str, Counter[tuple[object, ...]]]


@dataclass(frozen=True)
class Life:
    """A query is there in the ticks from `begin` to before `end`."""

    query: QueryCase
    begin: int
    end: int
    backfill: bool


@st.composite
def lives(draw: st.DrawFn, case: Case) -> list[Life]:
    """One or two lives of each query; the second may begin where the first ends."""
    found = []
    for query in case.queries:
        times = sorted(draw(st.lists(st.integers(0, case.ticks), min_size=2, max_size=4)))
        for begin, end in zip(times[::2], times[1::2], strict=False):
            if begin < end:
                found.append(Life(query, begin, end, draw(st.booleans())))
    return found


def with_arrivals(stream: StreamCase) -> StreamCase:
    """The rows with the tick in which each arrives, for the oracle only."""
    ticks = [tick for tick in range(len(stream.cuts) + 1) for _ in range(stream.piece(tick).num_rows)]
    return replace(stream, rows=stream.rows.append_column("arrived", pa.array(ticks, pa.int64())))


def expected(case: Case, lived: list[Life], history: bool) -> Answers:
    """What the queries find in their lives; without `history`, only what comes from rows that arrive in them."""
    asked = []
    for number, life in enumerate(lived):
        aliases = re.findall(r"\bs\d+ AS (a\d+)\b", life.query.oracle)
        arrived = ", ".join(f"{alias}.arrived" for alias in aliases)
        tests = [f"greatest({arrived}) < {life.end}"]
        if not history:
            tests.append(f"least({arrived}) >= {life.begin}")
        elif not life.backfill:
            tests.append(f"greatest({arrived}) >= {life.begin}")
        asked.append(QueryCase(str(number), life.query.sql, f"{life.query.oracle} AND {' AND '.join(tests)}"))
    streams = tuple(with_arrivals(stream) for stream in case.streams)
    answers = oracle_answers(replace(case, streams=streams, queries=tuple(asked)))
    total: Answers = {life.query.name: Counter() for life in lived}
    for number, life in enumerate(lived):
        total[life.query.name].update(answers[str(number)])
    return total


def live(data: st.DataObject, case: Case, lived: list[Life], home: Path, retained: bool) -> InProcess:
    engine = InProcess(home, replace(case, queries=()))
    if retained:
        engine.streams = {name: replace(stream, retain=None) for name, stream in engine.streams.items()}
    present: dict[Life, Query] = {}
    for tick in range(case.ticks):
        alive = [life for life in lived if life.begin <= tick < life.end]
        for life in alive:
            if life not in present:
                built = continuous_query(life.query.name, life.query.sql, engine.streams, backfill=life.backfill)
                present[life] = replace(built, since=engine.manifest.tick + 1, addition=str(life))
        engine.change([present[life] for life in alive])
        engine.follow(data.draw(plans(engine.problem)))
        if tick in case.restarts:
            engine.restart()
        if data.draw(st.integers(0, 3)) == 0:
            engine.tick({}, group="")
        engine.tick(case.pieces(tick))
        assert set(engine.manifest.queries) == {life.query.name for life in alive}
        for bucket in engine.manifest.buckets:
            verify_file(home, bucket)
    engine.change([])
    engine.tick({}, group="")
    return engine


@given(st.data(), cases(max_queries=5, max_rows=20, max_ticks=6))
@settings(max_examples=examples(60))
def test_every_life_of_a_query_over_kept_streams_gives_the_oracles_results(data: st.DataObject, case: Case) -> None:
    lived = data.draw(lives(case))
    with tempfile.TemporaryDirectory() as folder:
        engine = live(data, case, lived, Path(folder), retained=True)
        for name, answers in expected(case, lived, history=True).items():
            assert stored_answers(Path(folder) / "results" / name) == answers, name
        rows = sum(stream.rows.num_rows for stream in case.streams)
        assert sum(bucket.rows for bucket in engine.manifest.buckets) == rows, (
            "UNBOUNDED keeps every row, and nothing else"
        )


@given(st.data(), cases(max_queries=5, max_rows=20, max_ticks=6))
@settings(max_examples=examples(40))
def test_without_retain_a_query_has_at_least_what_arrives_in_its_life(data: st.DataObject, case: Case) -> None:
    """How much history is still stored depends on the other queries; what is emitted is right in any case."""
    lived = data.draw(lives(case))
    with tempfile.TemporaryDirectory() as folder:
        engine = live(data, case, lived, Path(folder), retained=False)
        least, most = expected(case, lived, history=False), expected(case, lived, history=True)
        for name in least:
            found = stored_answers(Path(folder) / "results" / name)
            assert not least[name] - found, (name, "missing", least[name] - found)
            assert not found - most[name], (name, "too much", found - most[name])
        assert engine.manifest.buckets == (), "no query is left, so nothing is kept"
        engine.tick({}, group="")  # files are deleted once no manifest that may be needed names them
        assert list((Path(folder) / "state").glob("*/*")) == []
