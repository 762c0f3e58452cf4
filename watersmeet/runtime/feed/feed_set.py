"""The feeds of an engine, one for each group of streams: they pass batches to the tick loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from watersmeet.io.connectors.kafka.source import is_topic
from watersmeet.io.ranges import is_range
from watersmeet.model import Stream
from watersmeet.options import Options
from watersmeet.runtime.feed.folder import FolderFeed, reads_folders
from watersmeet.runtime.feed.polling import Pace
from watersmeet.runtime.feed.ranges import RangeFeed
from watersmeet.runtime.feed.stream_groups import Groups
from watersmeet.runtime.feed.streaming import StreamingFeed
from watersmeet.runtime.feed.topics import TopicFeed
from watersmeet.runtime.loop import TickLoop
from watersmeet.sql import parse_duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Feed(Protocol):
    """Runs a tick for each batch that it finds, in a thread of its own."""

    @property
    def problem(self) -> Exception | None:
        """What it has failed with."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end, and raise what failed; False if the time was over first."""

    def stop(self) -> None:
        """Bring no more batches."""


class Feeds:
    def __init__(self, loop: TickLoop, groups: Groups, options: Options, spark: Callable[[], SparkSession]) -> None:
        self._loop = loop
        self._groups = groups
        self._options = options
        self._spark = spark
        self.running: dict[str, Feed] = {}  # by group

    def start(self, streams: Mapping[str, Stream], frames: Mapping[str, DataFrame], once: bool) -> None:
        """One feed for the streams declared together, another for those that came later."""
        self._groups.join(streams.values())
        for group, members in self._groups.members().items():
            if group not in self.running:
                self.running[group] = self._start(group, [streams[name] for name in members], frames, once)

    def _start(self, group: str, streams: list[Stream], frames: Mapping[str, DataFrame], once: bool) -> Feed:
        loop = self._loop
        seconds = parse_duration(self._options.tick) / 1e6
        pace = Pace(seconds, once, lambda: len(self._groups.members()) == 1)
        if is_topic(streams[0]):
            return TopicFeed(loop, group, streams, pace)
        if is_range(streams[0]):
            return RangeFeed(loop, group, streams, pace)
        if reads_folders(loop.home, group, streams):
            return FolderFeed(loop, group, streams, pace, self._options.settle_seconds)
        return StreamingFeed(loop, group, streams, frames, self._spark, self._options.tick, once)

    @property
    def problem(self) -> Exception | None:
        """What one of them has failed with."""
        return next((feed.problem for feed in list(self.running.values()) if feed.problem is not None), None)

    def wait(self, timeout: float | None) -> bool:
        """Wait until all have ended (True), or the time is over (False). Raises what one has failed with."""
        end = None if timeout is None else time.monotonic() + timeout
        for feed in list(self.running.values()):
            if not feed.wait(None if end is None else max(0.0, end - time.monotonic())):
                return False
        return True

    def stop(self) -> None:
        for feed in list(self.running.values()):
            feed.stop()
