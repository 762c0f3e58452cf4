"""Spark's readers, set up for the result files of a query: as the writers of sinks.py leave them."""

from __future__ import annotations

from typing import Any

from watersmeet.io.sinks import extension, result_schema
from watersmeet.model import Query


def set_up(reader: Any, query: Query) -> Any:
    """`spark.read` or `spark.readStream` for the files of a query's folder."""
    from pyspark.sql.pandas.types import from_arrow_schema

    kind = extension(query.sink)
    schema = from_arrow_schema(result_schema(query.outputs), prefer_timestamp_ntz=True)
    reader = reader.format(kind).schema(schema).option("pathGlobFilter", f"*.{kind}")
    if kind == "csv":
        # Arrow writes a quote inside of quotes twice, and line ends as they are.
        written = {"header": "true", "escape": '"', "multiLine": "true", **dict(query.sink.options)}
        return reader.options(**written)
    return reader
