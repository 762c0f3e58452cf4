"""Result files: one writer for each format. A file is staged, then published by a rename.

A reader of a result folder sees a file only after the manifest of its tick exists (`layout.staged`).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from watersmeet.errors import ModelError
from watersmeet.home import layout
from watersmeet.home.disk import make_folder, sync_entries
from watersmeet.home.files import make_private, write_whole
from watersmeet.home.manifest import Manifest
from watersmeet.io.connectors.options import Option, OptionTable
from watersmeet.io.connectors.protocol import connector_of
from watersmeet.io.json_lines import JsonLines
from watersmeet.model import Output, Query, Sink
from watersmeet.model.query import sink_formats
from watersmeet.model.types import outside

_BUFFER = 1 << 18  # bytes of a file that are written at once
COMPRESSIONS = ("snappy", "zstd", "gzip", "lz4", "brotli", "none")  # that Parquet files and their readers know


class ResultWriter(Protocol):
    """Writes the results of one query and task in the format of its sink."""

    def write(self, rows: pa.Table) -> None: ...

    def close(self) -> None: ...


class _ParquetFile:
    def __init__(self, file: pa.NativeFile, schema: pa.Schema, options: dict[str, str]) -> None:
        # Join results rarely repeat a value often enough for a dictionary to pay for building it.
        self._file = file
        self._writer = pq.ParquetWriter(
            file,
            schema,
            compression=options.get("compression", "snappy"),
            use_dictionary=False,
            column_encoding=_packed(schema) or None,
        )

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)

    def close(self) -> None:
        try:
            self._writer.close()
        finally:
            self._file.close()


@lru_cache(maxsize=4096)
def _packed(schema: pa.Schema) -> dict[str, str]:
    """Whole numbers and times are packed as differences: half the time and half the bytes of plain ones."""
    return {field.name: "DELTA_BINARY_PACKED" for field in schema if _is_whole(field.type)}


def _is_whole(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in (pa.types.is_integer, pa.types.is_date32, pa.types.is_timestamp))


class _CsvFile:
    def __init__(self, file: pa.NativeFile, schema: pa.Schema, options: dict[str, str]) -> None:
        self._schema = pa.schema([(field.name, _csv_type(field.type)) for field in schema])
        self._file = file
        self._writer = pa.csv.CSVWriter(
            file,
            self._schema,
            write_options=pa.csv.WriteOptions(
                include_header=options.get("header", "true").lower() == "true", delimiter=options.get("sep", ",")
            ),
        )

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows.cast(self._schema))

    def close(self) -> None:
        try:
            self._writer.close()
        finally:
            self._file.close()


def _csv_type(kind: pa.DataType) -> pa.DataType:
    # A decimal has no CSV form in Arrow; its text is exact.
    return pa.string() if pa.types.is_decimal(kind) else kind


class _JsonFile:
    """One JSON object a line."""

    def __init__(self, file: pa.NativeFile, schema: pa.Schema, options: dict[str, str]) -> None:
        self._file = file
        self._lines = JsonLines(schema)

    def write(self, rows: pa.Table) -> None:
        for text in self._lines.of(rows):
            self._file.write(f"{text}\n".encode())

    def close(self) -> None:
        try:
            self._file.close()
        finally:
            self._lines.close()


def _separator(value: str) -> str:
    usable = len(value) == 1 and value.isascii() and value not in '"\r\n'
    return "" if usable else "use one character, for example ; or \\t"


def _truth(value: str) -> str:
    return "" if value.lower() in ("true", "false") else "use true or false"


def _rows(value: str) -> str:
    return "" if re.fullmatch("[0-9]{1,6}", value) else "use a number of rows, such as 20"


def _compression(value: str) -> str:
    return "" if value.lower() in COMPRESSIONS else f"use one of {', '.join(COMPRESSIONS)}"


@dataclass(frozen=True)
class _FileFormat:
    """How results become files: the options of a format, what writes it, and how its files end."""

    options: OptionTable
    writer: Callable[[pa.NativeFile, pa.Schema, dict[str, str]], ResultWriter] = _ParquetFile
    extension: str = "parquet"
    is_tried: bool = True  # with a row of NULLs, when a query is added: some types cannot be written


# The names are those of model/query.py. Results for the console and counts are Parquet files too.
_FORMATS = {
    "parquet": _FileFormat(OptionTable("parquet", (Option("compression", check=_compression),))),
    "csv": _FileFormat(
        OptionTable("csv", (Option("header", check=_truth), Option("sep", check=_separator))), _CsvFile, "csv"
    ),
    "json": _FileFormat(OptionTable("json", ()), _JsonFile, "json", is_tried=False),
    "console": _FileFormat(OptionTable("console", (Option("rows", check=_rows),))),
    "count": _FileFormat(OptionTable("count", ()), is_tried=False),
}


def _format_of(sink: Sink) -> _FileFormat:
    """The format of the files of a sink; what is delivered to a target waits as Parquet."""
    return _FORMATS.get(sink.format, _FORMATS["parquet"])


def open_writer(path: Path, sink: Sink, schema: pa.Schema) -> ResultWriter:
    file = _created(path, is_outside(sink))
    try:
        return _format_of(sink).writer(file, schema, dict(sink.options))
    except BaseException:
        file.close()
        raise


def _created(path: Path, shared: bool) -> pa.NativeFile:
    """A new file, for this user only unless it is `shared`. Few rows are written at once when it is closed.

    The name is no other task's. A new file is not emptied, not even for nothing: ext4 would write each by itself when
    it is closed, which takes more than to encode few rows."""
    flags, mode = os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if shared else 0o600
    try:
        handle = os.open(path, flags, mode)
    except FileNotFoundError:
        make_folder(path.parent, 0o777 if shared else 0o700)
        handle = os.open(path, flags, mode)
    os.close(handle)
    return pa.BufferedOutputStream(pa.OSFile(str(path), "ab"), _BUFFER)


def check_sink(query: str, sink: Sink, outputs: tuple[Output, ...] = ()) -> None:
    """Reject a sink that cannot be written, before anything runs."""
    if sink.format not in sink_formats():
        raise ModelError(
            f"query {query}: results cannot be written as {sink.format}",
            detail=f"Formats: {', '.join(sink_formats())}.",
            hint="use query.foreach_tick(callable) in Python for any other Spark sink",
        )
    if sink.is_delivered:
        connector_of(sink).check(query, sink, outputs)
        return
    _format_of(sink).options.check(f"query {query}", sink.options)
    for field in result_schema(outputs) if sink.format == "csv" else ():
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
            raise ModelError(
                f"query {query}: the column {field.name} cannot be written as CSV",
                detail=f"Its type is {field.type}.",
                hint="use INTO json or parquet, or make a string of it, for example with to_json or hex",
            )
    if problem := _trial(sink.format, sink.options, result_schema(outputs)):
        raise ModelError(f"query {query}: results cannot be written as {sink.format}", detail=problem)


@lru_cache(maxsize=1024)
def _trial(kind: str, options: tuple[tuple[str, str], ...], schema: pa.Schema) -> str:
    """Why a row of NULLs cannot be written, or nothing. What fails for every row is found before there are any."""
    if not _FORMATS[kind].is_tried or not len(schema):
        return ""
    try:
        writer = _FORMATS[kind].writer(pa.BufferOutputStream(), schema, dict(options))
        writer.write(pa.Table.from_arrays([pa.nulls(1, type_) for type_ in schema.types], schema=schema))
        writer.close()
    except Exception as problem:
        return str(problem)
    return ""


def extension(sink: Sink) -> str:
    return _format_of(sink).extension


@lru_cache(maxsize=4096)
def result_folder(home: Path, query: str, sink: Sink) -> Path:
    """Where the files of a query are published; those that are delivered wait there."""
    if sink.is_delivered:
        return layout.outbox(home, query)
    return Path(sink.path or "") if is_outside(sink) else layout.results(home, query)


def may_wait(sink: Sink) -> bool:
    """Whether nobody counts on results to come in files of their ticks: neither a target, nor somebody who looks."""
    return not sink.is_delivered and sink.format not in ("console", "count")


def is_outside(sink: Sink) -> bool:
    """Whether results go where INTO says: readers of other users find them there, if the umask lets them."""
    return bool(sink.path) and sink.format != "console" and not sink.is_delivered


def result_schema(outputs: tuple[Output, ...]) -> pa.Schema:
    return pa.schema([(output.name, outside(output.type)) for output in outputs])


def reader_of(reader: Any, query: Query) -> Any:
    """`spark.read` or `spark.readStream` for the files of a query's folder, as the writers leave them."""
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


