"""The Python API: an engine with streams and queries.

engine = watersmeet.Engine(home="auctions")
engine.stream("bids", spark.readStream…, time="at", lateness="5 seconds")
hot = engine.query("hot", "SELECT … FROM bids [RANGE 10 SECONDS] b, auctions [UNBOUNDED] a WHERE b.auction = a.id")
engine.start()
hot.results().show()
"""

from __future__ import annotations

import contextlib
import functools
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watersmeet.adapt.plan_keeper import PlanKeeper, first_plan
from watersmeet.control.change_log import append_entries, entries_of, recall
from watersmeet.control.changes import (
    Add,
    Asked,
    Change,
    Drop,
    InForce,
    Verdict,
    absolute_sink,
    no_query,
    not_written,
    staged,
)
from watersmeet.control.description import write_description
from watersmeet.control.mailbox import Mailbox
from watersmeet.control.server import ControlServer
from watersmeet.control.stats import Stats, collect_stats
from watersmeet.errors import ModelError, SqlError, WatersmeetError
from watersmeet.handle import QueryHandle
from watersmeet.home.manifest import Manifest, home_lock, load_newest
from watersmeet.home.recovery import check_positions, recover
from watersmeet.io.sinks import prepare_folder, result_folder
from watersmeet.io.sources import check_frame, columns_of
from watersmeet.model import Query, Registered, Sink, Stream
from watersmeet.optimize.statistics import Statistics
from watersmeet.options import read_options
from watersmeet.pipeline import Catalog, folder_of, path_in
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
from watersmeet.runtime.tick.failure import explain_failure, no_space
from watersmeet.runtime.udf.predicate_calls import complaints_in
from watersmeet.runtime.udf.registration import register
from watersmeet.session import make_session
from watersmeet.sql import CreateQuery, CreateStream, Statement, parse_duration, parse_script

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Engine:
    """Answers many continuous join queries over shared streams, keeping each stream once.

    `home` is the folder of all state and, by default, of the results; an engine that is started again on
    the same home goes on where it stopped. Options: see `watersmeet.options.Options`; a name with a dot,
    such as `**{"spark.driver.memory": "4g"}`, is a setting for the Spark session that the engine makes.
    """

    def __init__(self, spark: SparkSession | None = None, home: str | Path = "watersmeet-home", **options: Any) -> None:
        self.options, self._spark_settings = read_options(options)
        self.home = Path(home).absolute()
        self._spark = spark
        self._streams: dict[str, Stream] = {}
        self._frames: dict[str, DataFrame] = {}
        self._queries: dict[str, Query] = {}
        self._predicates: dict[str, Registered] = {}
        self._deliveries = Deliveries(self.home)
        self._loop: TickLoop | None = None  # from the start to the end, as are
        self._keeper: PlanKeeper  # what keeps the plan that the next tick obeys,
        self._feeds: Feeds  # and what gives it ticks to run
        self._held = contextlib.ExitStack()
        self._change = threading.RLock()
        self._mailbox = Mailbox(self.home)
        self._server: ControlServer | None = None
        self._recalled: set[str] | None = None  # queries that the log brought back; None before it was read

    # Streams and queries -------------------------------------------------------------------------

    def stream(
        self,
        name: str,
        source: DataFrame | Stream,
        *,
        time: str = "",
        lateness: str | timedelta | int = 0,
        retain: str | timedelta | int | None = 0,
    ) -> Stream:
        """Add a stream: any streaming DataFrame with its event-time column, or a declared Stream.

        `lateness` says how far behind the newest row a row may come: "5 seconds", a timedelta, or microseconds.
        `retain` says how long rows are kept even if no query needs them, so that later queries have history; None
        is for ever.
        """
        with self._change:
            if isinstance(source, Stream):
                stream = replace(source, name=name)
            else:
                check_frame(name, source)
                kept = None if retain is None else _micros(retain)
                stream = Stream(name, columns_of(source.schema), time, _micros(lateness), retain=kept)
            if name in self._streams:
                raise ModelError(f"there is already a stream named {name}", hint="choose another name")
            self._streams[name] = stream
            if not isinstance(source, Stream):
                self._frames[name] = source
            if self._is_running:
                self._keeper.obey(self._keeper.plan_for(self.streams, self._queries.values()))
                self._feeds.start(self._streams, self._frames, once=False)
            return stream

    def predicate(self, name: str, function: Callable[..., Any], *, by_row: bool = False) -> None:
        """Let queries call a function of Python by name, as a condition on rows of two aliases: WHERE near(a.x, b.y).

        It is given a NumPy array for each argument and answers with an array of booleans; with `by_row` it is given
        plain values, and answers with a bool. Rows with a NULL among the arguments are not asked about. Where it raises
        or answers with anything else it is false. Once it takes longer than the option `predicate_seconds`, or ends
        the process that it runs in, it is off: false for all rows until the engine starts again, or until the queries
        that call it are dropped and added anew. `stats` counts all this for the queries concerned, and `complaints`
        says why."""
        with self._change:
            if name.lower() in self._predicates:
                raise ModelError(f"there is already a predicate named {name}", hint="choose another name")
            made = register(name, function, by_row, self.options.predicate_seconds)
            self._predicates[name.lower()] = made

    @property
    def catalog(self) -> Catalog:
        """What queries are read against."""
        return Catalog(self._streams, self._predicates, self.options.max_aliases)

    def complaints(self) -> dict[str, str]:
        """For each registered predicate that has failed, why it did so last."""
        return complaints_in(self.home)

    def query(self, name: str, sql: str, sink: Sink | None = None, *, backfill: bool = False) -> QueryHandle:
        """Add a query. It is refused at once, with the place in the SQL, if anything about it is wrong.

        In a running engine it is in force from the next tick that begins (`since` of the handle) and sees what the
        stores hold. With `backfill`, its first tick also emits the results among rows that were stored before."""
        return self._add(self.catalog.query(name, sql, sink, backfill))

    def _add(self, query: Query) -> QueryHandle:
        with self._change:
            if query.name in (self._recalled or ()) and query.name in self._queries:
                # The same program ran before on this home and added it while running; now it does so again.
                present = self._queries[query.name]
                given = replace(query, since=present.since, addition=present.addition, sink=absolute_sink(query.sink))
                if given == present:
                    self._recalled = (self._recalled or set()) - {query.name}
                    return self[query.name]
            self._do(Add(query))
            return self[query.name]

    def drop(self, name: str) -> None:
        """Remove a query from the next tick on. Its results stay where they are."""
        self._do(Drop(name))

    def _do(self, change: Change) -> None:
        (verdict,) = self.apply([Asked(time.time(), (change,))])
        if isinstance(verdict, WatersmeetError):
            raise verdict

    def apply(self, requests: Sequence[Asked]) -> list[Verdict]:
        """Carry out requests for changes of the queries as one batch; for each, since when it is in force, or why not.

        A request that is wrong is refused alone. The others are planned once and are obeyed together, from the
        next tick that begins; if that cannot be done, all are refused and everything stays as it was."""
        with self._change:
            after: dict[str, Query] = self._queries
            verdicts: list[WatersmeetError | None] = []
            for asked in requests:
                try:
                    after = staged(after, asked.changes, self.home, self.options, self._loop is not None)
                    verdicts.append(None)
                except WatersmeetError as problem:
                    verdicts.append(problem)
            accepted = [asked for asked, refused in zip(requests, verdicts, strict=True) if refused is None]
            tick, now = 0, time.time()
            if accepted:
                try:
                    tick, now = self._put_in_force(after, accepted)
                except (WatersmeetError, OSError) as problem:
                    failure = problem if isinstance(problem, WatersmeetError) else not_written(self.home, problem)
                    verdicts = [refused or failure for refused in verdicts]
            return [refused or InForce(tick, now - asked.at) for asked, refused in zip(requests, verdicts, strict=True)]

    def _put_in_force(self, after: dict[str, Query], accepted: Sequence[Asked]) -> tuple[int, float]:
        """The first tick that obeys the changes, and the time at which that was fixed. Declared only: no tick, 0."""
        loop = self._loop
        if loop is not None:
            fresh = {name for name, query in after.items() if query is not self._queries.get(name)}
            since = loop.next_tick
            added = {name: replace(after[name], since=since, addition=secrets.token_hex(8)) for name in fresh}
            after = {**after, **added}
            plan = self._keeper.plan_for(self.streams, after.values())
            for name in fresh:
                self._prepare(after[name])
            recorded: list[float] = []

            def record(tick: int) -> None:
                recorded.append(time.time())
                append_entries(self.home, entries_of(accepted, after, tick, recorded[0]))

            tick = self._keeper.obey(plan, record)
            after = {n: replace(query, since=tick) if n in fresh else query for n, query in after.items()}
            with contextlib.suppress(OSError):  # only for people who look, and the change is in force
                write_description(self.home, after.values())
        for name in self._queries.keys() - after.keys():
            self._deliveries.forget(name)
        if self._recalled is not None:
            self._recalled &= {name for name, query in after.items() if query is self._queries.get(name)}
        self._queries = after
        return (tick, recorded[0]) if loop is not None else (0, time.time())

    def _prepare(self, query: Query) -> None:
        prepare_folder(result_folder(self.home, query.name, query.sink), query.sink, query.outputs)

    def sql(self, script: str, file: str | Path = "") -> list[QueryHandle]:
        """Run CREATE STREAM, CREATE QUERY and DROP QUERY statements; returns the queries created.

        Relative paths are relative to the folder of `file`, the script's file; without one, to the current folder.
        """
        created = [self.execute(statement) for statement in parse_script(script, str(file))]
        return [handle for handle in created if handle is not None]

    def execute(self, statement: Statement) -> QueryHandle | None:
        """Carry out one parsed statement; any error points at it."""
        folder = folder_of(statement.place.file)
        try:
            if isinstance(statement, CreateStream):
                self.stream(statement.stream.name, _source_in(folder, statement.stream))
            elif isinstance(statement, CreateQuery):
                return self._add(self.catalog.created_by(statement, folder))
            else:
                self.drop(statement.name)
        except ModelError as problem:
            raise SqlError(problem.problem, detail=problem.detail, hint=problem.hint, place=statement.place) from None
        return None

    def deliver_to(self, name: str, deliver: Callable[[DataFrame, int], None]) -> None:
        """See `QueryHandle.foreach_tick`."""
        self._deliveries.register(name, deliver)

    @property
    def _is_running(self) -> bool:
        return self._loop is not None and bool(self._feeds.running)

    def _known(self, name: str) -> Query:
        if name not in self._queries:
            raise no_query(name, self._queries)
        return self._queries[name]

    def __getitem__(self, name: str) -> QueryHandle:
        return QueryHandle(self, self._known(name))

    @property
    def streams(self) -> tuple[Stream, ...]:
        return tuple(self._streams.values())

    @property
    def queries(self) -> tuple[QueryHandle, ...]:
        return tuple(QueryHandle(self, query) for query in self._queries.values())

    @property
    def spark(self) -> SparkSession:
        if self._spark is None:
            self._spark = make_session(self.options.master or None, self._spark_settings, self.home / "spark.log")
        return self._spark

    # Running -------------------------------------------------------------------------------------

    def start(self, *, once: bool = False) -> Engine:
        """Begin to run ticks in the background, until `stop`, or with `once` until the sources hold nothing new."""
        try:
            with self._change:
                self._open()
                self._feeds.start(self._streams, self._frames, once)
                if self._server is None:
                    self._server = ControlServer(self, self._mailbox)
                    self._server.start()
        except Exception as problem:
            if "No space left on device" not in str(problem):
                raise
            self.stop()
            raise no_space(str(self.home)) from problem
        return self

    def run_once(self) -> Engine:
        """Run ticks until everything that the sources hold now is processed, then return."""
        self.start(once=True).wait()
        self._feeds.running.clear()
        return self

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all ticks have ended or failed (True), or the time is over (False). Raises what failed."""
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

    def settle(self, idle: float) -> None:
        """Let changes that have waited `idle` seconds for a tick take effect in a tick of their own."""
        loop = self._loop
        try:
            if loop is not None:
                loop.settle(idle)
        except WatersmeetError:  # kept as the loop's failure: whoever waits for the streams gets it
            self._feeds.stop()

    def stop(self) -> None:
        """Finish the tick that is running, then stop and give the home back. Nothing is lost."""
        if self._server is not None:
            self._server.stop()
            self._server = None
        if self._loop is not None:
            self._loop.finish()
            self._feeds.stop()
            self._feeds.running.clear()
            self._loop = None
        self._held.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _open(self) -> None:
        if self._loop is not None:
            return
        if not self._streams:
            raise ModelError("there is no stream to read", hint="declare one: CREATE STREAM … or engine.stream(…)")
        self._held.enter_context(home_lock(self.home))
        try:
            began = time.time()
            self._recall()
            folders = [result_folder(self.home, query.name, query.sink) for query in self._queries.values()]
            executor = self._make_executor()
            self._held.callback(executor.close)
            manifest = recover(self.home, folders, functools.partial(verify, executor))
            check_positions(self.home, manifest)
            for query in self._queries.values():
                self._prepare(query)
            groups = Groups(self.home)
            groups.join(self.streams)
            sample = Sampler(executor, self.home, manifest)
            plan = first_plan(self.home, manifest, self.streams, self._queries.values(), self.options, sample)
            loop = TickLoop(self.home, manifest, plan, executor)
            self._feeds = Feeds(loop, groups, self.options.tick, lambda: self.spark)
            self._deliveries.connect(executor, lambda: self.spark, lambda: self._queries)
            self._keeper = PlanKeeper(loop, plan, self.options, self._change)
            self._held.callback(self._keeper.follower.close)
            loop.observers += [self._deliveries, self._keeper.follower]
            self._loop = loop
            self._deliveries.committed(manifest)
            write_description(self.home, self._queries.values())
            self._mailbox.open(began)
        except BaseException:
            self._loop = None
            self._held.close()
            raise

    def _make_executor(self) -> Executor:
        if self.options.executor == "local":
            return LocalExecutor()
        return SparkExecutor(self.spark, self.home, self.options.residents, self.options.resident_seconds)

    def _recall(self) -> None:
        """Queries that were added or dropped while an earlier engine ran on this home stay added or dropped."""
        if self._recalled is None:
            self._queries, self._recalled = recall(self.home, self._queries, self.catalog)
        # The tick that was promised may never have been committed, and then the next one is the first.
        following = load_newest(self.home).tick + 1
        self._queries = {n: replace(query, since=min(query.since, following)) for n, query in self._queries.items()}

    # Looking -------------------------------------------------------------------------------------

    def explain(self) -> str:
        """The plan as text: its cost, its stores, and the probe trees with the queries that each step serves."""
        return explain(self.plan())

    def plan(self, statistics: Statistics | None = None) -> RenderedPlan:
        """The plan as a value, for `explain`, `draw` or JSON: the one in force, or the one that would be.

        With `statistics` it is the plan for data like that, whatever is running."""
        if statistics is None and self._loop is not None:
            return self._keeper.current.rendered(self._loop.manifest.totals)
        queries = tuple(self._queries.values())
        return make_plan(START, self.streams, queries, self.options, statistics or Statistics()).rendered()

    def stats(self) -> Stats:
        """Rows, results, state and the time of recent ticks."""
        recent = self._loop.recent if self._loop else []
        return collect_stats(self.newest, self.streams, tuple(self._queries), recent)

    @property
    def newest(self) -> Manifest:
        """What is committed."""
        loop = self._loop
        return loop.manifest if loop else load_newest(self.home)

    def __repr__(self) -> str:
        state = "running" if self._is_running else "stopped"
        return f"<Engine {self.home.name}: {len(self._streams)} streams, {len(self._queries)} queries, {state}>"


def _source_in(folder: str, stream: Stream) -> Stream:
    source = stream.source
    return replace(stream, source=replace(source, path=path_in(folder, source.path))) if source else stream


def _micros(length: str | timedelta | int) -> int:
    if isinstance(length, timedelta):
        return length // timedelta(microseconds=1)
    return parse_duration(length) if isinstance(length, str) else length
