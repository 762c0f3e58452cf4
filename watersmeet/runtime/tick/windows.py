"""The life of windows, without I/O: which are open, which of them a tick closes, and what has to be stored for them.

For each windowed query the manifest has one number: the start of its first open window. All windows before it are done,
or were never to be answered; no row of an earlier event time is in a window that is still to come. So a tick that is
repeated closes the same windows, and a window that is done never comes again. Windows are never counted off one by one:
event time may jump by years.

A window is closed by the tick after which the watermarks of all streams of its query have passed its end: what comes
later for it is late. A stream that is silent for longer than its declaration allows does not hold back the others:
its watermark is raised to theirs, for good.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from watersmeet.home.manifest import Manifest
from watersmeet.model import Stream, WindowedQuery
from watersmeet.model.windowed import Batch
from watersmeet.runtime.tick.orders import Due
from watersmeet.runtime.tick.suspension import is_new, is_suspended
from watersmeet.store.retention import KEEP_ALL, KEEP_NONE, watermarks


@dataclass(frozen=True)
class Windows:
    """The windows of all windowed queries in one tick, also of those that are suspended."""

    queries: tuple[WindowedQuery, ...]
    streams: tuple[Stream, ...]
    before: Manifest
    silent: frozenset[str] = frozenset()  # streams that have been silent for so long that they do not count
    flush: bool = False  # all windows with rows are closed, whatever the watermarks

    @cached_property
    def opened(self) -> dict[str, int]:
        """By query the first window that it answers, if this tick closes none."""
        return {query.name: first_open(query, self.before) for query in self.queries}

    def marks(self, newest: Mapping[str, int], spoke: Collection[str]) -> dict[str, int]:
        """The watermarks after the tick, in which the streams that `spoke` had rows."""
        return watermarks(self.streams, newest, self.raised(newest, spoke))

    def raised(self, newest: Mapping[str, int], spoke: Collection[str]) -> dict[str, int]:
        """By stream, the watermark that it has after the tick because it was silent, where that is above its own.

        For a query with streams that are silent the others decide; where all are silent, nothing moves."""
        if not self.silent and not self.before.silent:
            return {}
        own, raised = watermarks(self.streams, newest), dict(self.before.silent)
        known = {stream: max(mark, raised.get(stream, KEEP_ALL)) for stream, mark in own.items()}
        quiet = self.silent - set(spoke)
        for query in self.queries if quiet else ():
            others = [known[stream] for stream in query.streams if stream not in quiet]
            for stream in quiet.intersection(query.streams) if others else ():
                raised[stream] = max(raised.get(stream, KEEP_ALL), min(others))
        return {stream: mark for stream, mark in raised.items() if mark > own.get(stream, KEEP_NONE)}

    def after(self, newest: Mapping[str, int], spoke: Collection[str]) -> dict[str, int]:
        """By query the first window that is open after the tick."""
        if not self.queries:
            return {}
        marks = self.marks(newest, spoke)
        return {query.name: self._closed(query, newest, marks) for query in self.queries}

    def _closed(self, query: WindowedQuery, newest: Mapping[str, int], marks: Mapping[str, int]) -> int:
        times = [newest[stream] for stream in query.streams if stream in newest]
        if self.flush and times:
            until = query.grid.last(max(times)) + query.grid.slide
        else:
            until = query.grid.first(min(marks[stream] for stream in query.streams))
        return max(self.opened[query.name], until)

    def due(self, newest: Mapping[str, int], spoke: Collection[str]) -> list[Due]:
        """What the tick closes, of each query that has something to close."""
        until = self.after(newest, spoke)
        found = [Due(name, opened, until[name]) for name, opened in self.opened.items()]
        return [due for due in found if due.opened < due.until]


def first_open(query: WindowedQuery, before: Manifest) -> int:
    """The first window that a query answers from a tick on.

    One that is new answers the windows that begin after all rows that it has not seen. Those are the rows of earlier
    ticks or, with BACKFILL, those that are not stored."""
    if not (is_new(query, before) or _lost_its_slices(query, before)):
        return before.windows.get(query.name, KEEP_ALL)
    known = [stream for stream in query.streams if stream in before.newest]
    if not known:
        return KEEP_ALL  # there was no row
    return query.grid.beginning(max(_seen_from(query, stream, before) for stream in known))


def _seen_from(query: WindowedQuery, stream: str, before: Manifest) -> int:
    unseen = before.newest[stream] + 1
    return min(unseen, before.complete.get(stream, unseen)) if query.backfill else unseen


def _lost_its_slices(query: WindowedQuery, before: Manifest) -> bool:
    """Whether it is resumed now. Nothing was aggregated for it while it was suspended; rows are stored meanwhile."""
    resumed = query.name in before.suspended and not is_suspended(query, before)
    return resumed and not isinstance(query.body, Batch)


def row_horizons(queries: Iterable[WindowedQuery], first: Mapping[str, int]) -> dict[str, int]:
    """For each stream whose rows are stored for windows, the event time from which they are needed."""
    kept: dict[str, int] = {}
    for query in queries:
        for stream in query.streams if isinstance(query.body, Batch) else ():
            kept[stream] = min(kept.get(stream, KEEP_NONE), first[query.name])
    return kept


def complete_after(
    before: Manifest, newest: Mapping[str, int], stores: Mapping[str, str], horizons: Mapping[str, int]
) -> dict[str, int]:
    """By store, the event time from which it has all rows that have come. `stores` are those that all rows of a stream
    go into, with that stream; rows before the horizon of a store may be gone."""
    found = {}
    for store, stream in stores.items():
        if store in horizons and stream in newest:
            # One that is new has all rows from this tick on.
            begin = before.complete.get(store, before.newest[stream] + 1 if stream in before.newest else KEEP_ALL)
            found[store] = max(begin, min(horizons[store], newest[stream] + 1))
    return found
