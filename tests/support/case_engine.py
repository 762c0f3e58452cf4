"""A case as files and as an engine that reads them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.cases import Case
from tests.support.parquet_input import write_file
from watersmeet import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_input(case: Case, folder: Path, ticks: range | None = None) -> None:
    """One file for each stream and tick that has rows."""
    for stream in case.streams:
        (folder / stream.name).mkdir(parents=True, exist_ok=True)
        for tick in range(case.ticks) if ticks is None else ticks:
            if stream.piece(tick).num_rows:
                write_file(folder / stream.name, tick, stream.piece(tick))


def engine_for(
    case: Case, spark: SparkSession, home: Path, source: Path, files: str = "", residents: str = "auto"
) -> Engine:
    """`files` is a pattern behind the folder of each stream: with one, Spark reads them instead of the engine."""
    engine = Engine(spark, home=home, partitions=case.partitions, residents=residents)
    for stream in case.streams:
        engine.sql(stream.reading(f"{source / stream.name}{files}"))
    for query in case.queries:
        engine.query(query.name, query.sql)
    return engine
