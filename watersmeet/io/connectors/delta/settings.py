"""The options of INTO delta."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.errors import ModelError
from watersmeet.model import Sink

OPTIONS = ("partition_by", "compact", "vacuum_hours")
_COMPACT = 100


@dataclass(frozen=True)
class DeltaSettings:
    partition_by: tuple[str, ...] = ()  # of a table that is created
    compact: int = _COMPACT  # versions after which small files are made one; 0: never
    vacuum_hours: int = 0  # after a compaction, delete files that the table has not had for so long; 0: never

    @classmethod
    def of(cls, query: str, sink: Sink, names: list[str]) -> DeltaSettings:
        options = dict(sink.options)
        return cls(
            _columns(query, options.get("partition_by", ""), names),
            _number(query, "compact", options.get("compact", str(_COMPACT))),
            _number(query, "vacuum_hours", options.get("vacuum_hours", "0")),
        )


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


def _number(query: str, option: str, text: str) -> int:
    if not text.isdigit() or len(text) > 9:  # noqa: PLR2004 - a number of 32 bits
        raise ModelError(
            f"query {query}: the option {option} cannot be {text!r}", hint="use a whole number; 0 switches it off"
        )
    return int(text)
