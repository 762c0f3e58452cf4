"""FROM kafka: ranges of offsets of the partitions of a topic. The driver fixes them, and tasks read the messages."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from watersmeet.errors import InputError, ModelError
from watersmeet.home.counters import Reason
from watersmeet.io.connectors.kafka.columns import check_columns
from watersmeet.io.connectors.kafka.reader import OffsetPiece, OffsetRange
from watersmeet.io.connectors.kafka.settings import SOURCE, check_needs
from watersmeet.io.connectors.kafka.topics import Topic, TopicState
from watersmeet.io.source import Extent, History, LeftOut, StreamSource
from watersmeet.model import Stream

_log = logging.getLogger("watersmeet")
_ROW_BYTES = 25  # of a row as Parquet
_WORTH_A_TASK = 20_000  # messages
_OFTEN = 0.01  # seconds from one look at a topic to the next

Range = tuple[int, int]


@dataclass
class TopicRanges:
    """What a batch has of a topic."""

    topic_id: str
    ranges: dict[int, Range] = field(default_factory=dict)  # by partition, also those without new messages
    lost: dict[int, Range] = field(default_factory=dict)  # offsets that were gone, and are left out

    @classmethod
    def of(cls, extent: Extent) -> TopicRanges:
        return cls(extent["topic"], _ranges(extent["ranges"]), _ranges(extent["lost"]))

    @property
    def extent(self) -> Extent:
        return {"topic": self.topic_id, "ranges": _plain(self.ranges), "lost": _plain(self.lost)}

    @property
    def rows(self) -> int:
        return sum(end - begin for begin, end in self.ranges.values())

    @property
    def ends(self) -> dict[int, int]:
        return {number: end for number, (_, end) in self.ranges.items()}


def _plain(ranges: Mapping[int, Range]) -> dict[str, list[int]]:
    return {str(partition): list(offsets) for partition, offsets in ranges.items()}


def _ranges(raw: Mapping[str, Any]) -> dict[int, Range]:
    return {int(partition): (int(begin), int(end)) for partition, (begin, end) in raw.items()}


class KafkaSource(StreamSource):
    row_options = ("format", "sep", "framing")
    file_options = ("schema",)
    names_files = False

    @classmethod
    def check(cls, stream: Stream) -> None:
        assert stream.source is not None
        whose, options = f"stream {stream.name}", stream.source.options
        if not stream.source.path:
            raise ModelError(f"{whose}: FROM kafka needs the name of a topic", hint="write FROM kafka 'topic' WITH (…)")
        SOURCE.check(whose, options)
        check_needs(whose, options)
        check_columns(stream, dict(options).get("format", "json"))

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        assert stream.source is not None
        self._topic = Topic(stream.name, stream.source)
        self.patience = float(self._topic.own["timeoutSeconds"])
        self._state = TopicState("", ())
        self._seen: dict[int, int] = {}  # by partition: up to where there are messages
        self._first: dict[int, int] = {}  # and from where on
        self._goal: dict[int, int] | None = None  # of a run until nothing is new
        self._taken = TopicRanges("")  # the newest

    # Where it is ---------------------------------------------------------------------------------

    def resume(self, history: History) -> None:
        newest = history.newest or history.before
        if newest is not None:
            self._taken = TopicRanges.of(newest)
            return
        state = self._topic.state()
        offsets = self._topic.starting(state.partitions)
        self._taken = TopicRanges(state.id, {number: (offset, offset) for number, offset in offsets.items()})

    @property
    def position(self) -> Extent:
        at = self._taken.ends
        return TopicRanges(self._taken.topic_id, {number: (end, end) for number, end in at.items()}).extent

    def repeat(self, extent: Extent) -> Extent:
        """The ranges without offsets that are gone meanwhile, if that is allowed."""
        before, state = TopicRanges.of(extent), self._topic.state()
        ranges, lost = dict(before.ranges), dict(before.lost)
        if before.topic_id != state.id:
            self._lose("the topic was deleted and created again")
            lost |= {number: offsets for number, offsets in ranges.items() if offsets[0] < offsets[1]}
            ranges = {number: (end, end) for number, end in before.ends.items()}
        else:
            first = self._topic.earliest(state.partitions)
            for number, (begin, end) in before.ranges.items():
                if begin < end and first.get(number, end) > begin:
                    self._lose(f"offsets {begin} to {min(end, first[number]) - 1} of partition {number} are gone")
                    ranges[number] = min(end, first[number]), end
                    lost[number] = begin, ranges[number][0]
        self._taken = TopicRanges(before.topic_id, ranges, lost)
        return self._taken.extent

    def _lose(self, what: str) -> None:
        """Raise, unless the stream may lose messages."""
        name, topic = self.stream.name, self._topic
        if topic.own["failOnDataLoss"] == "false":
            _log.warning("stream %s, topic %s: %s", name, topic.name, what)
            return
        raise InputError(
            f"stream {name}: {what} before all of topic {topic.name} was read",
            detail="Nothing was changed. What was read before is in the state.",
            hint="give the stream failOnDataLoss = false to continue with what is there now, with the same home; "
            f"what is left out is listed in the folder rejected/{name}",
        )

    # What is new ---------------------------------------------------------------------------------

    def look(self) -> None:
        state = self._topic.state()
        ends, read = self._topic.latest(state.partitions), self._taken.ends
        if any(end > read.get(number, -1) for number, end in ends.items()):
            self._first = self._topic.earliest(state.partitions)
        self._state, self._seen = state, ends

    def end_here(self) -> None:
        self._goal = dict(self._seen)

    def pause(self, took: float) -> float:
        return max(_OFTEN, took)  # brokers reply within milliseconds, or something is wrong

    def take(self) -> Extent | None:
        at, lost = self._taken.ends, {}
        if self._taken.topic_id != self._state.id:
            self._lose("the topic was deleted and created again")
            lost, at = dict.fromkeys(at, (0, 0)), {}
        ends, first = self._seen, self._first
        if missing := [number for number in at if number not in ends]:
            self._lose(f"partition {missing[0]} is gone")
            at = {number: offset for number, offset in at.items() if number in ends}
        for number in at:
            if first.get(number, 0) > at[number]:
                self._lose(f"offsets {at[number]} to {first[number] - 1} of partition {number} are gone")
                lost[number] = at[number], first[number]
                at[number] = first[number]
        # A partition that is new is read from its beginning, whatever startingOffsets says.
        begins = {number: at.get(number, first.get(number, 0)) for number in self._state.partitions}
        if self._goal is not None:
            ends = {number: min(end, self._goal.get(number, 0)) for number, end in ends.items()}
        waiting = {number: max(0, ends[number] - begin) for number, begin in begins.items()}
        ranges = {number: (begins[number], begins[number] + take) for number, take in self._fair(waiting).items()}
        found = TopicRanges(self._state.id, ranges, lost)
        if not found.rows and not lost:
            return None
        self._taken = found
        return found.extent

    def _fair(self, waiting: dict[int, int]) -> dict[int, int]:
        """How many messages of each partition a tick reads: all, or the same share of each."""
        most, total = int(self._topic.own["maxRowsPerTick"]), sum(waiting.values())
        if total <= most:
            return waiting
        return {number: min(count, max(1, count * most // total)) if count else 0 for number, count in waiting.items()}

    # What a batch has ----------------------------------------------------------------------------

    def size(self, extent: Extent) -> int:
        return TopicRanges.of(extent).rows * _ROW_BYTES

    def pieces(self, extent: Extent, tasks: int) -> Sequence[OffsetPiece]:
        """Each piece has about as many messages as any other: a range may be cut."""
        found = TopicRanges.of(extent)
        share = room = max(_WORTH_A_TASK, -(-found.rows // max(1, tasks)))
        pieces: list[list[OffsetRange]] = [[]]
        for partition, (first, end) in sorted(found.ranges.items()):
            begin = first
            while begin < end:
                if not room:
                    pieces.append([])
                    room = share
                cut = min(end, begin + room)
                pieces[-1].append(OffsetRange(partition, begin, cut))
                room -= cut - begin
                begin = cut
        return [OffsetPiece(self.stream.name, tuple(ranges)) for ranges in pieces if ranges]

    def finish(self, extent: Extent, rejected: Mapping[str, InputError], rows: int) -> tuple[None, list[LeftOut]]:
        """The topic is the same before and after it was read, so what was read is of this topic."""
        found = TopicRanges.of(extent)
        if found.rows and self._topic.state().id != found.topic_id:
            raise InputError(
                f"stream {self.stream.name}: topic {self._topic.name} was deleted and created again while it was read",
                detail="The tick was not committed.",
                hint="give the stream failOnDataLoss = false to continue with the new topic, with the same home",
            )
        return None, [
            LeftOut(
                f"partition {partition}",
                f"offsets {begin} to {end - 1} were gone",
                Reason.LOST,
                count=max(0, end - begin),
            )
            for partition, (begin, end) in found.lost.items()
        ]
