"""What queries need of slice stores, and where they find it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from watersmeet.aggregate.accumulator import Accumulator, accumulators_of
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.model.expression import Expression
from watersmeet.model.forms import PartialAggregate
from watersmeet.model.sliding_window import SlidingWindow


@dataclass(frozen=True)
class SliceNeed:
    """Partials that a query needs of a source by key. Without keys a slice has a row for all rows, passing or not."""

    source: str
    filter: Expression | None
    keys: tuple[Expression, ...]
    partials: tuple[PartialAggregate, ...]
    grid: SlidingWindow
    spread: bool = False  # of results of a join, in the windows that contain all their members


@dataclass(frozen=True)
class SliceRead:
    """Where a need is fulfilled: the store, the count that is above 0 where the query has a key, and the partials with
    the filters that they have in the store."""

    store: SliceStore
    present: Accumulator
    partials: tuple[PartialAggregate, ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:  # queries are grouped by it in every tick
        return hash((self.store, self.present, self.partials))

    @cached_property
    def parts(self) -> tuple[Accumulator, ...]:
        return tuple(dict.fromkeys(part for partial in self.partials for part in accumulators_of(partial)))
