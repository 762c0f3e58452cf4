"""What reads streams and gives their batches to the runtime as ticks: a query of Spark, or folder ticks."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from watersmeet.io.sources import open_source
from watersmeet.model import Stream
from watersmeet.runtime.folder_ticks import FolderTicks, reads_folders
from watersmeet.runtime.groups import Groups
from watersmeet.runtime.spark import SparkRuntime
from watersmeet.runtime.worker import REPORT_SCHEMA, make_gather

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


class Feeds:
    def __init__(self, runtime: SparkRuntime, groups: Groups, tick: str) -> None:
        self._runtime = runtime
        self._groups = groups
        self._tick = tick
        self.running: dict[str, StreamingQuery | FolderTicks] = {}  # by group

    def start(self, streams: Mapping[str, Stream], frames: Mapping[str, DataFrame], once: bool) -> None:
        """One feed for the streams declared together, another for those that came later."""
        self._groups.join(streams.values())
        for group, members in self._groups.members().items():
            if group not in self.running:
                self.running[group] = self._start(group, [streams[name] for name in members], frames, once)

    def _start(
        self, group: str, streams: list[Stream], frames: Mapping[str, DataFrame], once: bool
    ) -> StreamingQuery | FolderTicks:
        runtime, parts = self._runtime, []
        if reads_folders(runtime.home, group, streams):
            return FolderTicks(runtime, group, streams, self._tick, once)
        for stream in streams:
            frame = frames.get(stream.name)
            if frame is None:
                frame = open_source(runtime.spark, stream)
            parts.append(frame.mapInArrow(make_gather(str(runtime.home), runtime.run, group, stream), REPORT_SCHEMA))
        union = parts[0]
        for part in parts[1:]:
            union = union.union(part)
        writer = union.writeStream.foreachBatch(lambda frame, batch: runtime.run_frame(group, frame, batch))
        writer = writer.option("checkpointLocation", str(runtime.home / "checkpoints" / group))
        trigger = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=self._tick)
        return trigger.start()

    def wait(self, timeout: float | None) -> bool:
        """Wait until all have ended (True), or the time is over (False). Raises what one has failed with."""
        for query in list(self.running.values()):
            # Spark counts whole seconds.
            most = timeout if timeout is None or isinstance(query, FolderTicks) else math.ceil(timeout)
            if query.awaitTermination(most) is False:  # type: ignore[arg-type]
                return False
        return True

    def stop(self) -> None:
        for query in list(self.running.values()):
            with contextlib.suppress(Exception):  # if Spark is gone, so is the query
                query.stop()
