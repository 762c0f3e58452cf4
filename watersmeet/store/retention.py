"""How long a store must retain its rows.

A row of alias i can still take part in a result while some other alias j of the query may deliver a row
with τj ≤ τi + wi. Rows of j below j's watermark are dropped as late, so once every other alias's watermark
has passed τi + wi the row is dead. The horizon of a stream's store is the smallest τ that is still alive. A row of a
materialized store is dead once every stream outside of it has passed the row's deadline. A stream may also be declared
to retain its rows for some time behind its own watermark, so that later queries have history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from watersmeet.model import Query, Stream

KEEP_ALL = -(1 << 62)
KEEP_NONE = 1 << 62


def watermarks(streams: Iterable[Stream], newest: Mapping[str, int]) -> dict[str, int]:
    """For each stream, the event time below which a row is late."""
    return {
        stream.name: newest[stream.name] - stream.lateness if stream.name in newest else KEEP_ALL for stream in streams
    }


def materialized_horizons(outside: Mapping[str, tuple[str, ...]], marks: Mapping[str, int]) -> dict[str, int]:
    """For each materialized store, the deadline from which rows are kept."""
    return {store: min(marks[stream] for stream in streams) for store, streams in outside.items()}


def horizons(queries: Iterable[Query], streams: Iterable[Stream], marks: Mapping[str, int]) -> dict[str, int]:
    """For each stream that a query reads or that is retained, the event time from which rows are kept."""
    kept: dict[str, int] = {}
    for stream in streams:
        if stream.retain != 0:
            mark = marks[stream.name]
            kept[stream.name] = KEEP_ALL if stream.retain is None else max(KEEP_ALL, mark - stream.retain)
    for query in queries:
        for alias in query.aliases:
            others = [marks[other.stream] for other in query.aliases if other.name != alias.name]
            if not others:
                horizon = KEEP_NONE
            elif alias.window is None:
                horizon = KEEP_ALL
            else:
                horizon = max(KEEP_ALL, min(others) - alias.window)
            kept[alias.stream] = min(kept.get(alias.stream, KEEP_NONE), horizon)
    return kept
