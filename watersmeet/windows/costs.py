"""What windowed queries cost: CPU microseconds of a tick, and what a tick is like, on which the costs depend.

What queries share is divided among them, so that the costs of all queries add up to the cost of all windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from watersmeet.model import Output, Query
from watersmeet.optimize.statistics import DEFAULT_TICKS, Statistics
from watersmeet.optimize.weights import Weights

RESULTS = "results"  # the stage in which windows are written, alike in every form
_LONGER = 24.0  # bytes of a value of a type without a fixed width,
_BYTES = 8.0  # and of any other


@dataclass(frozen=True)
class TickFacts:
    """What a tick is like, as far as it is known; what is not known is assumed."""

    statistics: Statistics
    weights: Weights
    ticks: float  # that renew the windows of joins
    partitions: int = 1
    joined: Mapping[str, float] = field(default_factory=dict)  # by query, results of the join below its windows

    def arrivals(self, stream: str) -> float:
        """Rows of a stream that arrive in a tick."""
        return self.statistics.arriving(stream, self.ticks)

    def progress(self, query: Query) -> float:
        """Microseconds of event time that pass for a query; a tenth of its range, where nothing is known."""
        known = [self.statistics.progress.get(stream) for stream in query.streams]
        return min(query.grid.range / DEFAULT_TICKS if each is None else each * 1e6 for each in known)

    def windows(self, query: Query) -> float:
        """Windows of a query that a tick closes, on average."""
        return self.progress(query) / query.grid.slide

    def knows(self, query: Query) -> bool:
        """Whether nothing is assumed of the streams of a query."""
        return all(
            stream in self.statistics.progress and stream in self.statistics.arrivals for stream in query.streams
        )

    def writing(self, query: Query, rows: float) -> float:
        """The cost of so many results of a query in a tick."""
        if query.sink.format == "count":
            return 0.0
        row = self.weights.result_row + self.weights.result_byte * result_width(query.outputs)
        return rows * row + min(1.0, self.windows(query), rows) * self.weights.result_file


@dataclass
class WindowCosts:
    by_query: dict[str, float] = field(default_factory=dict)
    by_store: dict[str, float] = field(default_factory=dict)  # of slices: rows that go in, and slices that are read
    by_stage: dict[str, float] = field(default_factory=dict)
    keys: dict[str, float] = field(default_factory=dict)  # of the longest window, by slice store,
    structures: dict[str, str] = field(default_factory=dict)  # and what its windows are read from, in words
    assumed: set[str] = field(default_factory=set)  # queries and stores

    @property
    def total(self) -> float:
        return sum(self.by_stage.values())

    def include(self, more: WindowCosts) -> None:
        """Add the costs of other queries and stores."""
        for stage, cost in more.by_stage.items():
            self.by_stage[stage] = self.by_stage.get(stage, 0.0) + cost
        self.by_query |= more.by_query
        self.by_store |= more.by_store
        self.keys |= more.keys
        self.structures |= more.structures
        self.assumed |= more.assumed

    def add(self, stage: str, query: str, cost: float) -> None:
        self.by_stage[stage] = self.by_stage.get(stage, 0.0) + cost
        self.by_query[query] = self.by_query.get(query, 0.0) + cost


def result_width(outputs: Iterable[Output]) -> float:
    """Bytes of a result."""
    types = [output.type for output in outputs]
    return sum(_LONGER if kind in ("string", "binary") or kind.startswith("decimal") else _BYTES for kind in types)
