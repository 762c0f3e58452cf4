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
        # Arrow writes a quote inside of quotes twice, line ends as they are, "" for an empty text and nothing for NULL.
        # Spark would take both for NULL, unless it takes something else for NULL as well.
        written = {"header": "true", "escape": '"', "multiLine": "true", "nullValue": "\x01"}
        return reader.options(**{**written, **dict(query.sink.options)})
    return reader
