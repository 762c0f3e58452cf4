"""Engines that run one after the other in one process: `python -m bench.multistream.running` takes a run as a line of
JSON and answers with what it did.

There are more than a hundred runs, and a Spark of its own for each would take longer than all of them. So they share
one, which is warm after the first runs. Every run has its own engine and its own home.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

import bench.optimizer.searchers  # noqa: F401  # for "chain"
from bench.comparing import Failed
from bench.multistream.inputs import Inputs, shares
from bench.report import OUT
from bench.research import engine_options
from bench.three_streams import EPOCH
from bench.workloads.model import MICROS, Workload
from bench.workloads.texts import watersmeet_script
from watersmeet.adapt.statistics_file import as_json
from watersmeet.home import layout
from watersmeet.model import Query
from watersmeet.optimize.joingraph import QueryGraph, graph_of, stream_of
from watersmeet.optimize.statistics import Statistics, named_ends

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from watersmeet import Engine
    from watersmeet.home.manifest import Manifest
    from watersmeet.plan.rendered import RenderedPlan

QUANTILES = (0.025, 0.25, 0.5, 0.75, 0.975)
WARM = 3  # batches of a fed run that do not count
_LONGEST_WAIT = 90.0

PLANS: dict[str, dict[str, Any]] = {
    "flat": {"searcher": "flat"},
    "left-deep": {"searcher": "left-deep"},
    "chain": {"searcher": "chain"},  # with a storage budget
    "optimized": {},
}


@dataclass(frozen=True)
class Run:
    """`how` is hash, or theta for the same joins as predicates that are tested on all pairs."""

    workload: Workload
    plan: str
    how: str = "hash"
    partitions: int = 1
    parallelism: str = "all"  # or chosen: stores without a key in as many places as pay
    storage_budget: float = 0.0
    watched: bool = False  # tell the rows in each place after each tick
    period: float = 0.0  # least seconds from one tick's files to the next; 0: all are there from the start

    def __str__(self) -> str:
        chosen = ", partitions chosen" if self.parallelism == "chosen" else ""
        return f"{self.workload.name}, {self.plan}, {self.how}, P = {self.partitions}{chosen}"

    @property
    def options(self) -> dict[str, Any]:
        given = {**PLANS[self.plan], "partitions": self.partitions, "parallelism": self.parallelism}
        given |= {"adaptive": "off", "costs": "paper"}
        if self.storage_budget:
            given["storage_budget"] = self.storage_budget
        return given


@dataclass(frozen=True)
class Ran:
    results: int
    ticks: list[dict[str, Any]]  # as the engine logs them
    stored: dict[str, int]  # rows of each store at the end
    probed: int  # partial results that came to some place
    expected_probed: float  # the same by the cost model
    materialized: list[str]
    looked_up: list[str]  # hash, range or scan
    places: list[dict[str, list[int]]] = field(default_factory=list)  # by tick and store, rows in each place
    latencies: list[float] = field(default_factory=list)  # quantiles, in seconds

    @property
    def rows_per_second(self) -> float:
        """Over all ticks but the first, in which the streaming query starts."""
        rows = sum(tick["rows"] for tick in self.ticks[1:])
        return float(rows / (self.ticks[-1]["finished_at"] - self.ticks[0]["finished_at"]))

    @property
    def rows_per_second_of_probing(self) -> float:
        """The same for the part of a tick that the plan decides about."""
        return float(sum(tick["rows"] for tick in self.ticks[1:]) / sum(tick["probe"] for tick in self.ticks[1:]))


class Worker:
    """The process that carries out runs. Numbers of results are checked here, before anybody sees a figure."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.log = OUT / "multistream.log"
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.stdin and self.process.stdout:
            self.process.stdin.close()  # it ends when there are no more runs
            self.process.wait(60)
            self.process.stdout.close()

    def _start(self) -> subprocess.Popen[str]:
        OUT.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "bench.multistream.running", str(self.inputs.folder)]
        with self.log.open("w") as log:
            return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)

    def run(self, run: Run) -> Ran:
        right = self.inputs.results(run.workload)
        told = self._answer({**asdict(run), "workload": run.workload.to_json()})
        if "failure" in told:
            raise Failed(f"{run}: {told['failure']}")
        ran = Ran(**told)
        if ran.results != right:
            raise Failed(f"{run}: {ran.results} results, and DuckDB says {right}")
        if ran.looked_up != [{"hash": "hash", "theta": "scan"}[run.how]]:
            raise Failed(f"{run}: joined by {', '.join(ran.looked_up)}")
        return ran

    def _answer(self, run: dict[str, Any]) -> dict[str, Any]:
        if self.process is None or self.process.poll() is not None:
            self.process = self._start()
        assert self.process.stdin and self.process.stdout
        print(json.dumps(run), file=self.process.stdin, flush=True)
        for line in self.process.stdout:
            if line.startswith("{"):  # other lines are Spark's
                told: dict[str, Any] = json.loads(line)
                return told
        raise Failed(f"the process with the engines ended; see its log: {self.log}")


def _graph(query: Query) -> QueryGraph:
    assert query.join is not None
    return graph_of(query.name, query.join)


def statistics_for(engine: Engine, rows: Mapping[str, int], kept: Sequence[tuple[str, str, float]]) -> Statistics:
    """What is true of the whole input, as if an earlier life of the engine had measured it."""
    share = {frozenset((left, right)): value for left, right, value in kept}
    links = [link for handle in engine.queries for link in _graph(handle.query).links]
    return Statistics(
        {name: float(count) for name, count in rows.items()},
        {frozenset(named_ends(link)): share[frozenset(map(stream_of, link.relations))] for link in links},
    )


