"""The options of FROM delta."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.io.connectors.options import Option, OptionTable, check_installed, number, one_of
from watersmeet.model import Stream

EARLIEST, LATEST = "earliest", "latest"


def _start(value: str) -> str:
    return (
        "" if value in (EARLIEST, LATEST) or value.isdigit() else "use 'earliest', 'latest' or the number of a version"
    )


FROM_DELTA = OptionTable(
    "FROM delta",
    (
        Option("startingVersion", EARLIEST, _start),
        Option("maxRowsPerTick", "1000000", number),
        Option("skipChangeCommits", "false", one_of("true", "false")),
    ),
)


@dataclass(frozen=True)
class DeltaSourceSettings:
    start: str  # EARLIEST, LATEST, or the number of a version
    most_rows: int
    skips_changes: bool

    @classmethod
    def of(cls, stream: Stream) -> DeltaSourceSettings:
        assert stream.source is not None
        check_installed(f"stream {stream.name}", "FROM delta", ["deltalake"], "delta")
        FROM_DELTA.check(f"stream {stream.name}", stream.source.options)
        own = FROM_DELTA.own(dict(stream.source.options))
        return cls(own["startingVersion"], int(own["maxRowsPerTick"]), own["skipChangeCommits"] == "true")
