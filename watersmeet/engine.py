"""The Python API: what a user declares in an engine, and what it shows. How it runs is in `lifecycle`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watersmeet.control.description import describe
from watersmeet.control.stats import Stats, collect_stats
from watersmeet.handle import QueryHandle
from watersmeet.home.manifest import Manifest, Suspension
from watersmeet.io.sources import check_frame, columns_of
from watersmeet.lifecycle import Lifecycle
from watersmeet.model import Sink, Stream
from watersmeet.model.stream import DAY
from watersmeet.pipeline import folder_of, pointing_at, source_in
from watersmeet.plan.explain import explain
from watersmeet.runtime.tick.suspension import is_suspended
from watersmeet.runtime.udf.predicate_calls import complaints_in
from watersmeet.sql import CreateQuery, CreateStream, Statement, micros, micros_or_none, parse_script

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Engine(Lifecycle):
    """Runs many continuous join queries over shared streams; each stream is stored once.

    An engine that starts again with the same home resumes where it stopped. A `with` block of an engine stops it at the
    end.

    Args:
        spark: a Spark session of your own; None: the engine creates one when it needs one.
        home: the folder of all state and, by default, of the results. One engine at a time uses it.
        options: see docs/options.md. A name with a dot, such as `**{"spark.driver.memory": "4g"}`, is a setting of
            the Spark session that the engine creates.

    Raises:
        ModelError: an option is unknown or its value invalid.
        StateError: the home cannot be used, because it is a URL or a file, for example.
        RunError: the session is stopped, or one of Spark Connect.

    Example:
        >>> watersmeet.Engine(spark, home="other", tick="500 milliseconds")
        <Engine other: 0 streams, 0 queries, stopped>
    """

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
        """Add a stream. Durations are texts such as "5 seconds", timedeltas, or microseconds.

        The arguments after `source` are for a DataFrame; a declared `Stream` has all of them itself.

        Args:
            name: the name of the stream in queries.
            source: any streaming DataFrame, or a `Stream` with a source of its own.
            time: the column with the event time: TIMESTAMP, TIMESTAMP_NTZ, DATE, or integer microseconds.
            lateness: how far a row may be behind the newest row of earlier ticks.
            ahead: how far a row may be ahead of both the rows before it and the clock; None: no limit.
            retain: how long rows are stored even if no query needs them, so that later queries have history; None: for
                ever.
            idle: how long the stream may be silent before it stops holding back windows; None: for ever.

        Returns:
            The declared stream.

        Raises:
            ModelError: the name is taken, the DataFrame is not a streaming one, or a column or duration is invalid.

        Example:
            >>> numbers = spark.readStream.format("rate").load()
            >>> engine.stream("numbers", numbers, time="timestamp", lateness="5 seconds").lateness
            5000000
        """
        with self._active.changing:
            if isinstance(source, Stream):
                stream = replace(source, name=name)
            else:
                check_frame(name, source, time)
                stream = Stream(
                    name,
                    columns_of(source.schema),
                    time,
                    lateness=micros(lateness),
                    ahead=micros_or_none(ahead),
                    retain=micros_or_none(retain),
                    idle=micros_or_none(idle),
                )
            self._active.pipeline = self.pipeline.with_stream(stream)
            if not isinstance(source, Stream):
                self._frames[name] = source
            if self._is_running:
                self._keeper.adopt(self._keeper.plan_for(self.streams, self._active.queries))
                self._feeds.start(self.pipeline.streams, self._frames, once=False)
            return stream

    def predicate(self, name: str, function: Callable[..., Any], *, by_row: bool = False) -> None:
        """Let queries call a Python function as a condition on rows of two aliases: WHERE near(a.x, b.y).

        It is not called for rows with a NULL among the arguments, and false where it raises or returns anything but
        booleans. If it takes longer than the option `predicate_seconds`, or ends its process, it is disabled: false for
        all rows until the engine starts again, or until the queries that call it are dropped and added again. `stats`
        counts the rows for the queries concerned, `complaints` has the reasons.

        Args:
            name: the name of the function in queries.
            function: receives a NumPy array for each argument and returns an array of booleans.
            by_row: the function receives plain values and returns a bool.

        Raises:
            ModelError: the name is taken or a built-in function, or the function cannot be sent to other processes.

        Example:
            >>> engine.predicate("near", lambda x, y: abs(x - y) < 20)
            >>> near = engine.query("near", '''
            ...     SELECT x.price, y.price AS other FROM bids x JOIN bids y ON near(x.price, y.price)
            ...     WHERE x.price < y.price WINDOW 10 SECONDS''')
            >>> engine.run_once()["near"].results().count()
            3
        """
        with self._active.changing:
            self._active.pipeline = self.pipeline.with_predicate(name, function, by_row)

    def complaints(self) -> dict[str, str]:
        """What registered predicates did wrong.

        Returns:
            For each predicate that has failed, its last failure.

        Raises:
            OSError: the home cannot be read.

        Example:
            >>> engine.complaints()
            {}
        """
        return complaints_in(self.home)

    def query(self, name: str, sql: str, sink: Sink | None = None, *, backfill: bool = False) -> QueryHandle:
        """Add a query, before the start or while the engine runs.

        In a running engine it is active from the next tick that begins and joins the rows that arrive from then on with
        all rows that are stored.

        Args:
            name: the name of the query, and of its folder of results.
            sql: a SELECT.
            sink: where results go; None: Parquet files in the home.
            backfill: its first tick also returns the results among rows that were stored before.

        Returns:
            The handle of the query.

        Raises:
            SqlError: the SELECT is invalid; the error has the position.
            ModelError: the name is taken, or the sink cannot be used.

        Example:
            >>> engine.query("dear", "SELECT price FROM bids [RANGE 1 SECOND] b WHERE price > 20")
            <Query dear: bids b>
            >>> engine.query("wrong", "SELECT prize FROM bids [RANGE 1 SECOND]")
            Traceback (most recent call last):
            watersmeet.errors.SqlError: line 1, column 8: ...
        """
        self._active.add(self.pipeline.query(name, sql, sink, backfill))
        return self[name]

    def drop(self, name: str) -> None:
        """Drop a query from the next tick on. Its result files stay.

        Args:
            name: the name of the query.

        Raises:
            ModelError: there is no such query.

        Example:
            >>> engine.drop("rises")
            >>> engine.queries
            ()
        """
        with self._active.changing:
            self._active.drop(name)
            self._deliveries.forget(name)

    def resume(self, *names: str) -> str:
        """Resume suspended queries from the next tick on. docs/suspended.md says what suspends a query.

        Args:
            names: the names of the queries.

        Returns:
            A text that says of which ticks results are missing.

        Raises:
            ModelError: there is no such query, or it is not suspended.

        Example:
            >>> engine.run_once().resume("rises")
            Traceback (most recent call last):
            watersmeet.errors.ModelError: query rises is not suspended...
        """
        return self._active.resume(names).text

    def sql(self, script: str, file: str | Path = "") -> list[QueryHandle]:
        """Execute CREATE STREAM, CREATE QUERY and DROP QUERY statements.

        Args:
            script: the statements, separated by semicolons.
            file: the file that they are from. Relative paths are relative to its folder, or to the current one.

        Returns:
            The handles of the queries that were created.

        Raises:
            SqlError: a statement is invalid; the error has the position. The statements before it have taken effect.

        Example:
            >>> engine.sql("DROP QUERY rises; CREATE QUERY all_bids AS SELECT * FROM bids [RANGE 1 SECOND] b;")
            [<Query all_bids: bids b>]
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
        """Internal: see `QueryHandle.foreach_tick`."""
        self._deliveries.register(name, deliver)

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The streams, in the order in which they were added.

        Example:
            >>> [stream.name for stream in engine.streams]
            ['bids']
        """
        return tuple(self.pipeline.streams.values())

    @property
    def queries(self) -> tuple[QueryHandle, ...]:
        """The handles of all queries.

        Example:
            >>> engine.queries
            (<Query rises: bids x ⋈ bids y>,)
        """
        return tuple(QueryHandle(self, query) for query in self._active.queries)

    def __getitem__(self, name: str) -> QueryHandle:
        """The handle of a query: `engine["rises"]`.

        Args:
            name: the name of the query.

        Returns:
            Its handle.

        Raises:
            ModelError: there is no such query.

        Example:
            >>> engine["rises"].name
            'rises'
        """
        return QueryHandle(self, self.pipeline.known_query(name))

    # Inspecting ----------------------------------------------------------------------------------

    def explain(self) -> str:
        """The plan as text: what the queries share, the steps with the queries that they serve, stores and costs.

        Returns:
            The text, for `print`.

        Raises:
            WatersmeetError: no plan exists within the options, such as `storage_budget`.

        Example:
            >>> "rises" in engine.explain()
            True
        """
        return explain(self.plan())

    def stats(self) -> Stats:
        """Counts of rows, results, failed values and rows set aside, the state, and the durations of recent ticks.

        Returns:
            A `Stats` value; `stats.as_json()` is what `watersmeet stats --format json` prints.

        Raises:
            StateError: the home is damaged.

        Example:
            >>> stats = engine.run_once().stats()
            >>> [(stream.name, stream.rows) for stream in stats.streams]
            [('bids', 3)]
            >>> [(query.name, query.results) for query in stats.queries]
            [('rises', 1)]
        """
        recent = self._loop.recent if self._loop else []
        queries = describe(self.home, self._active.queries)
        running, streams = self._loop is not None, self.pipeline.streams
        stats = collect_stats(self.home, self.newest, streams, queries, recent, running=running)
        return replace(stats, failure=str(self.failure or ""))

    @property
    def suspended(self) -> Mapping[str, Suspension]:
        """Internal: the queries that are suspended, in an engine that is open."""
        newest = self._loop.manifest if self._loop else Manifest()
        return {
            query.name: newest.suspended[query.name] for query in self._active.queries if is_suspended(query, newest)
        }

    def __repr__(self) -> str:
        failed = f"failed: {self.failure.problem}" if self.failure is not None else ""
        state = failed or ("running" if self._is_running else "stopped")
        streams, queries = len(self.streams), len(self.queries)
        counts = f"{streams} stream{'s' * (streams != 1)}, {queries} {'query' if queries == 1 else 'queries'}"
        suspended = f", {len(self.suspended)} suspended" if self.suspended else ""
        return f"<Engine {self.home.name}: {counts}, {state}{suspended}>"
