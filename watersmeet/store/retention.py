"""How long a store must retain its rows.

A row of alias i can still take part in a result while some other alias j of the query may deliver a row
with τj ≤ τi + wi. Rows of j below j's watermark are dropped as late, so once every other alias's watermark
has passed τi + wi the row is dead. The horizon of a stream's store is the smallest τ that is still alive. A row of a
materialized store is dead once every stream outside of it has passed the row's deadline. A row u of a leaf (see LEFT,
SEMI and ANTI joins) also tells of partners that have come already, while a row is undecided that u may be a partner of:
until the leaf's own watermark has passed τu + wu + w, with w the shortest of the other windows. A stream may also be
declared to retain its rows for some time behind its own watermark, so that later queries have history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from watersmeet.model import Alias, JoinForm, Stream
from watersmeet.model.stream import DAY
from watersmeet.store.kernels import I64

KEEP_ALL = -(1 << 62)
KEEP_NONE = 1 << 62
BEGIN = 3653 * DAY  # how far ahead of the clock a stream may begin


def watermarks(
    streams: Iterable[Stream], newest: Mapping[str, int], raised: Mapping[str, int] | None = None
) -> dict[str, int]:
    """For each stream, the event time below which a row is late, or too late because the stream was silent."""
    marks = {
        stream.name: newest[stream.name] - stream.lateness if stream.name in newest else KEEP_ALL for stream in streams
    }
    for stream, mark in (raised or {}).items():
        if stream in marks:
            marks[stream] = max(marks[stream], mark)
    return marks


@dataclass(frozen=True)
class LimitAhead:
    """Above which event time a row of a stream is too far ahead: of the stream and of the clock.

    One such row would move the watermark, and all good rows after it would be late. The clock lets a stream continue
    after a pause; the newest row lets it have event times that are far from now."""

    newest: int  # the later of the clock and the newest row of the stream
    ahead: int
    begin: int | None = None  # where no row has come yet: the latest time that the stream may begin at

    def above(self, tau: I64) -> int:
        """The limit for these rows. All rows of a stream that begins may be ahead of the clock, which may be wrong."""
        limit = self.newest + self.ahead
        if self.begin is not None and len(tau) and limit < (first := int(tau.min())) <= self.begin:
            return first + self.ahead
        return limit


def limits_ahead(streams: Iterable[Stream], newest: Mapping[str, int], now: int) -> dict[str, LimitAhead]:
    """The limits of how far rows may be ahead, by stream; a stream without a limit is left out."""
    return {
        stream.name: LimitAhead(max(newest[stream.name], now), stream.ahead)
        if stream.name in newest
        else LimitAhead(now, stream.ahead, now + BEGIN)
        for stream in streams
        if stream.ahead is not None
    }


def materialized_horizons(outside: Mapping[str, tuple[str, ...]], marks: Mapping[str, int]) -> dict[str, int]:
    """For each materialized store, the deadline from which rows are kept."""
    return {store: min(marks[stream] for stream in streams) for store, streams in outside.items()}


def horizons(joins: Iterable[JoinForm], streams: Iterable[Stream], marks: Mapping[str, int]) -> dict[str, int]:
    """For each stream that a join reads or that is retained, the event time from which rows are kept."""
    kept: dict[str, int] = {}
    for stream in streams:
        if stream.retain != 0:
            mark = marks[stream.name]
            kept[stream.name] = KEEP_ALL if stream.retain is None else max(KEEP_ALL, mark - stream.retain)
    for join in joins:
        for alias in join.aliases:
            others = [marks[other.stream] for other in join.aliases if other.name != alias.name]
            if not others:
                horizon = KEEP_NONE
            elif alias.window is None:
                horizon = KEEP_ALL
            else:
                horizon = max(KEEP_ALL, min(others) - alias.window)
            if join.leaf is not None and alias.name == join.aliases[-1].name:
                horizon = min(horizon, _undecided(join, alias, marks[alias.stream]))
            kept[alias.stream] = min(kept.get(alias.stream, KEEP_NONE), horizon)
    return kept


def _undecided(join: JoinForm, leaf: Alias, mark: int) -> int:
    """From which event time on rows of a leaf may be partners of rows that its own watermark has not decided."""
    shortest = min((alias.window for alias in join.preserved if alias.window is not None), default=None)
    if leaf.window is None or shortest is None:
        return KEEP_ALL
    return max(KEEP_ALL, mark - leaf.window - shortest)
