"""The engine's own tick loop on a `LocalExecutor`, with rows that a test hands over: hundreds of cases in seconds.

`test_on_spark.py` runs the same kind of cases through Spark itself.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.cases import Case
from tests.support.deaths import Died, dying_at
from tests.support.declarations import continuous_query, streams_of
from tests.support.plans import simple
from tests.support.split_batch import SplitBatch, split_batch
from watersmeet.home.manifest import Manifest, load_earlier
from watersmeet.home.recovery import recover
from watersmeet.io.sinks import prepare_folder, result_folder
from watersmeet.model import Query, Registered, Stream
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.solution import Solution
from watersmeet.plan.compile import compile_solution
from watersmeet.plan.parts import parts_of
from watersmeet.plan.ruleset import Ruleset
from watersmeet.runtime.exec.local import LocalExecutor
from watersmeet.runtime.exec.looking import verify
from watersmeet.runtime.loop import TickLoop

ROW_GROUP = 7  # rows: a task gets several batches of a file


@dataclass(frozen=True)
class Plan:
    rules: Ruleset
    streams: tuple[Stream, ...]
    queries: tuple[Query, ...]
    suspended: tuple[Query, ...] = ()
    windowed: tuple[Query, ...] = ()


class InProcess:
    def __init__(self, home: Path, case: Case, functions: Mapping[str, Registered] | None = None) -> None:
        self.home, self.case = home, case
        # Not in the home, whose disk a test may fill.
        self._input = tempfile.mkdtemp(prefix="watersmeet-test-")
        weakref.finalize(self, shutil.rmtree, self._input)
        self._numbers = itertools.count()
        self.streams = streams_of("".join(stream.reading("nowhere") for stream in case.streams))
        self.loop: TickLoop | None = None
        self.change(
            [continuous_query(query.name, query.sql, self.streams, functions=functions) for query in case.queries]
        )
        self.restart()

    def change(self, queries: list[Query]) -> None:
        """Answer these queries, and no others, from the next tick on."""
        self.queries = queries
        graphs = tuple(part.graph for part in parts_of(self.queries))
        self.problem = Problem(graphs, partitions=self.case.partitions)
        self.follow(simple(self.problem))
        for query in self.queries:
            prepare_folder(result_folder(self.home, query.name, query.sink), query.sink, query.outputs)

    def follow(self, solution: Solution) -> None:
        """Obey another plan from the next tick on."""
        streams = tuple(self.streams.values())
        self.rules = compile_solution(streams, self.queries, solution, self.case.partitions)
        self.plan = Plan(self.rules, streams, tuple(self.queries))
        if self.loop is not None:
            self.loop.adopt(self.plan)

    @property
    def manifest(self) -> Manifest:
        assert self.loop is not None
        return self.loop.manifest

    def restart(self) -> None:
        executor = LocalExecutor(self.case.tasks)
        manifest = recover(self.home, [], [partial(verify, executor)])
        kept = (manifest, *load_earlier(self.home, manifest.tick)[:1])
        named = {bucket.file for one in kept for bucket in one.buckets}
        on_disk = {str(path.relative_to(self.home)) for path in (self.home / "state").glob("*/*")}
        assert on_disk == named, "state that no manifest names was left, or state is missing"
        self.loop = TickLoop(self.home, manifest, self.plan, executor)

    def run(self) -> None:
        """All ticks of the case, with its restarts."""
        for tick in range(self.case.ticks):
            if tick in self.case.restarts:
                self.restart()
            self.tick(self.case.pieces(tick))

    def tick(self, pieces: dict[str, pa.Table], group: str = "0", killed: str = "") -> None:
        """One tick with these rows; without a group it is one that only a change of the plan asks for.

        `killed` names the point at which the process dies: nothing after it happens."""
        assert self.loop is not None
        with dying_at(killed):
            try:
                if group:
                    self.loop.run(self._batch(pieces, group))
                else:
                    self.loop.adopt(self.plan)
                    self.loop.settle(0)
            except Died:
                pass

    def flush(self) -> None:
        assert self.loop is not None
        self.loop.flush()

    def _batch(self, pieces: dict[str, pa.Table], group: str) -> SplitBatch:
        files = {}
        for name, piece in pieces.items():
            share = max(1, -(-piece.num_rows // self.case.tasks))
            files[name] = [self._write(piece.slice(begin, share)) for begin in range(0, piece.num_rows, share)]
        number = self.manifest.batches.get(group, -1) + 1
        return split_batch(group, number, tuple(self.streams.values()), files, self.home)

    def _write(self, rows: pa.Table) -> str:
        path = f"{self._input}/{next(self._numbers)}.parquet"
        pq.write_table(rows, path, row_group_size=ROW_GROUP)
        return path
