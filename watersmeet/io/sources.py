"""Sources: a declared stream as a streaming DataFrame of exactly its columns."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from watersmeet.errors import InputError, ModelError
from watersmeet.home.location import local_path
from watersmeet.io.connectors.options import count, number, number_or_zero, one_of
from watersmeet.io.source import source_class, source_formats
from watersmeet.model import CORRUPT_COLUMN, Column, Source, Stream
from watersmeet.spark_reason import spark_reason

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FILE_FORMATS = ("parquet", "orc", "csv", "json", "text", "avro", "xml")
_TEXTUAL = ("csv", "json", "xml")
MAX_FILES, MAX_BYTES = "maxfilespertrigger", "maxbytespertrigger"  # Spark's names, in lower case
_TUNING = (MAX_FILES, MAX_BYTES)  # how much a tick reads, and not what
_FOUND_FILE = "path string, modificationTime timestamp, length bigint, content binary"  # all that Spark allows
DEFAULT_FILES = 1000  # of a stream in a tick
_CHECK_SOURCE = "check the format, the path and the options after WITH"
_MISSING_CLASS = (
    "Spark lacks the library for this path or format; name it when Spark starts, for example for s3a:// "
    "--set spark.jars.packages=org.apache.hadoop:hadoop-aws:<Spark's version of Hadoop>; and check the path"
)
# What Spark would reject only when the stream is started; none of them is about the format.
_STREAM_OPTIONS = {
    MAX_FILES: count,
    MAX_BYTES: number,
    "maxcachedfiles": number_or_zero,
    "latestfirst": one_of("true", "false"),
    "filenameonly": one_of("true", "false"),
}


def options_of_rows(source: Source) -> tuple[tuple[str, str], ...]:
    """The options that say what the rows of a source are. Others say where it is reached, where reading begins once,
    how much is read at a time, or what to do about a loss: whoever changes them has the same stream."""
    found = source_class(source.format)
    return tuple(
        (name, value)
        for name, value in source.options
        if (name.lower() not in _TUNING if found is None else name.lower() in found.row_options)
    )


def open_source(spark: SparkSession, stream: Stream) -> DataFrame:
    """The streaming DataFrame of a stream that was declared with FROM."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    source = stream.source
    assert source is not None
    columns = ", ".join(f"`{column.name}` {column.type}" for column in stream.columns)
    kind = "binaryFile" if is_read_by_tasks(stream) else source.format
    reader = spark.readStream.format(kind).options(**dict(source.options))
    names = [column.name for column in stream.columns]
    if source.format in FILE_FORMATS:
        if problem := missing_folder(stream):
            raise problem
        if source.format in _TEXTUAL:
            columns += f", `{CORRUPT_COLUMN}` string"
            names.append(CORRUPT_COLUMN)
            reader = reader.option("columnNameOfCorruptRecord", CORRUPT_COLUMN).option("mode", "PERMISSIVE")
        if is_read_by_tasks(stream):
            columns = _FOUND_FILE
            reader = reader.option("ignoreMissingFiles", "true")  # the task that is to read it will report it
        reader = reader.schema(columns)
        if not {MAX_FILES, MAX_BYTES} & {name.lower() for name, _ in source.options}:
            reader = reader.option("maxFilesPerTrigger", DEFAULT_FILES)
    path = spark_path(source.path) if source.format in FILE_FORMATS else source.path
    try:
        frame = reader.load(path) if path else reader.load()
        if is_read_by_tasks(stream):
            return frame.select("path").where("false")  # Spark finds the files, and opens none
        if source.format in FILE_FORMATS:
            return frame.select(*names)
        return frame.selectExpr(*(f"CAST(`{c.name}` AS {c.type}) AS `{c.name}`" for c in stream.columns))
    except (PySparkException, Py4JJavaError) as problem:
        reason = spark_reason(problem)
        raise InputError(
            f"stream {stream.name}: Spark cannot read {source.format} from {source.path!r}",
            detail=reason,
            hint=_MISSING_CLASS if "ClassNotFoundException" in reason else _CHECK_SOURCE,
        ) from None


def check_file_source(stream: Stream) -> None:
    """Reject a declaration with which no files could be read. Opens none."""
    source = stream.source
    if source is None or source.format not in FILE_FORMATS:
        return
    whose = f"stream {stream.name}"
    if not source.path:
        raise ModelError(
            f"{whose}: FROM {source.format} needs a folder", hint=f"write FROM {source.format} 'folder' or 'folder/*'"
        )
    path = local_path(source.path)
    if path is not None:
        if "\0" in path:
            raise ModelError(
                f"{whose}: the path {path[:100]!r} has a NUL character", hint="correct the path after FROM"
            )
        if os.path.isfile(path):
            raise ModelError(
                f"{whose}: {path} is a file, and a stream is a folder to which files are added",
                hint=f"name its folder, or the files in it by a pattern: {os.path.join(os.path.dirname(path), '*')}",
            )
    limits = set()
    for name, value in source.options:
        check = _STREAM_OPTIONS.get(name.lower())
        if check is not None and (advice := check(value)):
            raise ModelError(f"{whose}: the option {name} cannot be {value!r}", hint=advice)
        limits |= {name.lower()} & {MAX_FILES, MAX_BYTES}
    if len(limits) > 1 and source.format != "parquet":
        raise ModelError(
            f"{whose}: maxFilesPerTrigger and maxBytesPerTrigger cannot both be set", hint="remove one of the options"
        )
    if is_read_by_tasks(stream):
        _check_rebasing(whose, source)


