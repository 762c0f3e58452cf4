"""The Python API: an engine with streams and queries.

engine = watersmeet.Engine(home="auctions")
engine.stream("bids", spark.readStream…, time="at", lateness="5 seconds")
hot = engine.query("hot", "SELECT … FROM bids [RANGE 10 SECONDS] b, auctions [UNBOUNDED] a WHERE b.auction = a.id")
engine.start()
hot.results().show()
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watersmeet.adapt.follow import first_statistics, follow
from watersmeet.errors import ModelError, Place, SqlError
from watersmeet.io.sinks import check_sink, extension, prepare_folder, result_folder, result_schema
from watersmeet.io.sources import check_frame, columns_of, open_source
from watersmeet.model import Query, Sink, Stream
from watersmeet.optimize.statistics import Statistics
from watersmeet.options import read_options
from watersmeet.plan.explain import explain
from watersmeet.plan.render import RenderedPlan
from watersmeet.planning import Plan, make_plan
from watersmeet.runtime.deliver import Deliveries
from watersmeet.runtime.groups import Groups
from watersmeet.runtime.home import check_positions, recover
from watersmeet.runtime.input import InputCheck
from watersmeet.runtime.spark import SparkRuntime, explain_failure
from watersmeet.runtime.worker import REPORT_SCHEMA, make_gather, no_space
from watersmeet.session import make_session
from watersmeet.sql import CreateQuery, CreateStream, Statement, build_query, parse_duration, parse_script
from watersmeet.stats import Stats, collect_stats
from watersmeet.store.manifest import Manifest, home_lock, load_newest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


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
        self._deliveries = Deliveries(self.home)
        self._runtime: SparkRuntime | None = None
        self._running: dict[str, StreamingQuery] = {}
        self._held = contextlib.ExitStack()
        self._change = threading.RLock()

    # Streams and queries -------------------------------------------------------------------------

    def stream(
        self, name: str, source: DataFrame | Stream, *, time: str = "", lateness: str | timedelta | int = 0
    ) -> Stream:
        """Add a stream: any streaming DataFrame with its event-time column, or a declared Stream.

        `lateness` says how far behind the newest row a row may come: "5 seconds", a timedelta, or microseconds.
        """
        with self._change:
            if isinstance(source, Stream):
                stream = replace(source, name=name)
            else:
                check_frame(name, source)
                stream = Stream(name, columns_of(source.schema), time, _micros(lateness))
            if name in self._streams:
                raise ModelError(f"there is already a stream named {name}", hint="choose another name")
            self._streams[name] = stream
            if not isinstance(source, Stream):
                self._frames[name] = source
            if self._running:
                self._replan()
                self._start_groups(once=False)
            return stream

    def query(self, name: str, sql: str, sink: Sink | None = None) -> QueryHandle:
        """Add a query. It is refused at once, with the place in the SQL, if anything about it is wrong."""
        return self._add(name, build_query(name, sql, self._streams, sink or Sink()))

    def _add(self, name: str, query: Query) -> QueryHandle:
        with self._change:
            if name in self._queries:
                raise ModelError(f"there is already a query named {name}", hint=f"drop it first: DROP QUERY {name}")
            if query.sink.path:
                query = replace(query, sink=replace(query.sink, path=str(Path(query.sink.path).absolute())))
            check_sink(name, query.sink)
            folder = result_folder(self.home, name, query.sink)
            for other in self._queries.values():
                if result_folder(self.home, other.name, other.sink) == folder:
                    raise ModelError(f"query {name} would write into the folder of query {other.name}: {folder}")
            if self._runtime is not None:
                prepare_folder(folder, query.sink, query.outputs)
            self._queries[name] = query
            self._replan()
            return QueryHandle(self, query)

    def drop(self, name: str) -> None:
        """Remove a query from the next tick on. Its results stay where they are."""
        with self._change:
            self._known(name)
            del self._queries[name]
            self._deliveries.forget(name)
            self._replan()

    def sql(self, script: str, file: str | Path = "") -> list[QueryHandle]:
        """Run CREATE STREAM, CREATE QUERY and DROP QUERY statements; returns the queries created.

        Relative paths are relative to the folder of `file`, the script's file; without one, to the current folder.
        """
        created = [self.execute(statement) for statement in parse_script(script, str(file))]
        return [handle for handle in created if handle is not None]

    def execute(self, statement: Statement) -> QueryHandle | None:
        """Carry out one parsed statement; any error points at it."""
        file = statement.place.file
        try:
            if isinstance(statement, CreateStream):
                self.stream(statement.stream.name, _source_beside(file, statement.stream))
            elif isinstance(statement, CreateQuery):
                sink = replace(statement.sink, path=statement.sink.path and path_beside(file, statement.sink.path))
                query = build_query(statement.name, statement.select, self._streams, sink, origin=_origin(statement))
                return self._add(statement.name, query)
            else:
                self.drop(statement.name)
        except ModelError as problem:
            raise SqlError(problem.problem, detail=problem.detail, hint=problem.hint, place=statement.place) from None
        return None

    def _known(self, name: str) -> Query:
        if name not in self._queries:
            listed = ", ".join(sorted(self._queries)) or "none"
            raise ModelError(f"there is no query named {name}", detail=f"Queries: {listed}.")
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
        with self._change:
            try:
                self._open()
                self._start_groups(once)
            except Exception as problem:
                if "No space left on device" not in str(problem):
                    raise
                self.stop()
                raise no_space(str(self.home)) from problem
        return self

    def run_once(self) -> Engine:
        """Run ticks until everything that the sources hold now is processed, then return."""
        self.start(once=True).wait()
        self._running.clear()
        return self

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all ticks have ended or failed (True), or the time is over (False). Raises what failed."""
        for running in list(self._running.values()):
            try:
                done = running.awaitTermination() if timeout is None else running.awaitTermination(int(timeout))
            except Exception as problem:
                failure = self._runtime.failure if self._runtime else None
                self.stop()
                raise (failure or explain_failure(problem, self.home)) from None
            if done is False:
                return False
        return True

    def stop(self) -> None:
        """Finish the tick that is running, then stop and give the home back. Nothing is lost."""
        from py4j.protocol import Py4JNetworkError

        with contextlib.ExitStack() as finish:
            if self._runtime is not None:
                finish.enter_context(self._runtime.between_ticks())
            for running in self._running.values():
                with contextlib.suppress(Py4JNetworkError, OSError):  # Spark's Java process is gone, and the query too
                    running.stop()
            self._running.clear()
        self._runtime = None
        self._held.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _open(self) -> None:
        if self._runtime is not None:
            return
        if not self._streams:
            raise ModelError("there is no stream to read", hint="declare one: CREATE STREAM … or engine.stream(…)")
        self._held.enter_context(home_lock(self.home))
        try:
            folders = [result_folder(self.home, query.name, query.sink) for query in self._queries.values()]
            manifest = recover(self.home, folders)
            check_positions(self.home, manifest)
            for query, folder in zip(self._queries.values(), folders, strict=True):
                prepare_folder(folder, query.sink, query.outputs)
            self._groups = Groups(self.home)
            self._groups.join(self.streams)
            self._current = self._plan(manifest)
            self._runtime = SparkRuntime(
                self.spark,
                self.home,
                manifest,
                self._current,
                check_input=InputCheck(self.home, self._streams, self._groups),
            )
            self._deliveries.connect(self.spark, lambda: self._queries)
            self._runtime.after_commit = self._deliveries.deliver
            self._follower = follow(self._runtime, self.options, lambda: self._current, self._take)
            self._held.callback(self._follower.close)
            self._deliveries.deliver(manifest)
        except BaseException:
            self._runtime = None
            self._held.close()
            raise

    def _plan(self, manifest: Manifest) -> Plan:
        known = first_statistics(self.home, manifest)
        return make_plan(self.streams, tuple(self._queries.values()), self.options, known)

    def _replan(self) -> None:
        """Let the next tick obey the streams and queries as they are now."""
        if self._runtime is not None:
            queries, known, before = tuple(self._queries.values()), self._follower.statistics, self._current
            quick = self.options.adaptive == "on"  # the next epoch finds a better one
            self._current = self._runtime.plan = make_plan(self.streams, queries, self.options, known, before, quick)
            self._follower.changed(before)

    def _take(self, plan: Plan, reason: str) -> bool:
        """Let the next tick obey a plan that was made for the queries as they were, if they still are."""
        if not self._change.acquire(blocking=False):
            return False
        try:
            if self._runtime is None or (plan.streams, plan.queries) != (self.streams, tuple(self._queries.values())):
                return False
            self._current = self._runtime.plan = plan
            return True
        finally:
            self._change.release()

    def _start_groups(self, once: bool) -> None:
        """One streaming query for the streams declared together, another for those that came later."""
        assert self._runtime is not None
        self._groups.join(self.streams)
        for group, members in self._groups.members().items():
            if group not in self._running:
                self._running[group] = self._start_group(group, members, once)

    def _start_group(self, group: str, members: list[str], once: bool) -> StreamingQuery:
        runtime = self._runtime
        assert runtime is not None
        parts = []
        for name in members:
            stream = self._streams[name]
            frame = self._frames.get(name)
            if frame is None:
                frame = open_source(self.spark, stream)
            parts.append(frame.mapInArrow(make_gather(str(self.home), runtime.run, group, stream), REPORT_SCHEMA))
        union = parts[0]
        for part in parts[1:]:
            union = union.union(part)
        writer = union.writeStream.foreachBatch(lambda frame, batch: runtime.run_batch(group, frame, batch))
        writer = writer.option("checkpointLocation", str(self.home / "checkpoints" / group))
        trigger = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=self.options.tick)
        return trigger.start()

    # Looking -------------------------------------------------------------------------------------

    def explain(self) -> str:
        """The plan as text: its cost, its stores, and the probe trees with the queries that each step serves."""
        return explain(self.plan())

    def plan(self, statistics: Statistics | None = None) -> RenderedPlan:
        """The plan as a value, for `explain`, `draw` or JSON: the one in force, or the one that would be.

        With `statistics` it is the plan for data like that, whatever is running."""
        if statistics is None and self._runtime is not None:
            return self._current.rendered(self._runtime.manifest.totals)
        queries = tuple(self._queries.values())
        return make_plan(self.streams, queries, self.options, statistics or Statistics()).rendered()

    def stats(self) -> Stats:
        """Rows, results, state and the time of recent ticks."""
        runtime = self._runtime
        manifest = runtime.manifest if runtime else load_newest(self.home)
        return collect_stats(manifest, self.streams, tuple(self._queries), runtime.recent if runtime else [])

    def __repr__(self) -> str:
        state = "running" if self._running else "stopped"
        return f"<Engine {self.home.name}: {len(self._streams)} streams, {len(self._queries)} queries, {state}>"


