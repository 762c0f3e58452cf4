"""What the tick loop is given: batches of feeds, and observers that want to know of ticks."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from watersmeet.home.manifest import Manifest
from watersmeet.runtime.exec.executor import Executor, Rank
from watersmeet.runtime.tick.orders import GatherOrder, GatherReport


class Batch(Protocol):
    """New rows of the streams of a group, as a feed has found them."""

    group: str
    number: int

    @property
    def bytes(self) -> int | None:
        """The size of its files, if it has files."""

    def shared_out(self, order: GatherOrder, tasks: int) -> GatherOrder:
        """The order with what each task has to read."""

    def gather(self, order: GatherOrder, executor: Executor, rank: Rank) -> Future[list[GatherReport]]:
        """Begin to make buckets of the rows."""

    def begin(self) -> None:
        """Write down what the batch has, so that it has the same after a crash. It may be gathered by then."""

    def check(self, reports: list[GatherReport], executor: Executor) -> list[GatherReport]:
        """What else is to be reported of the input, or an error if not all of it was read. `SmallerBatch` if the
        batch is to be gathered once more, without what could be read in part only."""


class SmallerBatch(Exception):
    """A batch has found that it has less than it was gathered with."""


class Observer(Protocol):
    """Is told of every tick, by the thread that runs it."""

    def gathered(self, reports: Sequence[GatherReport]) -> None:
        """Before the commit, which most wait for."""
        return

    def committed(self, manifest: Manifest) -> None: ...
