"""Sources: a declared stream as a streaming DataFrame of exactly its columns."""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.errors import InputError, ModelError
from watersmeet.model import Column, Stream
from watersmeet.model.types import type_of_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

CORRUPT_COLUMN = "_corrupt_record"
FILE_FORMATS = ("parquet", "orc", "csv", "json", "text", "avro", "xml")
_TEXTUAL = ("csv", "json", "xml")
MAX_FILES, MAX_BYTES = "maxfilespertrigger", "maxbytespertrigger"  # Spark's names, in lower case
DEFAULT_FILES = 1000  # of a stream in a tick


def open_source(spark: SparkSession, stream: Stream) -> DataFrame:
    """The streaming DataFrame of a stream that was declared with FROM."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    source = stream.source
    assert source is not None
    columns = ", ".join(f"`{column.name}` {column.type}" for column in stream.columns)
    reader = spark.readStream.format(source.format).options(**dict(source.options))
    names = [column.name for column in stream.columns]
    if source.format in FILE_FORMATS:
        if problem := missing_folder(stream):
            raise problem
        if source.format in _TEXTUAL:
            columns += f", `{CORRUPT_COLUMN}` string"
            names.append(CORRUPT_COLUMN)
            reader = reader.option("columnNameOfCorruptRecord", CORRUPT_COLUMN).option("mode", "PERMISSIVE")
        if source.format == "parquet":
            # One bad file must not stop the other streams; runtime/feed/input_check.py notices what was skipped.
            reader = reader.option("ignoreCorruptFiles", "true").option("ignoreMissingFiles", "true")
        reader = reader.schema(columns)
        if not {MAX_FILES, MAX_BYTES} & {name.lower() for name, _ in source.options}:
            reader = reader.option("maxFilesPerTrigger", DEFAULT_FILES)
    path = spark_path(source.path) if source.format in FILE_FORMATS else source.path
    try:
        frame = reader.load(path) if path else reader.load()
        if source.format in FILE_FORMATS:
            return frame.select(*names)
        return frame.selectExpr(*(f"CAST(`{c.name}` AS {c.type}) AS `{c.name}`" for c in stream.columns))
    except (PySparkException, Py4JJavaError) as problem:
        said = [line for line in str(problem).splitlines() if "[" in line] or [str(problem)]
        raise InputError(
            f"stream {stream.name}: Spark cannot read {source.format} from {source.path!r}",
            detail=said[0][said[0].find("[") :].strip(),
            hint="check the format, the path and the options after WITH",
        ) from None


def spark_path(path: str) -> str:
    """A path for Spark, which takes it for a pattern if it has special characters, also where it exists as it is."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path) if os.path.exists(path) else path


def missing_folder(stream: Stream) -> InputError | None:
    """The error for a stream whose files would be in a folder that does not exist."""
    source = stream.source
    in_folder = source is not None and source.format in (*FILE_FORMATS, "delta")
    if source is None or not in_folder or "://" in source.path or os.path.exists(source.path):
        return None
    fixed, sign, _ = re.split(r"([*?\[{]|$)", source.path, maxsplit=1)
    if sign and os.path.isdir(os.path.dirname(fixed) or "."):
        return None  # a pattern: files that it matches may come
    return InputError(
        f"stream {stream.name}: {source.path} does not exist",
        hint="create the folder (it may be empty) or correct the path after FROM",
    )


def columns_of(schema: StructType) -> tuple[Column, ...]:
    """The columns of a user's DataFrame."""
    return tuple(Column(field.name, field.dataType.simpleString()) for field in schema.fields)


def check_frame(name: str, frame: DataFrame) -> None:
    if not frame.isStreaming:
        raise ModelError(
            f"stream {name}: the DataFrame is not a streaming DataFrame",
            hint='use spark.readStream, or engine.sql("CREATE STREAM …") for files',
        )


def open_parquet(stream: Stream, path: str) -> tuple[pq.ParquetFile, list[str]]:
    """A Parquet file and its names for the stream's columns; raises InputError where it is not one of the stream."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise InputError(f"stream {stream.name}: {path} is not a regular file")
        file = pq.ParquetFile(path, memory_map=True, coerce_int96_timestamp_unit="us")
        found = file.schema_arrow
    except (pa.ArrowException, OSError, ValueError) as problem:  # ValueError: a name that is not UTF-8
        raise InputError(
            f"stream {stream.name}: {path} is not a readable Parquet file", detail=str(problem).splitlines()[0]
        ) from None
    by_name = {field.name.lower(): field for field in found}
    names = []
    for column in stream.columns:
        field = by_name.get(column.name.lower())
        if field is None:
            raise InputError(
                f"stream {stream.name}: {path} has no column {column.name}",
                detail=f"Its columns: {', '.join(found.names)}.",
            )
        if not reads_as(field.type, column):
            raise InputError(
                f"stream {stream.name}: {path} has {column.name} as {type_of_arrow(field.type).upper()}; "
                f"the stream declares {column.type.upper()}"
            )
        names.append(field.name)
    return file, names


def reads_as(found: pa.DataType, column: Column) -> bool:
    """Whether Spark reads a Parquet column of one type as another: the same, or a lossless widening."""
    wanted = column.arrow
    if pa.types.is_dictionary(found):
        found = found.value_type
    if pa.types.is_timestamp(wanted):
        return bool(pa.types.is_timestamp(found))
    if pa.types.is_integer(wanted) and pa.types.is_integer(found):
        return bool(found.bit_width <= wanted.bit_width)
    if pa.types.is_floating(wanted) and pa.types.is_floating(found):
        return bool(found.bit_width <= wanted.bit_width)
    if pa.types.is_decimal(wanted) and pa.types.is_decimal(found):
        return bool(found.scale == wanted.scale and found.precision <= wanted.precision)
    if pa.types.is_string(wanted) or pa.types.is_binary(wanted):
        return bool(pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_binary(found))
    if pa.types.is_nested(wanted):
        return bool(pa.types.is_nested(found))
    return bool(found == wanted)