class QueryHandle:
    """One query of an engine, and its results."""

    def __init__(self, engine: Engine, query: Query) -> None:
        self._engine = engine
        self.query = query
        self.name = query.name
        self.folder = result_folder(engine.home, query.name, query.sink)

    def results(self) -> DataFrame:
        """All committed results, each exactly once."""
        self._prepare()
        frame: DataFrame = self._reader(self._engine.spark.read).load(str(self.folder))
        return frame

    def stream(self) -> DataFrame:
        """The results as a streaming DataFrame, for use downstream."""
        self._prepare()
        frame: DataFrame = self._reader(self._engine.spark.readStream).load(str(self.folder))
        return frame

    def foreach_tick(self, deliver: Callable[[DataFrame, int], None]) -> QueryHandle:
        """Call `deliver(results_of_the_tick, tick)` after each commit that has results.

        After a crash the last tick may be delivered again, with the same number and the same rows."""
        self._engine._deliveries.register(self.name, deliver)
        return self

    def _prepare(self) -> None:
        prepare_folder(self.folder, self.query.sink, self.query.outputs)

    def _reader(self, reader: Any) -> Any:
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = from_arrow_schema(result_schema(self.query.outputs), prefer_timestamp_ntz=True)
        kind = extension(self.query.sink)
        reader = reader.format(kind).schema(schema).option("pathGlobFilter", f"*.{kind}")
        return reader.options(**dict(self.query.sink.options)).option("header", "true") if kind == "csv" else reader

    def __repr__(self) -> str:
        joined = " ⋈ ".join(f"{alias.stream} {alias.name}" for alias in self.query.aliases)
        return f"<Query {self.name}: {joined}>"


def path_beside(file: str, path: str) -> str:
    """A relative path as seen from the folder of the script; an absolute one or an address stays as it is."""
    if not file or not path or "://" in path:
        return path
    return os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(file)), path))


def _source_beside(file: str, stream: Stream) -> Stream:
    source = stream.source
    return replace(stream, source=replace(source, path=path_beside(file, source.path))) if source else stream


def _origin(statement: CreateQuery) -> Place:
    whole = statement.place
    return Place(whole.text, statement.offset, statement.offset + len(statement.select), whole.file)


def _micros(lateness: str | timedelta | int) -> int:
    if isinstance(lateness, timedelta):
        return lateness // timedelta(microseconds=1)
    return parse_duration(lateness) if isinstance(lateness, str) else lateness
