"""What ticks and tasks know of the operators of windows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from watersmeet.errors import WatersmeetError
from watersmeet.home.counters import Counters
from watersmeet.home.manifest import BucketInfo
from watersmeet.plan.ruleset import WindowRule
from watersmeet.runtime.tick.orders import Order, WritingOrder
from watersmeet.store.bucket import Bucket
from watersmeet.store.kernels import I64
from watersmeet.windows.closing import Closing

Handler = Callable[[Any, int, str], list[Any]]  # executes one task of an order, under a name; gives reports
IntakeOf = Callable[[WritingOrder, WindowRule, str], "Intake"]  # of the results of the join below a windowed query


class Ticking(Protocol):
    """The part of an operator that decides what tasks do in a tick. Pure."""

    def fills(self, closing: Closing) -> Sequence[Order]:
        """Orders that put stored rows into stores that are new; tasks report them as gathered."""

    def orders(self, closing: Closing) -> Sequence[Order]:
        """Orders that make results of the windows that are due; also parts of the one order of a small tick."""


class Intake(Protocol):
    """Where rows of a stream, or results of a join, go into stores of windows."""

    def __bool__(self) -> bool:
        """Whether there are such stores."""

    @property
    def wants_earliest(self) -> bool:
        """Whether it asks for the event times of the oldest members of results."""

    def add(self, rows: pa.RecordBatch, tau: I64, earliest: I64 | None = None) -> None:
        """`tau`: the event times; of results of a join those of their newest members, and `earliest` of the oldest."""

    def finish(self, counts: Counters) -> Iterable[BucketInfo]:
        """Write the buckets of all rows that were added."""

    def abandon(self) -> Iterable[BucketInfo]:
        """In place of `finish`, where its query is suspended: the buckets that were written already."""


class Host(Protocol):
    """What a worker offers to its operators."""

    def opened(self, home: Path, info: BucketInfo) -> Bucket:
        """A bucket of the state."""

    def as_failure(self, problem: Exception, home: str, queries: Collection[str] = ()) -> WatersmeetError:
        """A failure to report; raises what another try may not meet. `queries` are those that the work was for."""

    def release_memory(self) -> None:
        """Let go of what can be read again, in all operators too."""


class Working(Protocol):
    """The part of an operator that works in tasks: one for each worker."""

    name: ClassVar[str]
    ticking: ClassVar[Ticking]

    def __init__(self, host: Host) -> None: ...

    @property
    def handlers(self) -> Mapping[type, Handler]:
        """Who executes each type of its orders."""

    def intake(self, order: WritingOrder, stores: Collection[str], task: str) -> Intake:
        """Takes rows into stores, by name; `task` tells the files from those of other tasks."""

    def forget(self) -> None:
        """Let go of what is kept in memory and can be read again."""
