"""The options of INTO delta."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.errors import ModelError
from watersmeet.io.connectors.options import Option, OptionTable, number_or_zero
from watersmeet.model import Sink

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
        partitions = _columns(query, options["partition_by"], names)
        return cls(partitions, int(options["compact"]), int(options["vacuum_hours"]))


def _columns(query: str, text: str, names: list[str]) -> tuple[str, ...]:
    known = {name.lower(): name for name in names}
    given = [part.strip() for part in text.split(",") if part.strip()]
    for name in given:
        if name.lower() not in known:
            raise ModelError(
                f"query {query}: the option partition_by names {name}, which is no column of the query",
                detail=f"Its columns: {', '.join(names)}.",
            )
    if given and len(given) == len(names):
        raise ModelError(
            f"query {query}: the option partition_by names all columns", hint="leave at least one of them out"
        )
    return tuple(dict.fromkeys(known[name.lower()] for name in given))
