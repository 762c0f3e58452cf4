"""Positions in topics: the range of offsets of each batch and partition, logged before the batch begins.

Each line has all partitions of all streams of a group, so the last one is enough. The first line, batch -1, has where
the streams begin: what startingOffsets said when the home was new counts for ever.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from watersmeet.errors import StateError, restore_hint
from watersmeet.home import layout
from watersmeet.home.files import append_durably, cut_torn_line, line, make_private, replace_durably, whole_lines

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
    path: Path
    batch: int = -2  # the newest; -2 where nothing was logged
    streams: dict[str, TopicRanges] = field(default_factory=dict)  # of the newest

    def begin(self, batch: int, streams: dict[str, TopicRanges]) -> None:
        record = {
            "batch": batch,
            "streams": {
                name: {"topic": one.topic_id, "ranges": _plain(one.ranges), "lost": _plain(one.lost)}
                for name, one in streams.items()
            },
        }
        make_private(self.path.parent)
        if self.path.exists() and self.path.stat().st_size > _LONG:
            replace_durably(self.path, line(record))
        else:
            append_durably(self.path, [record])
        self.batch, self.streams = batch, streams


def _plain(ranges: dict[int, Range]) -> dict[str, list[int]]:
    return {str(partition): list(offsets) for partition, offsets in ranges.items()}


def _ranges(raw: dict[str, Any]) -> dict[int, Range]:
    return {int(partition): (int(begin), int(end)) for partition, (begin, end) in raw.items()}


def load_offsets(home: Path, group: str) -> OffsetLog:
    """The log as the last process left it. A batch whose line is torn has not begun."""
    path = layout.offset_log(home, group)
    cut_torn_line(path)
    lines = whole_lines(path)
    if not lines:
        return OffsetLog(path)
    try:
        raw = json.loads(lines[-1])
        streams = {
            name: TopicRanges(one["topic"], _ranges(one["ranges"]), _ranges(one["lost"]))
            for name, one in raw["streams"].items()
        }
        return OffsetLog(path, int(raw["batch"]), streams)
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise StateError(
            f"{path} is damaged in its last line: {problem!r}",
            detail="It has the offsets that were read. Nothing was changed.",
            hint=restore_hint("the home folder as a whole"),
        ) from None
