"""What an epoch tells of slice stores: how many rows go into them, how many slices these become, how many keys."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TypeVar

from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.home.manifest import Manifest
from watersmeet.model.sliding_window import SlidingWindow
from watersmeet.optimize.statistics import SliceStatistics
from watersmeet.plan.ruleset import Ruleset
from watersmeet.store.retention import KEEP_ALL
from watersmeet.windows.slices.cost import keys_from, store_title
from watersmeet.windows.slices.plan import reads_of, slices_of

_LEAST = 1e-9  # nothing, as a number above 0
_Name = TypeVar("_Name")
_Value = TypeVar("_Value")


def combined(
    one: Mapping[_Name, _Value], other: Mapping[_Name, _Value], add: Callable[[_Value, _Value], _Value]
) -> dict[_Name, _Value]:
    """Two tables as one: where both have a value, it is their sum."""
    return {**one, **other, **{name: add(one[name], other[name]) for name in one if name in other}}


@dataclass(frozen=True)
class MeasuredSlices:
    progress: Mapping[str, int] = field(default_factory=dict)  # microseconds of event time, by stream
    sliced: Mapping[str, int] = field(default_factory=dict)  # rows that went in, by slice store,
    slices: Mapping[str, int] = field(default_factory=dict)  # and rows of slices that they became
    windows: Mapping[str, int] = field(default_factory=dict)  # that were read of each partition, by slice store,
    keys: Mapping[str, int] = field(default_factory=dict)  # and the keys in them
    closed: Mapping[str, int] = field(default_factory=dict)  # windows, by query,
    results: Mapping[str, int] = field(default_factory=dict)  # and their results

    def plus(self, later: MeasuredSlices) -> MeasuredSlices:
        pairs = ((getattr(self, part.name), getattr(later, part.name)) for part in fields(self))
        return MeasuredSlices(*(combined(one, other, operator.add) for one, other in pairs))

    def progress_of_tick(self, ticks: int) -> dict[str, float]:
        """Seconds of event time that pass per tick, by stream."""
        return {stream: micros / ticks / 1e6 for stream, micros in self.progress.items() if micros > 0}

    @property
    def results_of_window(self) -> dict[str, float]:
        return {query: max(_LEAST, self.results[query] / closed) for query, closed in self.closed.items() if closed}

    def statistics(self, rules: Ruleset, ticks: int) -> dict[str, SliceStatistics]:
        """The statistics of the stores that rows went into."""
        grids: dict[str, list[SlidingWindow]] = {}
        for rule in rules.windows:
            for reading in reads_of(rule):
                grids.setdefault(reading.store.name, []).append(rule.query.grid)
        return {
            store.name: self._of_store(store, grids[store.name], ticks, rules.partitions)
            for store in slices_of(rules.windows).values()
            if self.sliced.get(store.name) and self.slices.get(store.name) and store.name in grids
        }

    def _of_store(self, store: SliceStore, grids: list[SlidingWindow], ticks: int, partitions: int) -> SliceStatistics:
        rows, slices = (counted[store.name] / ticks for counted in (self.sliced, self.slices))
        streams = self.progress_of_tick(ticks)
        progress = 1e6 * streams.get(store.source, max(streams.values(), default=_LEAST))
        windows = self.windows.get(store.name, 0) / partitions
        if windows:  # those of short slides are more
            length = sum(grid.range / grid.slide for grid in grids) / sum(1 / grid.slide for grid in grids)
            keys = keys_from(rows * length / progress, self.keys.get(store.name, 0) / windows)
        else:
            touched = max(1.0, progress / store.width)
            keys = keys_from(rows / touched, slices / touched)
        return SliceStatistics(store_title(store), rows, slices, keys if store.keys else 1.0)


def measured_slices(before: Manifest, after: Manifest, rules: Ruleset) -> MeasuredSlices:
    """What one tick tells."""
    names = rules.window_stores
    slices: dict[str, int] = {}
    for bucket in after.buckets:
        if bucket.store in names and bucket.first_tick == after.tick:
            slices[bucket.store] = slices.get(bucket.store, 0) + bucket.rows

    def more(now: Mapping[str, int], then: Mapping[str, int]) -> dict[str, int]:
        return {name: count - then.get(name, 0) for name, count in now.items()}

    now, then = after.totals, before.totals
    closed = {}
    for query in (rule.query for rule in rules.windows):
        opened = before.windows.get(query.name, KEEP_ALL)
        if opened > KEEP_ALL:
            closed[query.name] = max(0, after.windows.get(query.name, opened) - opened) // query.grid.slide
    return MeasuredSlices(
        progress={name: newest - before.newest[name] for name, newest in after.newest.items() if name in before.newest},
        sliced=more(now.sliced, then.sliced),
        slices=slices,
        windows=more(now.windows_read, then.windows_read),
        keys=more(now.keys_read, then.keys_read),
        closed=closed,
        results={query: now.results[query] - then.results[query] for query in closed},
    )
