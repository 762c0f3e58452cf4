"""The Python API: an engine that runs a pipeline.

engine = watersmeet.Engine(home="auctions")
engine.stream("bids", spark.readStream…, time="at", lateness="5 seconds")
hot = engine.query("hot", "SELECT … FROM bids [RANGE 10 SECONDS] b, auctions [UNBOUNDED] a WHERE b.auction = a.id")
engine.start()
hot.results().show()
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watersmeet.adapt.founders_file import recall_founders
from watersmeet.adapt.plan_keeper import PlanKeeper, first_plan
from watersmeet.control.active_queries import ActiveQueries
from watersmeet.control.changes import Asked, Verdict
from watersmeet.control.description import describe
from watersmeet.control.mailbox import Mailbox
from watersmeet.control.server import ControlServer
from watersmeet.control.stats import Stats, collect_stats
from watersmeet.errors import ModelError, WatersmeetError
from watersmeet.handle import QueryHandle
from watersmeet.home import layout
from watersmeet.home.lock import home_lock
from watersmeet.home.manifest import Manifest, load_newest
from watersmeet.home.recovery import recover
from watersmeet.io.positions import check_positions
from watersmeet.io.sources import check_frame, columns_of
from watersmeet.model import Sink, Stream
from watersmeet.model.stream import DAY
from watersmeet.optimize.statistics import Statistics
from watersmeet.options import read_options
from watersmeet.pipeline import Pipeline, folder_of, pointing_at, source_in
from watersmeet.plan.explain import explain
from watersmeet.plan.planner import START, make_plan
from watersmeet.plan.render import RenderedPlan
from watersmeet.runtime.delivery import Deliveries
from watersmeet.runtime.exec.executor import Executor, Sampler, verify
from watersmeet.runtime.exec.local import LocalExecutor
from watersmeet.runtime.exec.spark import SparkExecutor
from watersmeet.runtime.feed.feed_set import Feeds
from watersmeet.runtime.feed.stream_groups import Groups
from watersmeet.runtime.loop import TickLoop
from watersmeet.runtime.outbox import Outbox
from watersmeet.runtime.tick.failure import explain_failure, is_full, no_space
from watersmeet.runtime.udf.predicate_calls import complaints_in
from watersmeet.session import check_settings, make_session
from watersmeet.sql import CreateQuery, CreateStream, Statement, parse_duration, parse_script

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Engine:
    """Runs many continuous join queries over shared streams; each stream is stored once.

    `home` is the folder of all state and, by default, of the results; an engine that starts again with the same home
    resumes where it stopped. Options: see `watersmeet.options.Options`; a name with a dot, such as
    `**{"spark.driver.memory": "4g"}`, is a setting for the Spark session that the engine creates.
    """

    def __init__(self, spark: SparkSession | None = None, home: str | Path = "watersmeet-home", **options: Any) -> None:
        self.options, self._spark_settings = read_options(options)
        self.home = Path(home).absolute()
        self._spark = spark
        self._active = ActiveQueries(Pipeline(self.options, self.home))
        self._frames: dict[str, DataFrame] = {}
        self._deliveries = Deliveries(self.home)
        self._loop: TickLoop | None = None  # while it runs, as are
        self._outbox: Outbox  # deliveries to targets,
        self._keeper: PlanKeeper  # the holder of the active plan
        self._feeds: Feeds  # and the feeds
        self._held = contextlib.ExitStack()
        self._mailbox = Mailbox(self.home)
        self._server: ControlServer | None = None

    # Streams, predicates and queries -------------------------------------------------------------

    def stream(
        self,
        name: str,
        source: DataFrame | Stream,
        *,
        time: str = "",
        lateness: str | timedelta | int = 0,
        ahead: str | timedelta | int | None = DAY,
        retain: str | timedelta | int | None = 0,
        idle: str | timedelta | int | None = None,
    ) -> Stream:
        """Add a stream: any streaming DataFrame with its event-time column, or a declared Stream.

        `lateness` is how far a row may be behind the newest row: "5 seconds", a timedelta, or microseconds.
        `ahead` is how far a row may be ahead of both the rows before it and the clock; None: no limit.
        `retain` is how long rows are retained even if no query needs them, so that later queries have history; None
        retains them for ever. `idle` is how long the stream may be silent before it stops holding back windows; None:
        for ever.
        """
        with self._active.changing:
            if isinstance(source, Stream):
                stream = replace(source, name=name)
            else:
                check_frame(name, source)
                columns, late = columns_of(source.schema), _micros(lateness)
                stream = Stream(
                    name,
                    columns,
                    time,
                    late,
                    None,
                    _micros_or_none(ahead),
                    _micros_or_none(retain),
                    _micros_or_none(idle),
                )
            self._active.pipeline = self.pipeline.with_stream(stream)
            if not isinstance(source, Stream):
                self._frames[name] = source
            if self._is_running:
                self._keeper.obey(self._keeper.plan_for(self.streams, self._active.queries))
                self._feeds.start(self.pipeline.streams, self._frames, once=False)
            return stream

    def predicate(self, name: str, function: Callable[..., Any], *, by_row: bool = False) -> None:
        """Let queries call a Python function by name, as a condition on rows of two aliases: WHERE near(a.x, b.y).

        The function receives a NumPy array for each argument and returns an array of booleans; with `by_row` it
        receives plain values and returns a bool. It is not called for rows with a NULL among the arguments. It is
        false where it raises or returns anything else. If it takes longer than the option `predicate_seconds`, or ends
        its process, it is disabled: false for all rows until the engine starts again, or until the queries that call it
        are dropped and added again. `stats` counts the rows for the queries concerned, `complaints` has the reasons."""
        with self._active.changing:
            self._active.pipeline = self.pipeline.with_predicate(name, function, by_row)

    def complaints(self) -> dict[str, str]:
        """For each registered predicate that has failed, its last failure."""
        return complaints_in(self.home)

    def query(self, name: str, sql: str, sink: Sink | None = None, *, backfill: bool = False) -> QueryHandle:
        """Add a query. An invalid query is rejected at once, with the position in the SQL.

        In a running engine it is active from the next tick that begins (`since` of the handle) and sees the
        stored rows. With `backfill`, its first tick also emits the results among rows that were stored before."""
        self._active.add(self.pipeline.query(name, sql, sink, backfill))
        return self[name]

    def drop(self, name: str) -> None:
        """Drop a query from the next tick on. Its result files stay."""
        with self._active.changing:
            self._active.drop(name)
            self._deliveries.forget(name)

    def resume(self, *names: str) -> str:
        """Resume suspended queries from the next tick on; returns of which ticks results are missing."""
        return self._active.resume(names).text

    def apply(self, requests: Sequence[Asked]) -> list[Verdict]:
        """Execute requests of other processes; see `ActiveQueries.apply`."""
        with self._active.changing:
            before = set(self.pipeline.queries)
            verdicts = self._active.apply(requests)
            for name in before - set(self.pipeline.queries):
                self._deliveries.forget(name)
            return verdicts

    def sql(self, script: str, file: str | Path = "") -> list[QueryHandle]:
        """Run CREATE STREAM, CREATE QUERY and DROP QUERY statements; returns the queries created.

        Relative paths are relative to the folder of `file`, the script's file; without one, to the current folder.
        """
        created = [self._execute(statement) for statement in parse_script(script, str(file))]
        return [handle for handle in created if handle is not None]

    def _execute(self, statement: Statement) -> QueryHandle | None:
        folder = folder_of(statement.place.file)
        with pointing_at(statement.place):
            if isinstance(statement, CreateStream):
                self.stream(statement.stream.name, source_in(folder, statement.stream))
            elif isinstance(statement, CreateQuery):
                self._active.add(self.pipeline.created_by(statement, folder))
                return self[statement.name]
            else:
                self.drop(statement.name)
        return None

    def deliver_to(self, name: str, deliver: Callable[[DataFrame, int], None]) -> None:
        """See `QueryHandle.foreach_tick`."""
        self._deliveries.register(name, deliver)

    @property
    def pipeline(self) -> Pipeline:
        """Streams, queries and predicates as they are now."""
        return self._active.pipeline

    @property
    def streams(self) -> tuple[Stream, ...]:
        return tuple(self.pipeline.streams.values())

    @property
    def queries(self) -> tuple[QueryHandle, ...]:
        return tuple(QueryHandle(self, query) for query in self._active.queries)

    def __getitem__(self, name: str) -> QueryHandle:
        return QueryHandle(self, self.pipeline.known_query(name))

    @property
    def spark(self) -> SparkSession:
        if self._spark is None:
            self._spark = make_session(self.options.master or None, self._spark_settings, self.home / layout.SPARK_LOG)
            check_settings(self._spark)
        return self._spark

    # Running -------------------------------------------------------------------------------------

    @property
    def _is_running(self) -> bool:
        return self._loop is not None and bool(self._feeds.running)

    def start(self, *, once: bool = False) -> Engine:
        """Run ticks in the background until `stop`, or with `once` until the sources contain nothing new."""
        try:
            with self._active.changing:
                self._open()
                self._feeds.start(self.pipeline.streams, self._frames, once)
                if self._server is None:
                    self._server = ControlServer(self, self._mailbox)
                    self._server.start()
        except Exception as problem:
            if not is_full(problem):
                raise
            self.stop()
            raise no_space(str(self.home)) from problem
        return self

    def run_once(self, *, flush: bool = False) -> Engine:
        """Run ticks until everything that the sources contain now is processed and delivered, then return.

        Windows that may still get rows stay open, and the next run closes them; with `flush` they are closed now. What
        a target cannot be given stays in the outbox."""
        self.start(once=True).wait()
        if flush:
            self.flush()
        self._feeds.running.clear()
        self._outbox.drain(self.options.stop_seconds)
        self.settle(0)
        return self

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all ticks have ended or failed (True), or the timeout is over (False). Raises the failure."""
        try:
            if self._loop is not None and not self._feeds.wait(timeout):
                return False
        except Exception as problem:
            failure = self._loop.failure if self._loop else None
            self.stop()
            raise (failure or explain_failure(problem, self.home)) from None
        if self._loop is not None:
            self.settle(0)
            if failure := self._loop.failure:
                self.stop()
                raise failure
        return True

    def flush(self) -> None:
        """Close all windows of windowed queries, as if no row would come for them any more."""
        if self._loop is not None:
            self._loop.flush()

    def settle(self, idle: float) -> None:
        """Activate changes that have waited `idle` seconds for a tick, in a tick of their own."""
        loop = self._loop
        try:
            if loop is not None:
                with contextlib.suppress(WatersmeetError):  # ticks leave them out already; it is tried again
                    self._keeper.leave_out_suspended()
                loop.settle(idle)
        except WatersmeetError:  # also the loop's failure, which `wait` raises
            self._feeds.stop()

    def stop(self) -> None:
        """Finish the running tick, then stop and release the home. Nothing is lost.

        A tick that does not end within the option `stop_seconds` is given up: the next start repeats it."""
        if self._server is not None:
            self._server.stop()
            self._server = None
        if self._loop is not None:
            self._loop.finish(self.options.stop_seconds)
            self._feeds.stop()
            self._feeds.running.clear()
            self._outbox.close(self.options.stop_seconds)
            self._loop = None
            self._active.run_on(None)
            self._deliveries.disconnect()
        self._held.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _open(self) -> None:
        if self._loop is not None:
            return
        if not self.streams:
            raise ModelError("the pipeline has no stream", hint="declare one: CREATE STREAM … or engine.stream(…)")
        if self._spark is not None:
            check_settings(self._spark)
        self._held.enter_context(home_lock(self.home))
        try:
            began = time.time()
            self._active.recall()
            queries = self._active.queries
            executor = self._make_executor()
            self._held.callback(executor.close)
            folders = [self.pipeline.folder_of(query) for query in queries]
            manifest = recover(self.home, folders, functools.partial(verify, executor))
            check_positions(self.home, manifest)
            troubled = self._active.prepare_all()
            groups = Groups(self.home)
            groups.join(self.streams)
            sample = Sampler(executor, self.home, manifest)
            founders = recall_founders(self.home, self.pipeline.query)
            plan, slow = first_plan(self.home, manifest, self.streams, queries, self.options, sample, founders)
            loop = TickLoop(self.home, manifest, plan, executor, self.options.stop_seconds)
            self._feeds = Feeds(loop, groups, self.options, lambda: self.spark)
            for name, reason in {**troubled, **slow}.items():
                loop.suspend(name, reason)
            self._deliveries.connect(
                executor, lambda: self.spark, lambda: self.pipeline.queries, loop.suspend, lambda: loop.manifest
            )
            self._keeper = PlanKeeper(loop, plan, self.options, self._active.changing)
            self._held.callback(self._keeper.follower.close)
            self._outbox = Outbox(self.home, executor, loop.suspend, self.options.max_outbox_ticks)
            loop.delivered = self._outbox.delivered
            loop.observers += [self._outbox, self._deliveries, self._keeper.follower]
            self._loop = loop
            self._outbox.committed(loop.manifest)
            self._deliveries.committed(manifest)
            self._active.run_on(self._keeper)
            self._mailbox.open(began)
        except BaseException:
            self._loop = None
            self._active.run_on(None)
            self._held.close()
            raise

    def _make_executor(self) -> Executor:
        if self.options.executor == "local":
            return LocalExecutor()
        return SparkExecutor(self.spark, self.home, self.options.residents, self.options.resident_seconds)

    # Inspecting ----------------------------------------------------------------------------------

    def explain(self) -> str:
        """The plan as text: its cost, its stores, and the probe trees with the queries that each step serves."""
        return explain(self.plan())

    def plan(self, statistics: Statistics | None = None) -> RenderedPlan:
        """The plan as a value, for `explain`, `draw` or JSON: the active one, or before the start the first one.

        With `statistics` it is the plan for such data, whether the engine runs or not."""
        if statistics is None and self._loop is not None:
            return self._keeper.current.rendered(self._loop.manifest.totals)
        return make_plan(START, self.streams, self._active.queries, self.options, statistics or Statistics()).rendered()

    def stats(self) -> Stats:
        """Counts of rows, results, failed values and rows set aside, the state, and the durations of recent ticks."""
        recent = self._loop.recent if self._loop else []
        queries = describe(self.home, self._active.queries)
        return collect_stats(self.home, self.newest, self.pipeline.streams, queries, recent, self._loop is not None)

    @property
    def newest(self) -> Manifest:
        """The manifest of the last committed tick."""
        loop = self._loop
        return loop.manifest if loop else load_newest(self.home)

    def __repr__(self) -> str:
        state = "running" if self._is_running else "stopped"
        return f"<Engine {self.home.name}: {len(self.streams)} streams, {len(self.queries)} queries, {state}>"


def _micros(length: str | timedelta | int) -> int:
    if isinstance(length, timedelta):
        return length // timedelta(microseconds=1)
    return parse_duration(length) if isinstance(length, str) else length


def _micros_or_none(length: str | timedelta | int | None) -> int | None:
    return None if length is None else _micros(length)
