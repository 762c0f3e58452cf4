"""The life of windows, without I/O: which are open, which of them a tick closes, and what has to be stored for them.

For each windowed query the manifest has one number: the start of its first open window. All windows before it are done,
or were never to be answered; no row of an earlier event time is in a window that is still to come. So a tick that is
repeated closes the same windows, and a window that is done never comes again. Windows are never counted off one by one:
event time may jump by years.

Where a tick leaves due windows to the next ones, the first of these is the first open window: its rows stay, and it is
due again in a tick without rows.

A window is closed by the tick after which the watermarks of all streams of its query have passed its end: what comes
later for it is late. A stream that is silent for longer than its declaration allows does not hold back the others:
its watermark is raised to theirs, for good.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from watersmeet.home.manifest import Manifest
from watersmeet.model import Query, Stream
from watersmeet.plan.ruleset import Ruleset, WindowRule
from watersmeet.runtime.tick.suspension import is_new
from watersmeet.store.retention import KEEP_ALL, KEEP_NONE, watermarks
from watersmeet.windows.table import suspended_rule


@dataclass(frozen=True)
class DueWindows:
    """The windows of a query that a tick closes: those with rows that begin from `opened` on and before `until`."""

    query: str
    opened: int
    until: int
    leaves: bool = False  # by the rule of the form that the query is leaving


@dataclass(frozen=True)
class WindowLife:
    """The windows of all windowed queries in one tick, also of those that are suspended."""

    queries: tuple[Query, ...]
    streams: tuple[Stream, ...]
    rules: Ruleset
    before: Manifest
    silent: frozenset[str] = frozenset()  # streams that have been silent for so long that they do not count
    flush: bool = False  # all windows with rows are closed, whatever the watermarks

    @cached_property
    def opened(self) -> dict[str, int]:
        """By query the first window that it answers, if this tick closes none."""
        return {query.name: self._first_open(query) for query in self.queries}

    def _first_open(self, query: Query) -> int:
        """While a query changes its form, the rule that leaves has the windows before the first one of the other."""
        first, leaving = self.begins[query.name], self.rules.leaving.get(query.name)
        if leaving is None or is_new(query, self.before) or query.name not in self.rules.window:
            return first
        return min(first, self._first_of(query, leaving))

    @cached_property
    def begins(self) -> dict[str, int]:
        """By query the first window that can be computed in its form."""
        return {query.name: self._first_of(query, self._rule(query)) for query in self.queries}

    def leaves(self, query: str) -> bool:
        """Whether the windows of a query that are next to be closed are those of a form that it is leaving."""
        return self.opened[query] < self.begins[query]

    def _first_of(self, query: Query, rule: WindowRule) -> int:
        """The first open window that a rule can answer. A new query answers windows that begin after all rows that it
        has not seen: rows of earlier ticks, or with BACKFILL rows that are not stored. Another may have lost its stores
        while it was suspended, or has new ones because its form has changed."""
        fresh = is_new(query, self.before)
        seen = [
            self._begin(store, stream) if query.backfill or not fresh else self.before.newest[stream] + 1
            for store, stream in rule.reads
            if stream in self.before.newest
        ]
        first = query.grid.beginning(max(seen)) if seen and max(seen) > KEEP_ALL else KEEP_ALL
        return first if fresh else max(first, self.before.windows.get(query.name, KEEP_ALL))

    def _begin(self, store: str, stream: str) -> int:
        """The event time from which a store has all rows of this and earlier ticks."""
        begin = self.before.complete.get(stream if store in self.filled else store)
        return self.before.newest[stream] + 1 if begin is None else begin

    def _rule(self, query: Query) -> WindowRule:
        return self.rules.window.get(query.name) or suspended_rule(query)

    @cached_property
    def filled(self) -> dict[str, str]:
        """The stores that are new and are filled with the stored rows of a stream, because a query wants them."""
        backfilled = [query for query in self.queries if query.backfill and is_new(query, self.before)]
        read = [pair for query in backfilled if self._rule(query).is_filled for pair in self._rule(query).reads]
        complete = self.before.complete
        return {store: stream for store, stream in read if store not in complete and stream in complete}

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

    def _closed(self, query: Query, newest: Mapping[str, int], marks: Mapping[str, int]) -> int:
        until = self._passed(query, newest, marks)
        if self.leaves(query.name):  # a tick closes windows of a query by one rule; the next one those of the other
            until = min(until, self.begins[query.name])
        return max(self.opened[query.name], until)

    def _passed(self, query: Query, newest: Mapping[str, int], marks: Mapping[str, int]) -> int:
        """The first window that is still to come."""
        streams = query.streams
        if self.flush and any(stream in newest for stream in streams):
            return query.grid.last(max(newest[stream] for stream in streams if stream in newest)) + query.grid.slide
        return query.grid.first(min([marks[stream] for stream in streams]))

    def leaves_due(self, newest: Mapping[str, int], spoke: Collection[str]) -> bool:
        """Whether the next tick has windows to close, though it has no rows: those of a form that another one leaves
        to."""
        changing = [query for query in self.queries if self.leaves(query.name)]
        marks = self.marks(newest, spoke) if changing else {}
        return any(self._passed(query, newest, marks) > self.begins[query.name] for query in changing)

    def due(self, newest: Mapping[str, int], spoke: Collection[str]) -> list[DueWindows]:
        """What the tick closes, of each query that has something to close, if it leaves nothing to the next one."""
        until = self.after(newest, spoke)
        found = [DueWindows(name, opened, until[name], self.leaves(name)) for name, opened in self.opened.items()]
        return [due for due in found if due.opened < due.until]

    def horizons(self, first_open: Mapping[str, int]) -> dict[str, int]:
        """For each store that windows are computed from, the event time from which its rows are needed."""
        kept: dict[str, int] = {}
        for query in self.queries:
            first, begin = first_open[query.name], self.begins[query.name]
            needed = [(self._rule(query), max(first, begin))]
            if query.name in self.rules.leaving:
                needed.append((self.rules.leaving[query.name], first if first < begin else KEEP_NONE))
            for rule, horizon in needed:
                for store, _ in rule.reads:
                    kept[store] = min(kept.get(store, KEEP_NONE), horizon)
        return kept

    def complete(self, newest: Mapping[str, int], horizons: Mapping[str, int]) -> dict[str, int]:
        """By store, after the tick, the event time from which it has all rows that have come. This concerns stores that
        all rows of a stream go into; rows before the horizon of a store may be gone."""
        found: dict[str, int] = {}
        stores = {name: name for name, store in self.rules.stream_stores.items() if not store.only_wanted}
        read = [pair for rule in self.rules.windows for pair in rule.reads]
        for store, stream in dict.fromkeys((*stores.items(), *read)):
            if store in horizons and stream in newest:
                begin = self._begin(store, stream) if stream in self.before.newest else KEEP_ALL
                found[store] = max(begin, min(horizons[store], newest[stream] + 1), found.get(store, KEEP_ALL))
        return found
