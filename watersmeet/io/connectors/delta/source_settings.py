"""The options of FROM delta."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.errors import ModelError
from watersmeet.model import Stream

EARLIEST, LATEST = "earliest", "latest"
_START, _ROWS, _SKIP = "startingVersion", "maxRowsPerTick", "skipChangeCommits"
SOURCE_OPTIONS = (_START, _ROWS, _SKIP)
_DEFAULT_ROWS = 1_000_000


@dataclass(frozen=True)
class DeltaSourceSettings:
    start: str  # EARLIEST, LATEST, or the number of a version
    most_rows: int
    skips_changes: bool

    @classmethod
    def of(cls, stream: Stream) -> DeltaSourceSettings:
        assert stream.source is not None
        given = {name.lower(): value for name, value in stream.source.options}
        start = given.get(_START.lower(), EARLIEST).lower()
        if start not in (EARLIEST, LATEST) and not start.isdigit():
            raise _wrong(stream, _START, start, "use 'earliest', 'latest' or the number of a version")
        rows = given.get(_ROWS.lower(), str(_DEFAULT_ROWS))
        if not rows.isdigit() or not int(rows):
            raise _wrong(stream, _ROWS, rows, "use a number of rows, such as 100000")
        skips = given.get(_SKIP.lower(), "false").lower()
        if skips not in ("true", "false"):
            raise _wrong(stream, _SKIP, skips, "use true or false")
        return cls(start, int(rows), skips == "true")


def _wrong(stream: Stream, option: str, value: str, hint: str) -> ModelError:
    return ModelError(f"stream {stream.name}: the option {option} cannot be {value!r}", hint=hint)
