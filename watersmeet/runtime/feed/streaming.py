"""A feed of any other sources: a query of Structured Streaming whose micro-batches are ticks."""

from __future__ import annotations

import contextlib
import functools
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from watersmeet.home import layout
from watersmeet.home.files import make_private
from watersmeet.io.sources import open_source
from watersmeet.model import Stream
from watersmeet.runtime.feed.batches import REPORT_SCHEMA, FrameBatch, gathering
from watersmeet.runtime.feed.input_check import InputCheck
from watersmeet.runtime.loop import TickLoop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class StreamingFeed:
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
        for stream in streams:
            frame = frames.get(stream.name)
            if frame is None:
                frame = open_source(spark(), stream)
            parts.append(frame.mapInArrow(gathering(str(home), run, group, stream, key), REPORT_SCHEMA))
        union = parts[0]
        for part in parts[1:]:
            union = union.union(part)
        check = InputCheck(home, group, streams)

        def run_batch(frame: DataFrame, number: int) -> None:
            def check_files() -> None:
                check.regular(number)

            loop.run(FrameBatch(group, number, frame, home, key, check_files, functools.partial(check, number)))

        writer = union.writeStream.foreachBatch(run_batch)
        make_private(home / layout.CHECKPOINTS)  # Spark gives what it writes there its own permissions
        writer = writer.option("checkpointLocation", str(layout.checkpoint(home, group)))
        self._query = (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=tick)).start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end, and raise what failed; False if the time was over first."""
        if timeout is None:
            self._query.awaitTermination()
            return True
        return bool(self._query.awaitTermination(max(1, math.ceil(timeout))))  # Spark counts whole seconds

    def stop(self) -> None:
        with contextlib.suppress(Exception):  # if Spark is gone, so is the query
            self._query.stop()
