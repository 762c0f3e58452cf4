"""The protocol of sources: what the driver knows of a stream's input, and what tasks read of it.

An *extent* says what one batch has of one stream, and a *position* where a source is after all of its batches. Both are
JSON values that only their source understands. A feed (`runtime/feed/source_feed.py`) logs the extents of a batch
before it begins (`io/positions.py`), so a crash repeats it with the same rows. `LogSource` is for sources whose rows
have a fixed order: an extent is a pair of positions there.
"""

from __future__ import annotations

import heapq
import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import Any, ClassVar, Protocol, TypeVar

import pyarrow as pa

from watersmeet.errors import InputError
from watersmeet.home.counters import Reason
from watersmeet.model import Stream

Extent = Any  # as it is logged
Position = Any

GROUP = "watersmeet.sources"
BUILT_IN = {
    "kafka": "watersmeet.io.connectors.kafka.source:KafkaSource",
    "delta": "watersmeet.io.connectors.delta.source:DeltaSource",
}
OFTEN = 0.02  # seconds from one look at a source to the next,
_REST = 100  # or so many times longer than a look takes
_UNKNOWN_BYTES = 1 << 20
_TOGETHER = 2 << 20  # bytes: the pieces of a stream that are not larger together are read by one task


class Unreachable(InputError):
    """The source does not reply, and may later: the feed tries again."""


class Piece(Protocol):
    """A part of a batch, for one task to read. It is pickled."""

    @property
    def stream(self) -> str: ...

    @property
    def bytes(self) -> int:
        """About how many the task has to read."""

    @property
    def file(self) -> str:
        """The file that is left out where the piece cannot be read. If it is "", that stops the tick."""

    @property
    def shares(self) -> int:
        """How many pieces the file has."""

    def read(self, stream: Stream, kept: dict[Stream, Any]) -> Iterator[pa.RecordBatch]:
        """The rows as the stream declares them. InputError where they are gone or cannot be read. `kept` is what the
        task has kept open from tick to tick."""


@dataclass(frozen=True)
class LeftOut:
    """Input that is not read, and why. It is listed in the folder `rejected` of the stream, and counted."""

    what: str
    because: str
    reason: Reason
    detail: str = ""
    count: int = 1


@dataclass
class History:
    """What the log of positions has of one stream."""

    before: Position | None = None  # where the source was when the log was begun or rewritten
    batches: list[tuple[Extent, Any]] = field(default_factory=list)  # since then, each with its outcome or None

    @property
    def newest(self) -> Extent | None:
        return self.batches[-1][0] if self.batches else None


