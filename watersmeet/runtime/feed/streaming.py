"""A feed of any other sources: a query of Structured Streaming whose micro-batches are ticks."""

from __future__ import annotations

import contextlib
import functools
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from watersmeet.home import layout
from watersmeet.home.files import make_private
from watersmeet.io.folder_source import set_aside
from watersmeet.io.folders import file_pieces
from watersmeet.io.source import LeftOut
from watersmeet.io.sources import is_read_by_tasks, open_source
from watersmeet.model import Stream
from watersmeet.runtime.feed.batches import REPORT_SCHEMA, FrameBatch, PieceBatch, Rejected, gathering
from watersmeet.runtime.feed.moved_input import follow_moved_input
from watersmeet.runtime.feed.spark_files import SparkFiles
from watersmeet.runtime.loop import TickLoop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOOK = 1  # seconds of a call that waits for the end of the query


def _set_aside(rejected: Rejected, rows: Counter[str]) -> dict[str, list[LeftOut]]:
    """Spark takes each name once, so what cannot be read is not tried again."""
    return {stream: set_aside(files) for stream, files in rejected.items()}


def _address(spark: SparkSession, path: str) -> str:
    """A path as Spark writes it into its logs."""
    java: Any = spark._jvm
    return str(java.org.apache.hadoop.fs.Path(path).toUri().toString())


class StreamingFeed:
    """Runs the micro-batches of a query of Structured Streaming as ticks."""

    def __init__(
        self,
        loop: TickLoop,
        group: str,
        streams: Sequence[Stream],
        frames: Mapping[str, DataFrame],
        spark: Callable[[], SparkSession],
        tick: str,
        once: bool,
    ) -> None:
        home, run = loop.home, loop.executor.run
        key = secrets.token_bytes(32)  # which reaches tasks in the way that Spark brings them their code
        parts = []
        for number, stream in enumerate(streams):
            frame = frames.get(stream.name)
            if frame is None:
                frame = open_source(spark(), stream)
                follow_moved_input(home, group, number, stream, functools.partial(_address, spark()))
            parts.append(frame.mapInArrow(gathering(str(home), run, group, stream, key), REPORT_SCHEMA))
        union = parts[0]
        for part in parts[1:]:
            union = union.union(part)
        files = SparkFiles(home, group, streams)
        for_tasks = tuple(stream for stream in streams if is_read_by_tasks(stream))

        def run_batch(frame: DataFrame, number: int) -> None:
            found = {name: file_pieces(name, some) for name, some in files.for_tasks(number).items()}
            read = PieceBatch(group, number, for_tasks, home, pieces=lambda tasks: found, finish=_set_aside)
            check, explained = functools.partial(files.check, number), functools.partial(files.explained, number)
            loop.run(FrameBatch(group, number, frame, home, key, check_files=check, files=read, explained=explained))

        writer = union.writeStream.foreachBatch(run_batch)
        make_private(home / layout.CHECKPOINTS)  # Spark gives what it writes there its own permissions
        writer = writer.option("checkpointLocation", str(layout.checkpoint(home, group)))
        self._query = (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=tick)).start()

        self._ended = threading.Event()
        self.problem: Exception | None = None
        threading.Thread(target=self._follow, name="watersmeet streaming", daemon=True).start()

    def _follow(self) -> None:
        """Wait for the end of the query in a thread that no interrupt reaches: one that meets a call to Java also ends
        the connections of other threads. In short calls, because one that was cut off is repeated only once."""
        try:
            while not self._query.awaitTermination(_LOOK):
                pass
        except Exception as problem:  # of the query; or Spark is gone, and the query with it
            self.problem = problem
        self._ended.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end, and raise what failed; False if the time was over first."""
        if not self._ended.wait(timeout):
            return False
        if self.problem is not None:
            raise self.problem
        return True

    def stop(self) -> None:
        with contextlib.suppress(Exception):  # if Spark is gone, so is the query
            self._query.stop()
