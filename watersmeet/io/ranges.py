"""Sources that are logs, such as a Delta table: what a batch has is a range of positions, [from, to).

The rows between two positions are always the same. The ranges of a batch are logged before it begins, so that a crash
repeats it with the same rows. Each line of the log has the positions of all streams of the group, so only the newest
one is needed.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from watersmeet.home import layout
from watersmeet.home.chained_log import ChainedLog, damaged_line
from watersmeet.model import Stream

Position = Mapping[str, Any]  # as it is written down
Ranges = dict[str, tuple[Position, Position]]  # by stream
_BEFORE_THE_FIRST = -1
_LONG = 1 << 20  # bytes of a log that is worth rewriting


class RangePiece(Protocol):
    """Rows of a range, for one task to read."""

    @property
    def stream(self) -> str: ...

    @property
    def bytes(self) -> int:
        """About how many the task has to read."""

    def read(self, stream: Stream) -> Iterator[pa.RecordBatch]:
        """The rows as the stream declares them, in a task. Raises InputError where they are gone: nothing is lost
        silently."""


class RangeSource(Protocol):
    """A stream whose source is a log. In the driver: it sees what there is, and reads no rows."""

    def begin(self, known: Position | None) -> Position:
        """Where to continue; without a known position, where the options of the stream say that a home begins."""

    def look(self, at: Position) -> None:
        """See what there is behind a position."""

    def take(self, at: Position) -> tuple[Position, list[RangePiece]] | None:
        """The next rows, as many as a tick may have, and the position behind them; None if there is nothing. There may
        be no rows up to that position."""

    def between(self, begin: Position, end: Position) -> list[RangePiece]:
        """What was taken before a crash."""


_SOURCES = {"delta": "watersmeet.io.connectors.delta.source:DeltaSource"}


def is_range(stream: Stream) -> bool:
    return stream.source is not None and stream.source.format in _SOURCES


def range_source(stream: Stream) -> RangeSource:
    """Raises ModelError if an option is wrong, or a package is missing. Connects to nothing yet."""
    assert stream.source is not None
    module, _, name = _SOURCES[stream.source.format].partition(":")
    source: RangeSource = getattr(importlib.import_module(module), name)(stream)
    return source


@dataclass
class RangeLog:
    """The ranges of a group's batches."""

    log: ChainedLog
    batch: int = _BEFORE_THE_FIRST  # the newest
    ranges: Ranges = field(default_factory=dict)  # of the newest

    @property
    def path(self) -> Path:
        return self.log.path

    def start(self, at: Mapping[str, Position]) -> None:
        """Write down where the first batch will begin."""
        self._write(_BEFORE_THE_FIRST, {stream: (position, position) for stream, position in at.items()})

    def begin(self, ranges: Ranges) -> None:
        """Write down what the next batch has, before it begins. All batches before it are in the state by now."""
        self._write(self.batch + 1, ranges)

    def _write(self, batch: int, ranges: Ranges) -> None:
        record = {"batch": batch, "ranges": ranges}
        if self.path.exists() and self.path.stat().st_size > _LONG:
            self.log.replace(record)
        else:
            self.log.append(record)
        self.batch, self.ranges = batch, ranges


def load_ranges(home: Path, group: str, *, to_write: bool = True) -> RangeLog | None:
    """The log as the last process left it, if there is one. A batch of which not all was written down has not begun."""
    log = ChainedLog(layout.ranges(home, group))
    about = "It says how far sources were read."
    records = log.read(about, to_write)
    if not records:
        return None
    try:
        raw = records[-1]
        ranges = {stream: (begin, end) for stream, (begin, end) in raw["ranges"].items()}
        return RangeLog(log, int(raw["batch"]), ranges)
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise damaged_line(log.path, len(records), problem, about) from None
