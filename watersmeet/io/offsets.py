"""Positions in topics: the range of offsets of each batch and partition, logged before the batch begins.

Each line has all partitions of all streams of a group, so the last one is enough. The first line, batch -1, has where
the streams begin: what startingOffsets said when the home was new counts for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from watersmeet.home import layout
from watersmeet.home.chained_log import ChainedLog, damaged_line

Range = tuple[int, int]
_LONG = 1 << 20  # bytes of a log that is rewritten


@dataclass
class TopicRanges:
    """Of one stream in one batch."""

    topic_id: str
    ranges: dict[int, Range] = field(default_factory=dict)  # by partition, also those without new messages
    lost: dict[int, Range] = field(default_factory=dict)  # offsets that were gone, and are left out


@dataclass
class OffsetLog:
    log: ChainedLog
    batch: int = -2  # the newest; -2 where nothing was logged
    streams: dict[str, TopicRanges] = field(default_factory=dict)  # of the newest

    @property
    def path(self) -> Path:
        return self.log.path

    def begin(self, batch: int, streams: dict[str, TopicRanges]) -> None:
        record = {
            "batch": batch,
            "streams": {
                name: {"topic": one.topic_id, "ranges": _plain(one.ranges), "lost": _plain(one.lost)}
                for name, one in streams.items()
            },
        }
        if self.path.exists() and self.path.stat().st_size > _LONG:
            self.log.replace(record)
        else:
            self.log.append(record)
        self.batch, self.streams = batch, streams


def _plain(ranges: dict[int, Range]) -> dict[str, list[int]]:
    return {str(partition): list(offsets) for partition, offsets in ranges.items()}


def _ranges(raw: dict[str, Any]) -> dict[int, Range]:
    return {int(partition): (int(begin), int(end)) for partition, (begin, end) in raw.items()}


def load_offsets(home: Path, group: str, *, to_write: bool = True) -> OffsetLog:
    """The log as the last process left it. A batch whose line is torn has not begun."""
    log = ChainedLog(layout.offset_log(home, group))
    about = "It has the offsets that were read."
    records = log.read(about, to_write)
    if not records:
        return OffsetLog(log)
    try:
        raw = records[-1]
        streams = {
            name: TopicRanges(one["topic"], _ranges(one["ranges"]), _ranges(one["lost"]))
            for name, one in raw["streams"].items()
        }
        return OffsetLog(log, int(raw["batch"]), streams)
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise damaged_line(log.path, len(records), problem, about) from None
