"""A feed of streams that are logs: it fixes the range of each that a tick reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property

from watersmeet.home import layout
from watersmeet.home.chained_log import ChainedLog
from watersmeet.io.folders import share_pieces
from watersmeet.io.ranges import Position, RangeLog, RangePiece, Ranges, load_ranges, range_source
from watersmeet.model import Stream
from watersmeet.runtime.exec.executor import Executor, Rank
from watersmeet.runtime.feed.polling import Pace, PollingFeed
from watersmeet.runtime.loop import TickLoop
from watersmeet.runtime.tick.orders import GatherOrder, GatherReport


@dataclass(eq=False)
class RangeBatch:
    """Ranges of logs, read by tasks."""

    group: str
    number: int
    streams: tuple[Stream, ...]
    pieces: Mapping[str, Sequence[RangePiece]]  # by stream
    write_down: Callable[[], None]

    @cached_property
    def bytes(self) -> int:
        return sum(piece.bytes for pieces in self.pieces.values() for piece in pieces)

    def shared_out(self, order: GatherOrder, tasks: int) -> GatherOrder:
        return replace(order, streams=self.streams, work=share_pieces(self.pieces, tasks))

    def gather(self, order: GatherOrder, executor: Executor, rank: Rank) -> Future[list[GatherReport]]:
        return executor.submit(self.shared_out(order, executor.parallelism), rank)

    def begin(self) -> None:
        self.write_down()

    def check(self, reports: list[GatherReport], executor: Executor) -> list[GatherReport]:
        return []  # what a task could not read has stopped the tick


class RangeFeed(PollingFeed):
    def __init__(self, loop: TickLoop, group: str, streams: Sequence[Stream], pace: Pace) -> None:
        super().__init__(loop, group, pace)
        self._streams = tuple(streams)
        self._sources = {stream.name: range_source(stream) for stream in streams}
        known = load_ranges(loop.home, group)
        self._log = known or RangeLog(ChainedLog(layout.ranges(loop.home, group)))
        self._at: dict[str, Position] = {
            name: source.begin(self._log.ranges[name][1] if known else None) for name, source in self._sources.items()
        }
        if known is None:  # "the newest rows" are the same at the next start
            self._log.start(self._at)
        self._thread.start()

    def _begun(self) -> RangeBatch | None:
        if self._log.batch <= self._loop.manifest.batches.get(self._group, -1):
            return None
        ranges = self._log.ranges
        pieces = {name: source.between(*ranges[name]) for name, source in self._sources.items()}
        return self._batch(self._log.batch, pieces, lambda: None)

    def _expects_more(self, waited: float) -> bool:
        return False

    def _close(self) -> None:
        """Sources hold nothing open."""

    def _look(self) -> None:
        for name, source in self._sources.items():
            source.look(self._at[name])

    def _take(self) -> RangeBatch | None:
        ranges: Ranges = {name: (at, at) for name, at in self._at.items()}
        pieces: dict[str, list[RangePiece]] = {}
        for name, source in self._sources.items():
            taken = source.take(self._at[name])
            if taken is not None:
                end, found = taken
                ranges[name] = self._at[name], end
                pieces[name] = found
        self._at = {name: end for name, (_, end) in ranges.items()}
        if not any(pieces.values()):
            return None  # where there are no rows there is no tick; the next one's range begins behind
        # The batch that is probed now, if there is one, has been written down by now.
        return self._batch(self._log.batch + 1, pieces, lambda: self._log.begin(ranges))

    def _batch(
        self, number: int, pieces: Mapping[str, Sequence[RangePiece]], write_down: Callable[[], None]
    ) -> RangeBatch:
        return RangeBatch(self._group, number, self._streams, pieces, write_down)
