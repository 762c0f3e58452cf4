"""Formats and options of sources that are probably misspelt. Spark ignores an option that it does not know."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from watersmeet.io.source import source_formats
from watersmeet.io.sources import FILE_FORMATS
from watersmeet.model import Stream

_FORMATS = (*FILE_FORMATS, "binaryfile", "rate", "rate-micro-batch", "socket", "iceberg", "hudi")
# Those of Spark's readers of files, of all formats: an option of another format is ignored, but not misspelt.
_OPTIONS = """
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
    """What a user is told about a declaration that may be right: other formats and options are Spark's matter."""
    source = stream.source
    if source is None:
        return
    if close := _meant(source.format, (*_FORMATS, *source_formats())):
        yield f"stream {stream.name}: the format {source.format} is unknown here; did you mean {close}?"
    if source.format in FILE_FORMATS or close in FILE_FORMATS:
        for name, _ in source.options:
            if meant := _meant(name, _OPTIONS.split()):
                yield f"stream {stream.name}: the option {name} is unknown here; did you mean {meant}?"


def _meant(written: str, known: Iterable[str]) -> str:
    """The known name that is nearly, but not, the written one."""
    folded = {name.lower(): name for name in known}
    close = difflib.get_close_matches(written.lower(), folded, 1, _ALIKE)
    return folded[close[0]] if close and written.lower() not in folded else ""
