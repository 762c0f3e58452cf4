"""Result files: one writer for each format, all with the same life: staged, then published by a rename.

A reader of a result folder sees a file only after the manifest of its tick exists (`layout.staged`).
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from watersmeet.errors import ModelError
from watersmeet.home import layout
from watersmeet.home.files import write_whole
from watersmeet.model import Output, Sink
from watersmeet.model.query import SINK_FORMATS
from watersmeet.model.types import outside
from watersmeet.private_duckdb import connect


class ResultWriter(Protocol):
    def write(self, rows: pa.Table) -> None: ...

    def close(self) -> None: ...


class _ParquetFile:
    def __init__(self, path: Path, schema: pa.Schema, options: dict[str, str]) -> None:
        # Join results rarely repeat a value often enough for a dictionary to pay for building it.
        self._writer = pq.ParquetWriter(
            path, schema, compression=options.get("compression", "snappy"), use_dictionary=False
        )

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)

    def close(self) -> None:
        self._writer.close()


class _CsvFile:
    def __init__(self, path: Path, schema: pa.Schema, options: dict[str, str]) -> None:
        self._schema = pa.schema([(field.name, _csv_type(field.type)) for field in schema])
        self._writer = pa.csv.CSVWriter(
            path,
            self._schema,
            write_options=pa.csv.WriteOptions(
                include_header=options.get("header", "true").lower() == "true", delimiter=options.get("sep", ",")
            ),
        )

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows.cast(self._schema))

    def close(self) -> None:
        self._writer.close()


def _csv_type(kind: pa.DataType) -> pa.DataType:
    # A decimal has no CSV form in Arrow; its text is exact.
    return pa.string() if pa.types.is_decimal(kind) else kind


class _JsonFile:
    """One JSON object a line, written by DuckDB, which knows every type."""

    def __init__(self, path: Path, schema: pa.Schema, options: dict[str, str]) -> None:
        self._file = path.open("w")
        self._connection = connect()

    def write(self, rows: pa.Table) -> None:
        self._connection.register("result_rows", rows)
        lines = self._connection.sql("SELECT to_json(result_rows) FROM result_rows").to_arrow_table()
        self._connection.unregister("result_rows")
        self._file.writelines(f"{line}\n" for line in lines.column(0).cast(pa.string()).to_pylist())

    def close(self) -> None:
        self._file.close()
        self._connection.close()


def open_writer(path: Path, sink: Sink, schema: pa.Schema) -> ResultWriter:
    path.parent.mkdir(parents=True, exist_ok=True)
    options = dict(sink.options)
    if sink.format == "csv":
        return _CsvFile(path, schema, options)
    if sink.format == "json":
        return _JsonFile(path, schema, options)
    return _ParquetFile(path, schema, options)


def check_sink(query: str, sink: Sink) -> None:
    """Refuse a sink that could not be written, before anything runs."""
    if sink.format not in SINK_FORMATS:
        raise ModelError(
            f"query {query}: results cannot be written as {sink.format}",
            detail=f"Formats: {', '.join(SINK_FORMATS)}.",
            hint="for any other Spark sink, use query.foreach_tick(callable) in Python",
        )
    allowed = {
        "csv": {"header", "sep"},
        "parquet": {"compression"},
        "json": set(),
        "console": {"rows"},
        "count": set(),
    }[sink.format]
    for name, value in sink.options:
        if name not in allowed:
            listed = ", ".join(sorted(allowed)) or "none"
            raise ModelError(f"query {query}: unknown option {name} for {sink.format}", detail=f"Options: {listed}.")
        if name == "compression" and not pa.Codec.is_available(value):
            raise ModelError(f"query {query}: compression {value} is not available")


def extension(sink: Sink) -> str:
    return sink.format if sink.format in ("json", "csv") else "parquet"


def result_folder(home: Path, query: str, sink: Sink) -> Path:
    return Path(sink.path) if sink.path and sink.format != "console" else layout.results(home, query)


def result_schema(outputs: tuple[Output, ...]) -> pa.Schema:
    return pa.schema([(output.name, outside(output.type)) for output in outputs])


def check_folder(folder: Path, outputs: tuple[Output, ...]) -> None:
    """Refuse a folder with results of other columns."""
    described = folder / layout.COLUMNS
    if described.exists() and described.read_text() != _columns_text(outputs):
        raise ModelError(
            f"{folder} holds results with other columns: {described.read_text()}",
            hint="give the query another name or INTO path, or move the folder away",
        )


def _columns_text(outputs: tuple[Output, ...]) -> str:
    return json.dumps([[field.name, str(field.type)] for field in result_schema(outputs)])


def prepare_folder(folder: Path, sink: Sink, outputs: tuple[Output, ...]) -> None:
    """Make the folder readable before the first result: an empty Parquet file carries the columns."""
    if sink.format == "count":
        return  # its results are numbers in the folder of all counts
    folder.mkdir(parents=True, exist_ok=True)
    check_folder(folder, outputs)
    empty, described = folder / layout.EMPTY, folder / layout.COLUMNS
    if extension(sink) == "parquet" and not empty.exists():
        content = io.BytesIO()
        pq.write_table(result_schema(outputs).empty_table(), content)
        write_whole(empty, content.getvalue())
    if not described.exists():
        write_whole(described, _columns_text(outputs))  # cut short, it would be taken for other columns
