"""The handle of a query: its name, its first tick, and its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from watersmeet.errors import ModelError
from watersmeet.home import layout
from watersmeet.home.files import make_private
from watersmeet.home.manifest import Manifest, Suspension
from watersmeet.io.connectors.protocol import shown
from watersmeet.io.sinks import prepare_folder, reader_of, result_folder
from watersmeet.io.sources import spark_path
from watersmeet.model import Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class OwningEngine(Protocol):
    """The engine, as far as a handle needs it."""

    home: Path

    @property
    def spark(self) -> SparkSession: ...

    @property
    def newest(self) -> Manifest: ...

    @property
    def suspended(self) -> Mapping[str, Suspension]: ...

    def deliver_to(self, name: str, deliver: Callable[[DataFrame, int], None]) -> None: ...

    def raise_failure(self) -> None: ...


class QueryHandle:
    """One query of an engine, and its results: what `Engine.query` returns.

    Attributes:
        name: the name of the query.
        folder: the folder of its result files.

    Example:
        >>> engine["rises"].folder.name
        'rises'
    """

    def __init__(self, engine: OwningEngine, query: Query) -> None:
        self._engine = engine
        self.query = query
        self.name = query.name
        self.folder = result_folder(engine.home, query.name, query.sink)

    @property
    def since(self) -> int:
        """The first tick in which the query is active; 0 while no tick has run with it.

        Example:
            >>> engine.run_once()["rises"].since
            1
        """
        return self.query.since or self._engine.newest.queries.get(self.name, 0)

    def results(self) -> DataFrame:
        """All committed results, each exactly once; for a query INTO count, the number of matches per tick.

        Returns:
            A DataFrame of the files that are in the folder now. Call it again to see later results.

        Raises:
            ModelError: the results are delivered to a target outside of the home.
            WatersmeetError: the failure of the engine, unless it was raised already. Another call then returns what
                there is.

        Example:
            >>> engine.run_once()["rises"].results().show()
            +-------+------+-----+
            |auction|before|after|
            +-------+------+-----+
            |      1|    10|   25|
            +-------+------+-----+
            <BLANKLINE>
        """
        self._engine.raise_failure()
        if self.query.sink.format == "count":
            return self._counts(self._engine.spark.read).groupBy("tick").sum("matches").toDF("tick", "matches")
        self._prepare()
        frame: DataFrame = reader_of(self._engine.spark.read, self.query).load(spark_path(str(self.folder)))
        return frame

    def stream(self) -> DataFrame:
        """The results as a streaming DataFrame, for use downstream.

        Returns:
            A streaming DataFrame over the files of the query, or over its counts.

        Raises:
            ModelError: the results are delivered to a target outside of the home.

        Example:
            >>> engine["rises"].stream().isStreaming
            True
        """
        if self.query.sink.format == "count":
            return self._counts(self._engine.spark.readStream)
        self._prepare()
        frame: DataFrame = reader_of(self._engine.spark.readStream, self.query).load(spark_path(str(self.folder)))
        return frame

    def foreach_tick(self, deliver: Callable[[DataFrame, int], None]) -> QueryHandle:
        """Call a function with the results of each tick, after its commit. Ticks without results are left out.

        After a crash the last tick may be delivered again, with the same number and the same rows. A program that
        starts again and registers again gets what was committed since the last delivery, as far as it is stored.

        If the function raises, the query is suspended from the next tick on. Register a correct one, which replaces it,
        and then call `Engine.resume`: the tick that it failed on is delivered again, and the results of the ticks
        between are missing.

        Args:
            deliver: called with the results as a DataFrame, and the number of the tick.

        Returns:
            The handle.

        Raises:
            ModelError: the results are delivered to a target outside of the home.

        Example:
            >>> handle = engine["rises"].foreach_tick(lambda results, tick: print(tick, results.count()))
            >>> _ = engine.run_once()
            1 1
        """
        self._check_files()
        self._engine.deliver_to(self.name, deliver)
        return self

    def _counts(self, reader: Any) -> DataFrame:
        folder = self._engine.home / layout.COUNTS
        make_private(folder)
        all_counts = reader.schema("tick bigint, query string, matches bigint").parquet(spark_path(str(folder)))
        mine: DataFrame = all_counts.where(all_counts["query"] == self.name).select("tick", "matches")
        return mine

    def _prepare(self) -> None:
        self._check_files()
        prepare_folder(self.folder, self.query.sink, self.query.outputs)

    def _check_files(self) -> None:
        if self.query.sink.is_delivered:
            raise ModelError(
                f"the results of query {self.name} are delivered to {shown(self.query.sink)}",
                detail="The home has them only until then.",
                hint="read them there, or add a second query without INTO",
            )

    def __repr__(self) -> str:
        found = self._engine.suspended.get(self.name)
        suspended = f", suspended since tick {found.tick}" if found is not None else ""
        return f"<Query {self.name}: {self.query.title}{suspended}>"
