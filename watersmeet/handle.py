"""The handle of a query: its name, its first tick, and its results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from watersmeet.errors import ModelError
from watersmeet.home import layout
from watersmeet.home.files import make_private
from watersmeet.home.manifest import Manifest
from watersmeet.io.connectors.protocol import shown
from watersmeet.io.result_reader import set_up
from watersmeet.io.sinks import prepare_folder, result_folder
from watersmeet.io.sources import spark_path
from watersmeet.model import AnyQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Owner(Protocol):
    """The engine, as far as a handle needs it."""

    home: Path

    @property
    def spark(self) -> SparkSession: ...

    @property
    def newest(self) -> Manifest: ...

    def deliver_to(self, name: str, deliver: Callable[[DataFrame, int], None]) -> None: ...

    def raise_failure(self) -> None: ...


class QueryHandle:
    """One query of an engine, and its results."""

    def __init__(self, engine: Owner, query: AnyQuery) -> None:
        self._engine = engine
        self.query = query
        self.name = query.name
        self.folder = result_folder(engine.home, query.name, query.sink)

    @property
    def since(self) -> int:
        """The first tick in which the query is active; 0 while no tick has run with it."""
        return self.query.since or self._engine.newest.queries.get(self.name, 0)

    def results(self) -> DataFrame:
        """All committed results, each exactly once; for a query INTO count, the number of matches per tick.

        Raises the failure of the engine, unless it was raised already: another call then returns what there is."""
        self._engine.raise_failure()
        if self.query.sink.format == "count":
            return self._counts(self._engine.spark.read).groupBy("tick").sum("matches").toDF("tick", "matches")
        self._prepare()
        frame: DataFrame = set_up(self._engine.spark.read, self.query).load(spark_path(str(self.folder)))
        return frame

    def stream(self) -> DataFrame:
        """The results as a streaming DataFrame, for use downstream."""
        if self.query.sink.format == "count":
            return self._counts(self._engine.spark.readStream)
        self._prepare()
        frame: DataFrame = set_up(self._engine.spark.readStream, self.query).load(spark_path(str(self.folder)))
        return frame

    def foreach_tick(self, deliver: Callable[[DataFrame, int], None]) -> QueryHandle:
        """Call `deliver(results_of_the_tick, tick)` after each commit that has results.

        After a crash the last tick may be delivered again, with the same number and the same rows. A program that
        starts again and registers again gets what was committed since the last delivery, as far as it is stored."""
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
        return f"<Query {self.name}: {self.query.title}>"
