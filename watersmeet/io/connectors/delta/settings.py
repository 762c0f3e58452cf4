"""The options of FROM delta and INTO delta."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.errors import ModelError
from watersmeet.io.connectors.options import (
    Option,
    OptionTable,
    check_installed,
    columns_in,
    number,
    number_or_zero,
    one_of,
)
from watersmeet.model import Sink, Stream

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


INTO_DELTA = OptionTable(
    "INTO delta",
    (
        Option("partition_by"),
        Option("compact", "100", number_or_zero),
        Option("vacuum_hours", "0", number_or_zero),
    ),
)


@dataclass(frozen=True)
class DeltaSettings:
    partition_by: tuple[str, ...]  # of a table that is created
    compact: int  # versions after which small files are made one; 0: never
    vacuum_hours: int  # after a compaction, files that the table has not had for so long are deleted; 0: never

    @classmethod
    def of(cls, query: str, sink: Sink, names: list[str]) -> DeltaSettings:
        INTO_DELTA.check(f"query {query}", sink.options)
        options = INTO_DELTA.own(dict(sink.options))
        partitions = _partitions(query, options["partition_by"], names)
        return cls(partitions, int(options["compact"]), int(options["vacuum_hours"]))


def _partitions(query: str, text: str, names: list[str]) -> tuple[str, ...]:
    found = columns_in(query, "partition_by", text, names)
    if found and len(found) == len(names):
        raise ModelError(
            f"query {query}: the option partition_by names all columns", hint="leave at least one of them out"
        )
    return found
