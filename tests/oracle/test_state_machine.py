"""Anything in any order: queries come, go and come again, rows arrive, plans change, the engine stops and dies.

After every tick each query's results equal DuckDB's for its lives: from its first tick on with all that was kept before
it, or with BACKFILL everything. `tests/fault` kills real processes; here a tick ends at a point and nothing follows.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.oracle.test_changes import Life, expected
from tests.support.answers import stored_answers
from tests.support.cases import Case, StreamCase, cases
from tests.support.declarations import continuous_query
from tests.support.examples import examples
from tests.support.in_process import InProcess
from tests.support.plans import plans
from watersmeet.model import Query, Sink

COUNTED = ("q1", "q4")  # these have their matches counted, the others have files of results
POINTS = (
    "tick.begin",
    "bucket.written",
    "gather.after",
    "phase.between",
    "probe.after",
    "manifest.draft",
    "manifest.linked",
    "publish.before",
    "discard.before",
)


class Changes(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()

    def teardown(self) -> None:
        self.folder.cleanup()

    @initialize(case=cases(max_streams=3, max_queries=6, max_rows=40, max_ticks=1))
    def begin(self, case: Case) -> None:
        self.case = case
        self.home = Path(self.folder.name)
        self.engine = InProcess(self.home, replace(case, queries=()))
        self.engine.streams = {name: replace(stream, retain=None) for name, stream in self.engine.streams.items()}
        self.engine.change([])
        self.alive: dict[str, tuple[Query, int]] = {}  # with the number of the first tick
        self.lives: list[Life] = []
        self.now = 0  # ticks so far
        self.arrived: dict[str, list[int]] = {stream.name: [] for stream in case.streams}

    # What may happen -----------------------------------------------------------------------------

    @precondition(lambda self: len(self.alive) < len(self.case.queries))
    @rule(data=st.data(), backfill=st.booleans())
    def add(self, data: st.DataObject, backfill: bool) -> None:
        asked = data.draw(st.sampled_from([query for query in self.case.queries if query.name not in self.alive]))
        sink = Sink("count") if asked.name in COUNTED else Sink()
        built = continuous_query(asked.name, asked.sql, self.engine.streams, sink, backfill=backfill)
        name = f"{asked.name} in tick {self.now}, {len(self.lives)}"
        self.alive[asked.name] = replace(built, since=self.engine.manifest.tick + 1, addition=name), self.now
        self.change()

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        self.end_life(data.draw(st.sampled_from(sorted(self.alive))))
        self.change()

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def change_plan(self, data: st.DataObject) -> None:
        self.engine.follow(data.draw(plans(self.engine.problem)))

    @rule()
    def restart(self) -> None:
        self.engine.restart()

    @rule(data=st.data())
    def feed(self, data: st.DataObject) -> None:
        self.engine.tick(self.take(data))
        self.now += 1
        self.check()

    @rule()
    def tick_without_rows(self) -> None:
        self.engine.tick({}, group="")
        self.now += 1
        self.check()

    @rule(data=st.data(), point=st.sampled_from(POINTS))
    def kill(self, data: st.DataObject, point: str) -> None:
        """The source offers the rows of a tick that was not committed again, as Spark's offsets do."""
        pieces = self.take(data)
        before = self.engine.manifest.tick
        self.engine.tick(pieces, killed=point)
        self.engine.restart()
        if self.engine.manifest.tick == before:
            self.engine.tick(pieces)
        self.now += 1
        self.check()

    # How it is compared --------------------------------------------------------------------------

    def change(self) -> None:
        self.engine.change([query for query, _ in self.alive.values()])

    def end_life(self, name: str) -> None:
        self.lives.append(self.life(*self.alive.pop(name)))

    def life(self, query: Query, begin: int) -> Life:
        asked = next(asked for asked in self.case.queries if asked.name == query.name)
        return Life(asked, begin, self.now, query.backfill)

    def take(self, data: st.DataObject) -> dict[str, pa.Table]:
        pieces = {}
        for stream in self.case.streams:
            begin = len(self.arrived[stream.name])
            count = data.draw(st.integers(0, min(12, stream.rows.num_rows - begin)))
            pieces[stream.name] = stream.rows.slice(begin, count)
            self.arrived[stream.name] += [self.now] * count
        return pieces

    def check(self) -> None:
        lived = self.lives + [self.life(*present) for present in self.alive.values()]
        lived = [life for life in lived if life.begin < life.end]
        answers = expected(replace(self.case, streams=tuple(map(self.fed, self.case.streams))), lived, history=True)
        for name, wanted in answers.items():
            if name in COUNTED:
                assert self.counted(name) == sum(wanted.values()), name
            else:
                assert stored_answers(self.home / "results" / name) == wanted, name

    def fed(self, stream: StreamCase) -> StreamCase:
        ticks = self.arrived[stream.name]
        rows = stream.rows.slice(0, len(ticks))
        bounds = [sum(1 for tick in ticks if tick < number) for number in range(1, self.now)]
        return replace(stream, rows=rows, cuts=tuple(bounds))

    def counted(self, name: str) -> int:
        files = sorted((self.home / "counts").glob("*.parquet"))
        rows = [row for file in files for row in pq.read_table(file).to_pylist()]
        return sum(row["matches"] for row in rows if row["query"] == name)


Changes.TestCase.settings = settings(max_examples=examples(25), stateful_step_count=15)
test_changes_in_any_order = Changes.TestCase
