"""Carries out ticks on Spark: runs the jobs that `tick.py` orders, commits, publishes."""

from __future__ import annotations

import errno
import functools
import json
import pickle
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from watersmeet.errors import RunError, WatersmeetError
from watersmeet.io.folders import has_few_rows, share
from watersmeet.model import Query, Stream
from watersmeet.plan.ruleset import Ruleset
from watersmeet.runtime.home import discard, mixed, publish
from watersmeet.runtime.input import set_aside
from watersmeet.runtime.orders import GatherReport, ProbeOrder, ProbeReport
from watersmeet.runtime.results import COUNTS
from watersmeet.runtime.sending import RulesFile, pack, write_whole
from watersmeet.runtime.tick import Tick, is_new
from watersmeet.runtime.worker import (
    gather_files,
    gather_order_path,
    no_space,
    obeying,
    probe_first,
    probe_next,
    probe_whole,
)
from watersmeet.store.manifest import Manifest, commit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TICK_LOG = "ticks.jsonl"  # in the home: one line a tick, for whoever watches or measures
_LONGEST_LOG = 16 << 20
_COUNTED = 0.05  # what a match that is only counted costs, against a result
_MANY = 3  # results or merged rows for each row that the driver would process
Gathering = Callable[[Tick], list[GatherReport]]  # how the rows of a tick come into buckets


@dataclass(frozen=True)
class TickTimes:
    """Where the time of a tick went, in seconds."""

    tick: int
    rows: int
    results: int
    gather: float
    probe: float
    commit: float
    finished_at: float

    @property
    def total(self) -> float:
        return self.gather + self.probe + self.commit


class Orders(Protocol):
    """What ticks obey from the next one on; replaced as a whole, never changed."""

    @property
    def rules(self) -> Ruleset: ...

    @property
    def streams(self) -> tuple[Stream, ...]: ...

    @property
    def queries(self) -> tuple[Query, ...]: ...