def is_read_by_tasks(stream: Stream) -> bool:
    """Whether Spark, where it finds the files of a stream, leaves it to the engine's tasks to read them."""
    source = stream.source
    return source is not None and source.format == "parquet" and local_path(source.path) is not None


def _check_rebasing(whose: str, source: Source) -> None:
    """Reject options of Spark's reader that tasks would have to obey."""
    for option, value in source.options:
        if option.lower() in ("datetimerebasemode", "int96rebasemode") and value.upper() != "CORRECTED":
            raise ModelError(
                f"{whose}: Parquet files are read with {option} = CORRECTED, not {value}",
                hint="read files of Spark 2 with your own spark.readStream frame, or write them again with Spark 3",
            )


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


def check_frame(name: str, frame: DataFrame, time: str) -> None:
    """Reject what a user took for a stream, and one without an event time."""
    if not getattr(frame, "isStreaming", False):  # which a DataFrame of pandas does not have
        raise ModelError(
            f"stream {name}: the DataFrame is not a streaming DataFrame",
            hint='use spark.readStream, or engine.sql("CREATE STREAM …") for files',
        )
    if not time:
        raise ModelError(
            f"stream {name}: the column with the event time is not named",
            detail=f"Its columns: {', '.join(frame.columns)}.",
            hint=f'for example engine.stream("{name}", …, time="{frame.columns[0] if frame.columns else "at"}")',
        )


# Formats and options that are probably misspelt -----------------------------------------------------------------------

_KNOWN_FORMATS = (*FILE_FORMATS, "binaryfile", "rate", "rate-micro-batch", "socket", "iceberg", "hudi")
# Those of Spark's readers of files, of all formats: an option of another format is ignored, but not misspelt.
_KNOWN_OPTIONS = """
    maxFilesPerTrigger maxBytesPerTrigger maxCachedFiles maxFileAge latestFirst fileNameOnly cleanSource
    sourceArchiveDir pathGlobFilter recursiveFileLookup basePath ignoreCorruptFiles ignoreMissingFiles modifiedBefore
    modifiedAfter mergeSchema datetimeRebaseMode int96RebaseMode compression mode columnNameOfCorruptRecord encoding
    charset header sep delimiter quote escape comment lineSep multiLine locale timeZone dateFormat timestampFormat
    timestampNTZFormat enableDateTimeParsingFallback nullValue emptyValue nanValue positiveInf negativeInf
    ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace charToEscapeQuoteEscaping maxColumns maxCharsPerColumn
    unescapedQuoteHandling enforceSchema inferSchema preferDate samplingRatio singleVariantColumn primitivesAsString
    prefersDecimal allowComments allowUnquotedFieldNames allowSingleQuotes allowNumericLeadingZeros
    allowBackslashEscapingAnyCharacter allowUnquotedControlChars allowNonNumericNumbers dropFieldIfAllNull rowTag
    excludeAttribute treatEmptyValuesAsNulls attributePrefix valueTag ignoreSurroundingSpaces rowValidationXSDPath
    ignoreNamespace wildcardColName avroSchema ignoreExtension wholetext
"""
_ALIKE = 0.8  # from here on a name is taken for a misspelt one


def probable_typos(stream: Stream) -> Iterator[str]:
    """What a user is told about a declaration that may be right: other formats and options are Spark's matter, which
    ignores an option that it does not know."""
    source = stream.source
    if source is None:
        return
    if close := _meant(source.format, (*_KNOWN_FORMATS, *source_formats())):
        yield f"stream {stream.name}: the format {source.format} is unknown here; did you mean {close}?"
    if source.format in FILE_FORMATS or close in FILE_FORMATS:
        for name, _ in source.options:
            if meant := _meant(name, _KNOWN_OPTIONS.split()):
                yield f"stream {stream.name}: the option {name} is unknown here; did you mean {meant}?"


def _meant(written: str, known: Iterable[str]) -> str:
    """The known name that is nearly, but not, the written one."""
    folded = {name.lower(): name for name in known}
    close = difflib.get_close_matches(written.lower(), folded, 1, _ALIKE)
    return folded[close[0]] if close and written.lower() not in folded else ""
