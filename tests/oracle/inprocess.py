"""A driver without Spark: the same ticks, tasks, files and manifests, called one after the other.

It stands where `runtime/spark.py` stands, so that hundreds of random cases can run in seconds; the tests in
`test_on_spark.py` run the same kind of cases through Spark itself.
"""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from tests.oracle.cases import Case
from tests.oracle.plans import simple
from watersmeet.io.sinks import prepare_folder, result_folder
from watersmeet.model import Query, Registered, Stream
from watersmeet.optimize.joingraph import graph_of
from watersmeet.optimize.problem import Problem, Solution
from watersmeet.plan.compile import compile_solution
from watersmeet.plan.ruleset import StoreRule
from watersmeet.runtime.gather import Gather
from watersmeet.runtime.home import discard, publish, recover
from watersmeet.runtime.orders import GatherReport, ProbeOrder, ProbeReport
from watersmeet.runtime.tick import Tick
from watersmeet.runtime.walk import Stores
from watersmeet.runtime.worker import probe_first, probe_next, probe_whole
from watersmeet.sql import CreateStream, build_query, parse_script
from watersmeet.store.manifest import commit


class InProcess:
    def __init__(self, home: Path, case: Case, functions: Mapping[str, Registered] | None = None) -> None:
        self.home, self.case = home, case
        scripts = [parse_script(stream.create + "'nowhere';") for stream in case.streams]
        statements = [statement for script in scripts for statement in script]
        self.streams: dict[str, Stream] = {
            statement.stream.name: statement.stream for statement in statements if isinstance(statement, CreateStream)
        }
        self.change([build_query(query.name, query.sql, self.streams, functions=functions) for query in case.queries])
        self.restart()

    def change(self, queries: list[Query]) -> None:
        """Answer these queries, and no others, from the next tick on."""
        self.queries = queries
        self.problem = Problem(tuple(graph_of(query) for query in self.queries), partitions=self.case.partitions)
        self.follow(simple(self.problem))
        for query in self.queries:
            prepare_folder(result_folder(self.home, query.name, query.sink), query.sink, query.outputs)

    def follow(self, solution: Solution) -> None:
        """Obey another plan from the next tick on."""
        streams = tuple(self.streams.values())
        self.rules = compile_solution(streams, self.queries, solution, self.case.partitions)

    def restart(self) -> None:
        Stores._open.clear()
        self.off: frozenset[str] = frozenset()
        self.manifest = recover(self.home, [])
        named = {bucket.file for bucket in self.manifest.buckets}
        on_disk = {str(path.relative_to(self.home)) for path in (self.home / "state").glob("*/*")}
        assert on_disk == named, "state that no manifest names was left, or state is missing"

    def tick(self, pieces: dict[str, pa.Table], group: str = "0", killed: str = "") -> None:
        """One tick with these rows; without a group it is one that only a change of the plan asks for.

        `killed` names the point at which the process dies: nothing after it happens."""
        tick = Tick(
            str(self.home),
            group,
            self.manifest.batches.get("0", -1) + 1,
            secrets.token_hex(4),
            self.rules,
            tuple(self.streams.values()),
            tuple(self.queries),
            self.manifest,
            self.off,
        )
        gathered = self._gather(tick, pieces)
        if killed == "gathered":
            return
        probed: list[ProbeReport] = []
        for phase in tick.phases():
            probed += self._probe(tick.probe_order(phase, gathered, probed, self.case.tasks))
            if killed == "between phases":
                return
        if killed == "probed":
            return
        self.off = self.off.union(*(report.off for report in probed))
        self.manifest, garbage = tick.finished(gathered, probed)
        commit(self.home, self.manifest)
        if killed == "committed":
            return
        publish(self.manifest.results)
        discard(self.home, garbage)

    def _gather(self, tick: Tick, pieces: dict[str, pa.Table]) -> list[GatherReport]:
        reports, order = [], tick.begin()
        for name, piece in pieces.items():
            rule = next((rule for rule in self.rules.stores if rule.name == name), None)
            stored = rule is not None
            if rule is None:
                rule = StoreRule(name, self.streams[name].columns, (), (), None, self.streams[name].time)
            share = max(1, -(-piece.num_rows // self.case.tasks))
            for task, begin in enumerate(range(0, piece.num_rows, share)):
                batches = piece.slice(begin, share).to_batches(max_chunksize=7)
                reports.append(Gather(order, rule, stored, str(task)).run(batches))
        return reports

    def _probe(self, order: ProbeOrder) -> list[ProbeReport]:
        if not order.work and not order.merges:
            return []
        if order.rules.partitions == 1:
            tasks = len(order.work) + len(order.merges)
            return [report for task in range(tasks) for report in _named(probe_whole(order), task, [])]
        places = order.rules.partitions
        blobs = [blob for task in range(places + len(order.merges)) for blob in _named(probe_first(order), task, [])]
        for _ in range(max(1, order.rules.depth(order.phase)) - 1):
            sent = [[blob for blob in blobs if blob[0] == place] for place in range(places)]
            blobs = [blob for place in range(places) for blob in _named(probe_next(order), place, sent[place])]
        return [pickle.loads(data) for _, (_, data) in blobs]


def _named(function, task, items):  # type: ignore[no-untyped-def]
    """Run a task's function under a name of its own, as Spark's task attempt id gives it one."""
    from watersmeet.runtime import worker

    previous = worker._task_name
    name = f"t{secrets.token_hex(4)}"
    worker._task_name = lambda: name
    try:
        return list(function(task, items))
    finally:
        worker._task_name = previous