def expected_probed(engine: Engine, plan: RenderedPlan, known: Statistics) -> float:
    """The tuples that the plan sends to places, by the cost model, without what looking at rows costs there."""
    (graph,) = (_graph(handle.query) for handle in engine.queries)
    total = 0.0
    for step in plan.steps:
        joined = graph.within(frozenset(step.joined.split("⋈")))
        total += known.cardinality(joined) / len(joined) * step.copies
    return total


def carry_out(run: Run, scratch: Path, spark: SparkSession) -> Ran:
    from watersmeet import Engine

    home, source = scratch / "home", scratch / "in"
    workload, theta = run.workload, run.how == "theta"
    if run.period:
        for stream in workload.streams:
            (source / stream.name).mkdir(parents=True)
        text = watersmeet_script(replace(workload, folder=str(source)), workload.queries, theta=theta, files_a_tick=100)
    else:
        text = watersmeet_script(workload, workload.queries, theta=theta, sink="count")
    home.mkdir()
    seen: dict[int, Manifest] = {}
    ended = threading.Event()
    with Engine(spark, home=home, **engine_options(run.options)) as engine:
        engine.sql(text)
        known = statistics_for(engine, workload.counted(), shares(workload))
        (home / layout.STATISTICS).write_text(json.dumps({"statistics": as_json(known)}))

        def watch() -> None:
            while not ended.wait(0.02):
                seen[engine.newest.tick] = engine.newest

        watcher = threading.Thread(target=watch, daemon=True)
        engine.start(once=not run.period)
        if run.watched:
            watcher.start()
        arrived = _feed(run, engine, source) if run.period else []
        if not run.period:
            engine.wait()
        plan = engine.plan()
        manifest = seen[engine.newest.tick] = engine.newest
        ended.set()
        if run.watched:
            watcher.join()
    stored: dict[str, int] = {}
    for bucket in manifest.buckets:
        stored[bucket.store] = stored.get(bucket.store, 0) + bucket.rows
    ticks = [json.loads(line) for line in (home / layout.TICKS).read_text().splitlines()]
    name = workload.queries[0].name
    return Ran(
        results=manifest.totals.results[name],
        ticks=ticks,
        stored=stored,
        probed=manifest.totals.step_in.total(),
        expected_probed=expected_probed(engine, plan, known),
        materialized=[store.name for store in plan.stores if store.materialized],
        looked_up=sorted({step.by for step in plan.steps}),
        places=[_places(seen[tick], run.partitions) for tick in sorted(seen) if tick] if run.watched else [],
        latencies=_latencies(ticks, home / "results" / name, arrived) if run.period else [],
    )


def _places(manifest: Manifest, partitions: int) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for bucket in manifest.buckets:
        found.setdefault(bucket.store, [0] * partitions)[bucket.partition % partitions] += bucket.rows
    return found


def _feed(run: Run, engine: Engine, source: Path) -> list[float]:
    """Let the files of one tick after the other appear; returns when each of them did.

    None appears before the rows of the one before are committed: no row waits for another, as at a low rate."""
    arrived: list[float] = []
    streams = [stream.name for stream in run.workload.streams]
    due, fed = 0.0, 0
    for tick in range(run.workload.ticks):
        time.sleep(max(0.0, due - time.time()))
        for stream in streams:
            file = Path(stream, f"{tick:06d}.parquet")
            os.link(run.workload.folder / file, source / file)
            fed += run.workload.rows[stream][tick]
        arrived.append(time.time())
        due = arrived[-1] + run.period
        end = time.time() + _LONGEST_WAIT
        while sum(engine.newest.totals.rows[stream] for stream in streams) < fed:
            if time.time() > end:
                raise Failed(f"the rows of tick {tick} are not processed after {_LONGEST_WAIT:g} s")
            time.sleep(0.02)
    return arrived


def _latencies(ticks: list[dict[str, Any]], folder: Path, arrived: list[float]) -> list[float]:
    """Quantiles over all results: from the arrival of the last of a result's rows to the commit that shows it."""
    values = []
    for tick in ticks:
        for path in folder.glob(f"{tick['tick']:012d}-*.parquet"):
            columns = pq.read_table(path).columns
            last = np.max([np.asarray(column.cast("timestamp[us]")).astype(np.int64) for column in columns], axis=0)
            batch = (last - EPOCH) // MICROS
            values.append(tick["finished_at"] - np.asarray(arrived)[batch[batch >= WARM]])
    return [float(value) for value in np.quantile(np.concatenate(values), QUANTILES)]


def main(folder: Path) -> None:
    from watersmeet.session import make_session

    spark = make_session(log=folder / "spark.log")
    for line in sys.stdin:
        raw = json.loads(line)
        run = Run(**{**raw, "workload": Workload.from_json(raw["workload"])})
        scratch = Path(tempfile.mkdtemp(dir=folder))
        try:
            answer: dict[str, Any] = asdict(carry_out(run, scratch, spark))
        except Exception as problem:
            print(repr(problem), file=sys.stderr)
            answer = {"failure": f"{type(problem).__name__}: {problem}"}
        shutil.rmtree(scratch, ignore_errors=True)
        print(json.dumps(answer), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
