"""The Python API: an engine that runs a pipeline.

engine = watersmeet.Engine(home="auctions")
engine.stream("bids", spark.readStream…, time="at", lateness="5 seconds")
hot = engine.query("hot", "SELECT … FROM bids [RANGE 10 SECONDS] b, auctions [UNBOUNDED] a WHERE b.auction = a.id")
engine.start()
hot.results().show()
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watersmeet.adapt.plan_keeper import PlanKeeper
from watersmeet.control.active_queries import ActiveQueries
from watersmeet.control.changes import Asked, Verdict
from watersmeet.control.description import describe
from watersmeet.control.mailbox import Mailbox
from watersmeet.control.server import ControlServer
from watersmeet.control.stats import Stats, collect_stats
from watersmeet.engine_failure import Failure
from watersmeet.errors import ModelError, WatersmeetError
from watersmeet.handle import QueryHandle
from watersmeet.home import layout
from watersmeet.home.location import home_at
from watersmeet.home.lock import home_lock
from watersmeet.home.manifest import Manifest, load_newest
from watersmeet.io.sources import check_frame, columns_of
from watersmeet.model import Sink, Stream
from watersmeet.model.stream import DAY
from watersmeet.optimize.statistics import Statistics
from watersmeet.options import read_options
from watersmeet.pipeline import Pipeline, folder_of, pointing_at, source_in
from watersmeet.plan.explain import explain
from watersmeet.plan.planner import START, make_plan
from watersmeet.plan.render import RenderedPlan
from watersmeet.running import open_home
from watersmeet.runtime.delivery import Deliveries
from watersmeet.runtime.exec.executor import Executor
from watersmeet.runtime.exec.local import LocalExecutor
from watersmeet.runtime.exec.spark import SparkExecutor
from watersmeet.runtime.feed.feed_set import Feeds
from watersmeet.runtime.loop import FOREVER, TickLoop
from watersmeet.runtime.outbox import Outbox
from watersmeet.runtime.tick.failure import is_full, no_space
from watersmeet.runtime.udf.predicate_calls import complaints_in
from watersmeet.session import check_session, check_settings, make_session
from watersmeet.sql import CreateQuery, CreateStream, Statement, micros, micros_or_none, parse_script
from watersmeet.worker_check import check_workers

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
        self.home = home_at(home)
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
        self._failure = Failure(self.home)
        self._is_given = spark is not None
        check_session(spark)

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
                limits = (micros_or_none(each) for each in (ahead, retain, idle))
                stream = Stream(name, columns_of(source.schema), time, micros(lateness), None, *limits)
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

    def start(self, *, once: bool = False, accept: bool = False) -> Engine:
        """Run ticks in the background until `stop`, or with `once` until the sources contain nothing new.

        A query or stream that is declared differently than at the last start on the home is rejected, unless `accept`
        is true: then it is another one from the next tick on."""
        if self.failure is not None:
            self.stop()
        is_open = self._loop is not None
        try:
            with self._active.changing:
                self._open(accept)
                self._feeds.start(self.pipeline.streams, self._frames, once)
                if self._server is None:
                    self._server = ControlServer(self, self._mailbox)
                    self._server.start()
        except Exception as problem:
            if not is_open or is_full(problem):
                with contextlib.suppress(WatersmeetError):  # what it could raise follows from this
                    self.stop()
            if is_full(problem):
                raise no_space(str(self.home)) from problem
            raise
        return self

    def run_once(self, *, flush: bool = False, accept: bool = False) -> Engine:
        """Run ticks until everything that the sources contain now is processed and delivered, then return.

        Windows that may still get rows stay open, and absences for which a partner may still come are undecided; with
        `flush` they are closed and decided now. What a target cannot be given stays in the outbox. `accept` as for
        `start`."""
        self.start(once=True, accept=accept).wait()
        if flush:
            self.flush()
        self._feeds.running.clear()
        self._outbox.drain(self.options.stop_seconds)
        self.settle(0)
        return self

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all ticks have ended or failed (True), or the timeout is over (False). Raises the failure."""
        end = time.monotonic() + (FOREVER if timeout is None else timeout)
        try:
            if self._loop is not None and not self._feeds.wait(timeout):
                return False
            self.settle(0, end)
        except Exception as problem:
            if self._loop is not None:
                self._loop.finish(self.options.stop_seconds)  # the tick that ran knows better what has failed
            self._failure.found((self._loop and self._loop.failure) or problem)
        if self.failure is not None:
            self.stop()
        elif self._loop is not None:
            return not self._loop.waits
        return True

    @property
    def failure(self) -> WatersmeetError | None:
        """What has ended the ticks, until the next start. The first of `wait`, `results` and `stop` raises it."""
        if self._loop is not None:
            runs = self._loop.runs  # a tick that runs will know better what has failed
            self._failure.found(self._loop.failure or (None if runs else self._feeds.problem))
        return self._failure.known

    def raise_failure(self) -> None:
        """Raise the failure, if there is one that was not raised yet."""
        if self.failure is not None:
            self._failure.tell()

    def flush(self) -> None:
        """Close all windows of windowed queries and decide all absences, as if no row would come any more."""
        if self._loop is not None:
            self._loop.flush()

    def settle(self, idle: float, until: float = FOREVER) -> None:
        """Activate changes that have waited `idle` seconds for a tick, in a tick of their own: `TickLoop.settle`."""
        loop = self._loop
        try:
            if loop is not None:
                with contextlib.suppress(WatersmeetError):  # ticks leave them out already; it is tried again
                    self._keeper.leave_out_suspended()
                loop.settle(idle, until)
        except WatersmeetError:  # also the loop's failure, which `wait` raises
            self._feeds.stop()

    def stop(self) -> None:
        """Finish the running tick, then stop and release the home. Nothing is lost.

        A tick that does not end within the option `stop_seconds` is given up: the next start repeats it. Raises the
        failure of the engine, unless it was raised already."""
        _ = self.failure  # before anything that only comes of the stop
        self._failure.stops()
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
        self.raise_failure()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with contextlib.suppress(*(() if kind is None else (WatersmeetError,))):  # it must not hide what was raised
            self.stop()

    def _open(self, accept: bool = False) -> None:
        if self._loop is not None:
            return
        if not self.streams:
            raise ModelError("the pipeline has no stream", hint="declare one: CREATE STREAM … or engine.stream(…)")
        if self._spark is not None:
            check_settings(self._spark)
        self._failure.forget()
        lock = self._held.enter_context(home_lock(self.home))
        try:
            began = time.time()
            self._active.check_owners(self._active.recall(accept))
            executor = self._make_executor()
            self._held.callback(executor.close)
            running = open_home(self._active, executor, self._deliveries, lambda: self.spark, lock)
            self._feeds, self._keeper, self._outbox = running.feeds, running.keeper, running.outbox
            self._held.callback(self._keeper.follower.close)
            self._loop = loop = running.loop
            self._outbox.committed(loop.manifest)
            self._deliveries.committed(loop.manifest)
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
        check_workers(self.spark, self._is_given)
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
        stats = collect_stats(self.home, self.newest, self.pipeline.streams, queries, recent, self._loop is not None)
        return replace(stats, failure=str(self.failure or ""))

    @property
    def newest(self) -> Manifest:
        """The manifest of the last committed tick."""
        loop = self._loop
        return loop.manifest if loop else load_newest(self.home)

    def __repr__(self) -> str:
        failed = f"failed: {self.failure.problem}" if self.failure is not None else ""
        state = failed or ("running" if self._is_running else "stopped")
        return f"<Engine {self.home.name}: {len(self.streams)} streams, {len(self.queries)} queries, {state}>"