@dataclass
class SparkRuntime:
    spark: SparkSession
    home: Path
    manifest: Manifest
    plan: Orders
    after_commit: Callable[[Manifest], None] = lambda manifest: None
    check_input: Callable[[str, int, list[GatherReport]], None] = lambda group, batch, reports: None
    recent: list[TickTimes] = field(default_factory=list)
    driver_rows: int = 0  # up to so many rows of a tick are processed here, without tasks
    failure: WatersmeetError | None = None
    run: str = field(default_factory=lambda: secrets.token_hex(4))  # the name of this life of the engine

    def __post_init__(self) -> None:
        # Ticks of different streaming queries take turns: the tick number is the arrival order.
        self._turn = threading.Lock()
        # Held for moments only, so that a change of the plan need not wait for the running tick to end.
        self._handover = threading.Lock()
        self._finished = False
        self._results_a_row = 0.0  # of the last tick
        self._begun = self.manifest.tick
        self._waiting_since: float | None = None  # since when a change waits for a tick
        self._rules_file = RulesFile(self.home, self.run)
        self._off: frozenset[str] = frozenset()  # registered predicates that ran away, or ended their process
        if self.manifest.buckets and any(q.backfill and is_new(q, self.manifest) for q in self.plan.queries):
            self._waiting_since = time.monotonic()
        self.cores = int(self.spark.sparkContext.defaultParallelism)

    @property
    def next_tick(self) -> int:
        """The number of the next tick to begin."""
        with self._handover:
            return self._begun + 1

    def adopt(self, plan: Orders, record: Callable[[int], None] = lambda tick: None) -> int:
        """Obey another plan from the next tick that begins; returns its number, which `record` gets before that."""
        with self._handover:
            record(self._begun + 1)
            self.plan = plan
            self._waiting_since = time.monotonic()
            self._keep_off(self._off)
            return self._begun + 1

    def _keep_off(self, predicates: frozenset[str]) -> None:
        """A predicate stays off while some query calls it."""
        self._off = predicates & self.plan.rules.registered() if predicates else predicates

    def settle(self, idle: float) -> None:
        """Run a tick without rows where a change has waited `idle` seconds for a tick, because no data comes."""
        since = self._waiting_since
        if since is None or time.monotonic() - since < idle or not self._turn.acquire(blocking=idle == 0):
            return
        try:
            if self._waiting_since is not None and self.failure is None and not self._finished:
                self._try_tick("", 0, lambda tick: [])
        finally:
            self._turn.release()

    def finish(self) -> None:
        """Wait for the running tick to end; no other begins. A batch that comes now is left for the next start."""
        with self._turn:
            self._finished = True
            self._rules_file.remove()

    def run_frame(self, group: str, frame: DataFrame, batch: int) -> None:
        """One micro-batch of a streaming query, as Spark's foreachBatch calls it."""
        self._run_batch(group, batch, lambda tick: self._gather_frame(tick, frame))

    def run_files(self, group: str, files: Mapping[str, list[str]], batch: int) -> None:
        """One batch of streams that are folders: by stream, the paths of its new files."""
        self._run_batch(group, batch, lambda tick: self._gather_files(tick, files))

    def _run_batch(self, group: str, batch: int, gather: Gathering) -> None:
        with self._turn:
            if self._finished:  # an error, or Spark would write down that the batch is done
                raise RunError("the engine has stopped", hint="the batch is taken up at the next start")
            if self.failure is not None:
                raise self.failure
            last = self.manifest.batches.get(group, -1)
            if last >= batch:
                return  # committed before a crash that came before Spark wrote that down
            self._try_tick(group, batch, gather)

    def _try_tick(self, group: str, batch: int, gather: Gathering) -> None:
        try:
            last = self.manifest.batches.get(group, -1)
            if group and batch > last + 1:
                behind = f"they go on with batch {batch}, and the state ends with batch {last}"
                raise mixed(self.home / "checkpoints" / group, behind)
            self._run_tick(group, batch, gather)
        except Exception as problem:
            self.failure = explain_failure(problem, self.home)
            raise self.failure from problem

    def _run_tick(self, group: str, batch: int, gather: Gathering) -> None:
        with self._handover:
            plan = self.plan
            self._begun = self.manifest.tick + 1
            self._waiting_since = None
            off = self._off
        attempt = secrets.token_hex(4)
        tick = Tick(str(self.home), group, batch, attempt, plan.rules, plan.streams, plan.queries, self.manifest, off)
        began = time.perf_counter()
        self._rules_file.write(plan.rules)
        gathered = gather(tick)
        at_gathered = time.perf_counter()
        probed: list[ProbeReport] = []
        for phase in tick.phases():
            probed += self._probe(tick.probe_order(phase, gathered, probed, self.cores))
            raise_first(probed)
        with self._handover:
            self._keep_off(self._off.union(*(report.off for report in probed)))
        at_probed = time.perf_counter()
        manifest, garbage = tick.finished(gathered, probed)
        self._commit(manifest, garbage)
        gather_order_path(tick.home, self.run, group, batch).unlink(missing_ok=True)
        ended = time.perf_counter()
        rows = sum(count for report in gathered for name, count in report.counts.items() if name.startswith("rows/"))
        times = TickTimes(
            manifest.tick,
            rows,
            sum(file.rows for report in probed for file in report.results),
            at_gathered - began,
            at_probed - at_gathered,
            ended - at_probed,
            time.time(),
        )
        self.recent = [*self.recent[-999:], times]
        files = [file for report in probed for file in report.results]
        weighed = sum(file.rows * (_COUNTED if file.query == COUNTS else 1.0) for file in files)
        self._results_a_row = weighed / max(1, rows)
        self._log(times)

    def _gather_files(self, tick: Tick, files: Mapping[str, list[str]]) -> list[GatherReport]:
        work = share(files, self.cores)
        streams = {stream.name: stream for stream in tick.streams if stream.name in files}
        order, gather = tick.begin(), functools.partial(gather_files, streams=streams, work=work)
        gathered: list[GatherReport]
        if has_few_rows([piece for pieces in work for piece in pieces], self.driver_rows):
            gathered = [report for task in range(len(work)) for report in gather(order)(task, ())]
        else:
            tasks = self.spark.sparkContext.parallelize(range(len(work)), len(work))
            gathered = tasks.mapPartitionsWithIndex(obeying(gather, pack(order, self._rules_file))).collect()
        raise_first(gathered)
        refused = [(report.stream, report.refused) for report in gathered if report.refused]
        return gathered + [set_aside(self.home, stream, files) for stream, files in refused]

    def _gather_frame(self, tick: Tick, frame: DataFrame) -> list[GatherReport]:
        order = gather_order_path(tick.home, self.run, tick.group, tick.batch)
        write_whole(order, pack(tick.begin(), self._rules_file))
        gathered: list[GatherReport] = [pickle.loads(row.report) for row in frame.collect()]
        raise_first(gathered)
        self.check_input(tick.group, tick.batch, gathered)
        return gathered

    def _probe(self, order: ProbeOrder) -> list[ProbeReport]:
        if not order.work and not order.merges:
            return []
        if self._is_small(order):
            tasks = len(order.work) + len(order.merges)
            return [report for task in range(tasks) for report in probe_whole(order)(task, ())]
        context, sent = self.spark.sparkContext, pack(order, self._rules_file)
        if order.rules.partitions == 1:
            tasks = len(order.work) + len(order.merges)
            return context.parallelize(range(tasks), tasks).mapPartitionsWithIndex(obeying(probe_whole, sent)).collect()
        places = order.rules.partitions
        tasks = places + len(order.merges)
        blobs: Any = context.parallelize(range(tasks), tasks).mapPartitionsWithIndex(obeying(probe_first, sent))
        for _ in range(max(1, order.rules.depth(order.phase)) - 1):
            blobs = blobs.partitionBy(places, lambda place: place).mapPartitionsWithIndex(obeying(probe_next, sent))
        return [pickle.loads(data) for _, (_, data) in blobs.collect()]

    def _is_small(self, order: ProbeOrder) -> bool:
        """Whether the driver does the work itself, which takes less time than telling tasks to do it."""
        if order.rules.partitions > 1 or order.phase == 0:
            return False
        rows = sum(piece.end - piece.begin for pieces in order.work for piece in pieces)
        merged = sum(bucket.rows for job in order.merges for bucket in job.inputs)
        return rows <= self.driver_rows and max(merged, rows * self._results_a_row) <= _MANY * self.driver_rows

    def _log(self, times: TickTimes) -> None:
        path = self.home / TICK_LOG
        if path.exists() and path.stat().st_size > _LONGEST_LOG:
            path.replace(path.with_suffix(".old"))
        with path.open("a") as file:
            file.write(json.dumps(asdict(times)) + "\n")

    def _commit(self, manifest: Manifest, garbage: list[str]) -> None:
        commit(self.home, manifest)
        self.manifest = manifest
        publish(manifest.results)
        discard(self.home, garbage)
        self.after_commit(manifest)


def raise_first(reports: Sequence[GatherReport] | Sequence[ProbeReport]) -> None:
    for report in reports:
        if report.failure is not None:
            raise report.failure


def explain_failure(problem: Exception, home: Path) -> WatersmeetError:
    """Any failure of a tick as an error for a person."""
    if isinstance(problem, WatersmeetError):
        return problem
    from py4j.protocol import Py4JError, Py4JJavaError

    text = str(problem)
    if (isinstance(problem, OSError) and problem.errno == errno.ENOSPC) or "No space left on device" in text:
        return no_space(str(home))
    if isinstance(problem, ConnectionError | Py4JError) and not isinstance(problem, Py4JJavaError):
        return RunError(
            "Spark's Java process has ended",
            detail="The tick that was running was not committed; what was committed before is whole.",
            hint=f"was memory short (see spark.driver.memory)? Run again with the same home {home}: it goes on there",
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "Error" in line or "Exception" in line or line.startswith("[")]
    return RunError(
        "a tick failed; nothing of it was committed, and the next run repeats it",
        detail=(telling or lines or [type(problem).__name__])[0][:500],
        hint=f"correct the cause and run again with the same home {home}",
    )
