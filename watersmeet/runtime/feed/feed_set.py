"""The feeds of an engine, one for each group of streams: they pass batches to the tick loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from watersmeet.errors import StateError
from watersmeet.home import layout
from watersmeet.io.folder_source import FolderSource
from watersmeet.io.folders import is_folder
from watersmeet.io.source import StreamSource, class_of
from watersmeet.io.sources import missing_folder
from watersmeet.io.watch import FolderWatch
from watersmeet.model import Stream
from watersmeet.options import Options
from watersmeet.runtime.feed.source_feed import Pace, SourceFeed
from watersmeet.runtime.feed.stream_groups import StreamGroups
from watersmeet.runtime.feed.streaming import StreamingFeed
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


def reads_folders(home: Path, group: str, streams: Sequence[Stream]) -> bool:
    """Whether tasks read the files of a group themselves. A group keeps the way in which it was begun."""
    if layout.checkpoint(home, group).exists():
        return False
    strange = [stream for stream in streams if not is_folder(stream)]
    if strange and layout.positions(home, group).exists():
        raise missing_folder(strange[0]) or StateError(
            f"stream {strange[0].name} is a folder of Parquet files in this home, but is declared differently now",
            hint="declare it as before, with no option other than maxFilesPerTrigger and maxBytesPerTrigger, "
            "or use another --home",
        )
    return not strange


class Feeds:
    """The running feeds."""

    def __init__(
        self, loop: TickLoop, groups: StreamGroups, options: Options, spark: Callable[[], SparkSession]
    ) -> None:
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
        sources = self._opened(group, streams)
        if sources is None:
            return StreamingFeed(self._loop, group, streams, frames, self._spark, tick=self._options.tick, once=once)
        seconds = parse_duration(self._options.tick) / 1e6
        pace = Pace(seconds, once, lambda: len(self._groups.members()) == 1)
        return SourceFeed(self._loop, group, streams, sources, pace)

    def _opened(self, group: str, streams: list[Stream]) -> dict[str, StreamSource] | None:
        """The sources of a group by stream; None if Spark reads them."""
        found = class_of(streams[0])
        if found is not None and not layout.checkpoint(self._loop.home, group).exists():
            return {stream.name: found(stream) for stream in streams}
        if not reads_folders(self._loop.home, group, streams):
            return None
        watch, settle = FolderWatch(), self._options.settle_seconds
        requests = {stream.name: layout.retry_request(self._loop.home, stream.name) for stream in streams}
        return {stream.name: FolderSource(stream, settle, watch, requests[stream.name]) for stream in streams}

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
