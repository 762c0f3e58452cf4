"""The life of an engine: how it starts, runs ticks, fails and stops, and the state of it that its parts have in common.

`Engine` adds what a user declares and what is shown. What a start puts together is in `running`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from watersmeet.adapt.plan_keeper import PlanKeeper
from watersmeet.control.active_queries import ActiveQueries
from watersmeet.control.changes import ChangeRequest, Verdict
from watersmeet.control.mailbox import Mailbox
from watersmeet.control.server import ControlServer
from watersmeet.engine_failure import Failure
from watersmeet.errors import ModelError, WatersmeetError
from watersmeet.home import layout
from watersmeet.home.location import home_at
from watersmeet.home.lock import home_lock
from watersmeet.home.manifest import Manifest, load_newest
from watersmeet.interrupts import restore, spare_jobs
from watersmeet.optimize.statistics import Statistics
from watersmeet.options import read_options
from watersmeet.pipeline import Pipeline
from watersmeet.plan.planner import START, make_plan
from watersmeet.plan.rendered import RenderedPlan
from watersmeet.running import make_executor, open_home
from watersmeet.runtime.delivery import Deliveries
from watersmeet.runtime.feed.feed_set import Feeds
from watersmeet.runtime.loop import FOREVER, TickLoop
from watersmeet.runtime.outbox import Outbox
from watersmeet.runtime.tick.failure import is_full, no_space
from watersmeet.session import check_session, check_settings, make_session, session_problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOOK = 1.0  # seconds between two looks at what could end a wait


class Lifecycle:
    """What an engine has while it runs, and the methods that begin and end that."""

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

    # Running -------------------------------------------------------------------------------------

    @property
    def _is_running(self) -> bool:
        return self._loop is not None and bool(self._feeds.running)

    def start(self, *, once: bool = False, accept: bool = False) -> Self:
        """Run ticks in the background until `stop`. A second call does nothing to an engine that runs.

        Args:
            once: run only until the sources contain nothing new.
            accept: accept queries and streams that are declared differently than at the last start on the home. Each of
                them is a new one from the next tick on.

        Returns:
            The engine.

        Raises:
            ModelError: there is no stream.
            StateError: the home is in use, damaged or of a newer version, or a declaration differs without `accept`.
            RunError: the Spark session cannot be used; the message names the setting and how to change it.

        Example:
            >>> engine.start()
            <Engine home: 1 stream, 1 query, running>
            >>> engine.stop()
        """
        if self.failure is not None:
            self.stop()
        is_open = self._loop is not None
        try:
            with self._active.changing:
                self._open(accept)
                self._feeds.start(self.pipeline.streams, self._frames, once)
                spare_jobs(self)  # by now there is a session, if there will be one
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

    def run_once(self, *, flush: bool = False, accept: bool = False) -> Self:
        """Run ticks until everything that the sources contain now is processed and delivered, then return.

        The engine keeps the home until `stop`, and another call processes what has arrived since.

        Args:
            flush: then call `flush`.
            accept: as for `start`.

        Returns:
            The engine.

        Raises:
            WatersmeetError: as `start`, and the failure of a tick. What cannot be delivered to a target outside is no
                failure: it stays in the outbox.

        Example:
            >>> engine.run_once().stats().tick
            1
        """
        self.start(once=True, accept=accept).wait()
        if flush:
            self.flush()
        self._feeds.running.clear()
        self._outbox.drain(self.options.stop_seconds)
        self.settle(0)
        return self

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all ticks have ended. An interrupt (Ctrl-C) ends the wait, not the engine.

        Args:
            timeout: the most seconds to wait; None: no limit. An engine that was started without `once` does not end by
                itself.

        Returns:
            True if all ticks have ended, False if the time is over.

        Raises:
            WatersmeetError: the failure that has ended the ticks, unless it was raised already.

        Example:
            >>> engine.start(once=True).wait()
            True
        """
        end = time.monotonic() + (FOREVER if timeout is None else timeout)
        try:
            while self._loop is not None and not self._feeds.wait(min(_LOOK, max(0.0, end - time.monotonic()))):
                if self.failure is not None:  # a session that was stopped, which no feed need notice
                    break
                if time.monotonic() >= end:
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
        """What has ended the ticks, until the next start; None if nothing has.

        The first of `wait`, `results`, `run_once` and `stop` raises it.

        Example:
            >>> engine.failure is None
            True
        """
        if self._loop is not None:
            runs = self._loop.runs  # a tick that runs will know better what has failed
            # Before what feeds fail with because of it; and without a tick nobody has met it yet.
            stopped = session_problem(self._spark) if self.options.executor == "spark" else None
            self._failure.found(self._loop.failure or stopped or (None if runs else self._feeds.problem))
        return self._failure.known

    def raise_failure(self) -> None:
        """Internal: raise the failure, if there is one that was not raised yet."""
        if self.failure is not None:
            self._failure.tell()

    def flush(self) -> None:
        """Close all windows of windowed queries and decide all absences, as if no row would come any more.

        Does nothing in an engine that is stopped.

        Raises:
            WatersmeetError: the tick that closes them has failed.

        Example:
            >>> busy = engine.query("busy", "SELECT count(*) AS bids FROM bids [TUMBLE 1 MINUTE]")
            >>> engine.run_once().flush()
            >>> busy.results().toPandas().bids.tolist()
            [3]
        """
        if self._loop is not None:
            self._loop.flush()

    def settle(self, idle: float, until: float = FOREVER) -> None:
        """Internal: activate changes that have waited `idle` seconds for a tick, in a tick of their own."""
        loop = self._loop
        try:
            if loop is not None:
                with contextlib.suppress(WatersmeetError):  # ticks leave them out already; it is tried again
                    self._keeper.catch_up()
                loop.settle(idle, until)
        except WatersmeetError:  # also the loop's failure, which `wait` raises
            self._feeds.stop()

    def stop(self) -> None:
        """Finish the running tick, then stop and release the home. Nothing is lost.

        A tick that does not end within the option `stop_seconds` is given up: the next start repeats it. The Spark
        session is not stopped.

        Raises:
            WatersmeetError: the failure that has ended the ticks, unless it was raised already.

        Example:
            >>> engine.start().stop()
            >>> engine
            <Engine home: 1 stream, 1 query, stopped>
        """
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
        restore(self)
        self.raise_failure()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with contextlib.suppress(*(() if kind is None else (WatersmeetError,))):  # it must not hide what was raised
            self.stop()

    def _open(self, accept: bool = False) -> None:
        if self._loop is not None:
            return
        if not self.pipeline.streams:
            raise ModelError("the pipeline has no stream", hint="declare one: CREATE STREAM … or engine.stream(…)")
        if self._spark is not None:
            check_settings(self.spark)
        self._failure.forget()
        lock = self._held.enter_context(home_lock(self.home))
        try:
            began = time.time()
            self._active.check_owners(self._active.recall(accept))
            executor = make_executor(self.options, self.home, lambda: self.spark, self._is_given)
            self._held.callback(executor.close)
            opened = open_home(self._active, executor, self._deliveries, lambda: self.spark, lock)
            loop, self._feeds, self._keeper, self._outbox = opened
            self._held.callback(self._keeper.follower.close)
            self._loop = loop
            self._outbox.committed(loop.manifest)
            self._deliveries.committed(loop.manifest)
            self._active.run_on(self._keeper)
            self._mailbox.open(began)
        except BaseException:
            self._loop = None
            self._active.run_on(None)
            self._held.close()
            raise

    # What runs -------------------------------------------------------------------------------------

    @property
    def pipeline(self) -> Pipeline:
        """Internal: streams, queries and predicates as they are now."""
        return self._active.pipeline

    @property
    def spark(self) -> SparkSession:
        """The Spark session: the one that was given, or one that the engine creates when this is first asked for.

        Example:
            >>> engine.spark is spark
            True
        """
        if self._spark is None:
            self._spark = make_session(self.options.master or None, self._spark_settings, self.home / layout.SPARK_LOG)
            check_settings(self._spark)
        check_session(self._spark)  # it may have been stopped since
        return self._spark

    @property
    def newest(self) -> Manifest:
        """Internal: the manifest of the last committed tick."""
        loop = self._loop
        return loop.manifest if loop else load_newest(self.home)

    def plan(self, statistics: Statistics | None = None) -> RenderedPlan:
        """The plan as a value, for programs: the active one, or before the start the first one.

        Args:
            statistics: plan for such data instead, whether the engine runs or not.

        Returns:
            The plan; `plan.as_json()` is what `watersmeet explain --format json` prints.

        Raises:
            WatersmeetError: no plan exists within the options, such as `storage_budget`.

        Example:
            >>> [store.name for store in engine.plan().stores]
            ['bids']
        """
        if statistics is None and self._loop is not None:
            return self._keeper.rendered()
        streams = tuple(self.pipeline.streams.values())
        return make_plan(START, streams, self._active.queries, self.options, statistics or Statistics()).rendered()

    def apply(self, requests: Sequence[ChangeRequest]) -> list[Verdict]:
        """Internal: execute requests of other processes; see `ActiveQueries.apply`."""
        with self._active.changing:
            before = set(self.pipeline.queries)
            verdicts = self._active.apply(requests)
            for name in before - set(self.pipeline.queries):
                self._deliveries.forget(name)
            return verdicts