class StreamSource(ABC):
    """The source of one stream, in the driver: it finds out what there is, and reads no rows. After it is made, one
    thread calls it: first `resume`, and `repeat` if a batch was begun before a crash."""

    row_options: ClassVar[tuple[str, ...]] = ()  # options that say what rows are, in lower case; others may change
    file_options: ClassVar[tuple[str, ...]] = ()  # options that are paths of files
    names_files: ClassVar[bool] = True  # whether FROM names a file or folder
    patience: float = 120.0  # seconds until a run that ends by itself gives up an unreachable source

    @classmethod  # noqa: B027 - there may be nothing to check
    def check(cls, stream: Stream) -> None:
        """Reject, with a ModelError, a declaration that cannot be read. Connects to nothing."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    @abstractmethod
    def resume(self, history: History) -> None:
        """Continue behind what was logged. Without a history, begin where the options say that a home begins."""

    @property
    @abstractmethod
    def position(self) -> Position | None:
        """All that `resume` needs to continue behind what was taken. None: nothing was, and it begins at the start."""

    @abstractmethod
    def look(self) -> None:
        """See what is new."""

    @abstractmethod
    def take(self) -> Extent | None:
        """The next rows, as many as a batch may have; None if there is nothing."""

    def passed(self) -> Extent | None:
        """Called where other streams have a batch and this one has nothing for it: an extent without rows, if the
        position has changed and is to be logged."""
        return None

    @abstractmethod
    def pieces(self, extent: Extent, tasks: int) -> Sequence[Piece]:
        """The rows of an extent; in so many pieces that so many tasks have something to read, if there is enough."""

    def size(self, extent: Extent) -> int:
        """About how many bytes the rows would have as Parquet: by it the tick loop judges the size of a batch."""
        return sum(piece.bytes for piece in self.pieces(extent, 1))

    def repeat(self, extent: Extent) -> Extent:
        """What a batch has now that was begun before a crash. InputError if rows are gone that must not be lost."""
        return extent

    def finish(self, extent: Extent, rejected: Mapping[str, InputError], rows: int) -> tuple[Any, list[LeftOut]]:
        """Called when tasks have read a batch, before its tick is committed. `rejected` has the files of pieces that
        could not be read, and why. Returns the outcome, which is logged with the batch unless it is None, and what is
        left out."""
        return None, []

    def end_here(self) -> None:  # noqa: B027 - a source may always come to an end
        """The run ends by itself: what comes after the last look is not taken."""

    def expects_more(self, waited: float) -> bool:
        """Whether such a run has to wait, `waited` seconds after its last batch."""
        return False

    def pause(self, took: float) -> float:
        """Seconds until the next look, if one takes so many."""
        return max(OFTEN, _REST * took)

    @property
    def bells(self) -> Sequence[int]:
        """File descriptors that can be read when there may be something new."""
        return ()

    def close(self) -> None:  # noqa: B027 - many hold nothing
        """Free what is held; nobody looks any more."""


class LogSource(StreamSource):
    """A source whose rows have a fixed order, and so positions: the rows between two of them are always the same."""

    at: Position = None
    _has_passed = False  # what has no rows, and is not logged

    @abstractmethod
    def first(self) -> Position:
        """Where a home begins."""

    @abstractmethod
    def next(self, at: Position) -> Position:
        """The position behind the next rows, as many as a batch may have; `at` if there are none."""

    @staticmethod
    def read(stream: Stream, begin: Position, end: Position) -> Iterator[pa.RecordBatch]:
        """The rows between two positions as the stream declares them, in a task."""
        raise NotImplementedError

    def bytes_between(self, begin: Position, end: Position) -> int:
        """About how many a task has to read."""
        return _UNKNOWN_BYTES

    def resume(self, history: History) -> None:
        self.at = history.before if history.newest is None else history.newest[1]
        if self.at is None:
            self.at = self.first()

    @property
    def position(self) -> Position:
        return self.at

    def look(self) -> None:
        """By default `next` sees what is new."""

    def take(self) -> Extent | None:
        extent = [self.at, self.next(self.at)]
        self.at = extent[1]
        if extent[0] == extent[1]:
            return None
        # Where there are no rows there is no tick; the next extent begins behind.
        self._has_passed = not self.pieces(extent, 1)
        return None if self._has_passed else extent

    def passed(self) -> Extent | None:
        """A later start need not find again what had no rows: it may be gone by then."""
        found, self._has_passed = self._has_passed, False
        return [self.at, self.at] if found else None

    def pieces(self, extent: Extent, tasks: int) -> Sequence[Piece]:
        begin, end = extent
        return [_Range(self.stream.name, self.bytes_between(begin, end), type(self), begin, end)]


@dataclass(frozen=True)
class _Range:
    """The rows between two positions."""

    stream: str
    bytes: int
    source: type[LogSource]
    begin: Position
    end: Position
    file = ""
    shares = 1

    def read(self, stream: Stream, kept: dict[Stream, Any]) -> Iterator[pa.RecordBatch]:
        return self.source.read(stream, self.begin, self.end)


AnyPiece = TypeVar("AnyPiece", bound=Piece)


def share_pieces(by_stream: Mapping[str, Sequence[AnyPiece]], tasks: int) -> tuple[tuple[AnyPiece, ...], ...]:
    """Who reads what: the largest first, each to the task that has least. A task makes one bucket of a stream."""
    units: list[tuple[int, Sequence[AnyPiece]]] = []
    for pieces in by_stream.values():
        size = sum(piece.bytes for piece in pieces)
        if size <= _TOGETHER:
            units += [(size, pieces)] if pieces else []
        else:
            units += [(piece.bytes, [piece]) for piece in pieces]
    units.sort(key=lambda unit: -unit[0])
    work: list[list[AnyPiece]] = [[] for _ in range(min(tasks, len(units)))]
    least = [(0, task) for task in range(len(work))]
    for size, pieces in units:
        held, task = least[0]
        work[task].extend(pieces)
        heapq.heapreplace(least, (held + size, task))
    return tuple(tuple(pieces) for pieces in work)


# Which there are -----------------------------------------------------------------------------------------------------


@cache
def _installed() -> dict[str, str]:
    return {entry.name.lower(): entry.value for entry in sorted(entry_points(group=GROUP), key=lambda one: one.name)}


def source_formats() -> dict[str, str]:
    """By format where its class is, as `module:class`. A package that is installed may add its own, as entry points of
    the group `watersmeet.sources`."""
    return {**_installed(), **BUILT_IN}


def source_class(format: str) -> type[StreamSource] | None:
    """The class for a format; None if it is for folders of files, or for Spark."""
    module, _, name = source_formats().get(format, "").partition(":")
    found: type[StreamSource] | None = getattr(importlib.import_module(module), name) if module else None
    return found


def class_of(stream: Stream) -> type[StreamSource] | None:
    return source_class(stream.source.format) if stream.source is not None else None
