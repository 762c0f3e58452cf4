"""What the queries of a plan share, counted; and in words what that saves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Sharing:
    """Each figure beside the one that it would be if no query shared anything."""

    queries: int = 0
    streams: int = 0
    steps: int = 0
    steps_alone: int = 0
    shared_steps: int = 0  # those that serve several queries
    stores: int = 0  # of streams and materialized results
    stores_alone: int = 0
    slices: int = 0  # stores of partial aggregates
    slices_alone: int = 0

    @property
    def lines(self) -> list[str]:
        """The beginning of explain and of the drawing."""
        counted = f"{_count(self.queries, 'query', 'queries')} over {_count(self.streams, 'stream', 'streams')}"
        several = f", {self.shared_steps:,} of them for several queries" if self.shared_steps else ""
        found = (
            _shared(self.steps, self.steps_alone, "step", "steps", several),
            _shared(self.stores, self.stores_alone, "store", "stores"),
            _shared(self.slices, self.slices_alone, "store of slices", "stores of slices"),
        )
        return [counted, *(line for line in found if line)]


def alone(serves: Iterable[Iterable[str]]) -> list[int]:
    """For each step or store, how many there would be if each query had its own. A materialized result, which is in
    brackets, is there for the sake of queries that are counted themselves."""
    return [max(1, sum(not name.startswith("[") for name in set(names))) for names in serves]


def _shared(number: int, alone: int, one: str, many: str, several: str = "") -> str:
    if not number:
        return ""
    return f"{_count(number, one, many)}{f' instead of {alone:,}' if alone > number else ''}{several}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