def check_folder(folder: Path, outputs: tuple[Output, ...]) -> None:
    """Reject a folder with results of other columns. Names may differ in case, as SQL's do."""
    described = folder / layout.COLUMNS
    if not _has_content(described):
        return
    try:
        found = described.read_bytes().decode()
        dict(json.loads(found))  # pairs of names and types
    except (ValueError, TypeError) as problem:
        raise ModelError(
            f"{described} is damaged: {problem}",
            detail="It says which columns the results in the folder have. The results are not concerned.",
            hint="delete the file, and start again: it is written anew",
        ) from None
    if found.lower() != _columns_text(outputs).lower():
        raise ModelError(
            f"{folder} contains results with other columns: {found}",
            hint="give the query another name or INTO path, or move the folder away",
        )


def _columns_text(outputs: tuple[Output, ...]) -> str:
    return json.dumps([[field.name, str(field.type)] for field in result_schema(outputs)])


def prepare_folder(folder: Path, sink: Sink, outputs: tuple[Output, ...]) -> list[Path]:
    """Make the folder readable before the first result: an empty Parquet file carries the columns.

    Returns the files that were written, which may be empty after a loss of power: then they are written again."""
    if sink.format == "count":
        return []  # its results are numbers in the folder of all counts
    shared = is_outside(sink)
    if shared:
        make_folder(folder)
    else:
        make_private(folder)
    if sink.is_delivered:
        return []
    check_folder(folder, outputs)
    empty, described = folder / layout.EMPTY, folder / layout.COLUMNS
    written: list[Path] = []
    if extension(sink) == "parquet" and not _has_content(empty):
        content = io.BytesIO()
        pq.write_table(result_schema(outputs).empty_table(), content)
        write_whole(empty, content.getvalue(), shared)
        written.append(empty)
    if not _has_content(described):
        write_whole(described, _columns_text(outputs), shared)
        written.append(described)
    return written


def _has_content(path: Path) -> bool:
    """Whether a file is there. One that is empty was not on the disk when the power failed."""
    return path.exists() and path.stat().st_size > 0


def put_aside(home: Path, folder: Path, sink: Sink, manifest: Manifest) -> None:
    """Move what is in a folder of results out of the way of another query. Doing it twice is harmless."""
    if sink.is_delivered or sink.format == "count" or not folder.is_dir():
        return
    # In a folder outside of the home only files with our tag are ours.
    tag = "" if folder.is_relative_to(home) else manifest.tag
    results = [name for name in os.listdir(folder) if layout.tick_of(name, tag) is not None]
    if not results and not (folder / layout.COLUMNS).exists():
        return
    aside = layout.put_aside(folder, manifest.tick)
    if is_outside(sink):
        make_folder(aside)
    else:
        make_private(aside)
    for name in (*results, layout.EMPTY, layout.COLUMNS):  # the columns last: they say that not all is moved
        with contextlib.suppress(FileNotFoundError):
            (folder / name).rename(aside / name)
    sync_entries((aside, folder))  # once a tick of the other query is committed, nobody would move them
