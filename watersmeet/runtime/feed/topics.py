"""A feed of streams that are topics of Kafka. The driver fixes ranges of offsets and logs them; tasks read them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path

from watersmeet.errors import InputError
from watersmeet.home import layout
from watersmeet.home.counters import Reason
from watersmeet.home.files import append
from watersmeet.io.connectors.kafka.reader import OffsetRange
from watersmeet.io.connectors.kafka.topics import Topic, TopicState, Unreachable
from watersmeet.io.offsets import TopicRanges, load_offsets
from watersmeet.model import Stream
from watersmeet.runtime.exec.executor import Executor, Rank
from watersmeet.runtime.feed.polling import Pace, PollingFeed
from watersmeet.runtime.loop import TickLoop
from watersmeet.runtime.tick.orders import GatherOrder, GatherReport

_log = logging.getLogger("watersmeet")
_ROW_BYTES = 25  # of a row as Parquet, by which the tick loop judges the size of a batch
_WORTH_A_TASK = 20_000  # messages
_OFTEN = 0.01  # seconds from one look at the topics to the next
_PAUSE = 1.0  # seconds from one try to reach a broker to the next


@dataclass(eq=False)
class OffsetBatch:
    """Ranges of offsets of topics, read by tasks."""

    group: str
    number: int
    streams: tuple[Stream, ...]
    topics: Mapping[str, TopicRanges]  # by stream
    home: Path
    write_down: Callable[[], None]
    check_topics: Callable[[], None]  # that they are the topics whose offsets these are

    @property
    def rows(self) -> int:
        return sum(end - begin for one in self.topics.values() for begin, end in one.ranges.values())

    @property
    def bytes(self) -> int:
        return self.rows * _ROW_BYTES

    def shared_out(self, order: GatherOrder, tasks: int) -> GatherOrder:
        """Each task gets about as many messages as any other: a range may be cut."""
        share = max(_WORTH_A_TASK, -(-self.rows // max(1, tasks)))
        work: list[list[OffsetRange]] = [[]]
        room = share
        for stream, one in self.topics.items():
            for partition, (first, end) in sorted(one.ranges.items()):
                begin = first
                while begin < end:
                    if not room:
                        work.append([])
                        room = share
                    cut = min(end, begin + room)
                    work[-1].append(OffsetRange(stream, partition, begin, cut))
                    room -= cut - begin
                    begin = cut
        return replace(order, streams=self.streams, work=tuple(tuple(ranges) for ranges in work if ranges))

    def gather(self, order: GatherOrder, executor: Executor, rank: Rank) -> Future[list[GatherReport]]:
        return executor.submit(self.shared_out(order, executor.parallelism), rank)

    def begin(self) -> None:
        self.write_down()

    def check(self, reports: list[GatherReport], executor: Executor) -> list[GatherReport]:
        self.check_topics()
        return [self._note(stream, one) for stream, one in self.topics.items() if one.lost]

    def _note(self, stream: str, one: TopicRanges) -> GatherReport:
        """Name the offsets that were gone where users find them; the report counts them."""
        records = [
            {"file": f"partition {partition}", "because": f"offsets {begin} to {end - 1} were gone", "detail": ""}
            for partition, (begin, end) in one.lost.items()
        ]
        append(layout.rejected_files(self.home, stream), records)
        report = GatherReport(stream)
        lost = sum(max(0, end - begin) for begin, end in one.lost.values())
        report.counts.set_aside[Reason.LOST, stream] = lost
        return report


class TopicFeed(PollingFeed):
    def __init__(self, loop: TickLoop, group: str, streams: Sequence[Stream], pace: Pace) -> None:
        super().__init__(loop, group, pace)
        self._streams = tuple(streams)
        self._positions = load_offsets(loop.home, group)
        self._topics = {s.name: Topic(s.name, s.source) for s in streams if s.source is not None}
        self._seen: dict[str, dict[int, int]] = {}  # by stream and partition: up to where there are messages
        self._first: dict[str, dict[int, int]] = {}  # and from where on
        self._states: dict[str, TopicState] = {}
        self._goal: dict[str, dict[int, int]] | None = None  # of a run until nothing is new
        self._given: dict[str, TopicRanges] = {}  # of the newest batch, which may not be written down yet
        self._taken = self._positions.batch
        self._thread.start()

    # Where to begin ------------------------------------------------------------------------------

    def _begun(self) -> OffsetBatch | None:
        log = self._positions
        if log.batch < -1:
            self._patiently(self._begin_at_the_start)
        self._given, self._taken = log.streams, log.batch
        if log.batch <= self._loop.manifest.batches.get(self._group, -1):
            return None
        self._given = {}  # so that the look asks for all there is
        self._patiently(self._look_once)
        self._given = log.streams
        ranges = {name: self._still_there(name, one) for name, one in log.streams.items()}
        if ranges != log.streams:
            log.begin(log.batch, ranges)
            self._given = ranges
        return self._batch(log.batch, ranges, lambda: None)

    def _begin_at_the_start(self) -> None:
        found = {}
        for name, topic in self._topics.items():
            state = topic.state()
            offsets = topic.starting(state.partitions)
            found[name] = TopicRanges(state.id, {number: (offset, offset) for number, offset in offsets.items()})
        self._positions.begin(-1, found)

    def _still_there(self, name: str, one: TopicRanges) -> TopicRanges:
        """The ranges of a batch that is repeated, without offsets that are gone meanwhile, if that is allowed."""
        if one.topic_id != self._states[name].id:
            self._lost(name, "the topic was deleted and created again")
            gone = {number: offsets for number, offsets in one.ranges.items() if offsets[0] < offsets[1]}
            ends = {number: (end, end) for number, (_, end) in one.ranges.items()}
            return TopicRanges(one.topic_id, ends, one.lost | gone)
        first = self._first[name]
        ranges, lost = dict(one.ranges), dict(one.lost)
        for number, (begin, end) in one.ranges.items():
            if begin < end and first.get(number, end) > begin:
                self._lost(name, f"offsets {begin} to {min(end, first[number]) - 1} of partition {number} are gone")
                ranges[number] = min(end, first[number]), end
                lost[number] = begin, ranges[number][0]
        return TopicRanges(one.topic_id, ranges, lost)

    def _lost(self, name: str, what: str) -> None:
        """Raise, unless the stream may lose messages."""
        topic = self._topics[name]
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

    def _look(self) -> None:
        self._patiently(self._look_once)
        if self._pace.once and self._goal is None:
            self._goal = {name: dict(ends) for name, ends in self._seen.items()}

    def _look_once(self) -> None:
        for name, topic in self._topics.items():
            state = topic.state()
            ends, before = topic.latest(state.partitions), self._given.get(name)
            read = {number: end for number, (_, end) in before.ranges.items()} if before is not None else {}
            if any(end > read.get(number, -1) for number, end in ends.items()):
                self._first[name] = topic.earliest(state.partitions)
            self._states[name], self._seen[name] = state, ends

    def _until_next_look(self, taken: float) -> float:
        return max(_OFTEN, taken)  # brokers reply within milliseconds, or something is wrong

    def _close(self) -> None:
        self._topics.clear()  # which ends the connections

    def _patiently(self, action: Callable[[], None]) -> None:
        """Try until brokers reply; a run that ends by itself gives up after a while."""
        began = time.monotonic()
        limit = min(float(topic.own["timeoutSeconds"]) for topic in self._topics.values())
        while not self._stopped.is_set():
            try:
                return action()
            except Unreachable as problem:
                name = next(iter(self._topics.values())).name
                if (self._pace.once or self._taken < -1) and time.monotonic() - began > limit:
                    raise InputError(
                        f"the brokers of topic {name} cannot be reached: {problem}",
                        hint="check bootstrap.servers and the security settings, and start again with the same home",
                    ) from None
                _log.warning("topic %s: %s", name, problem)
                self._stopped.wait(_PAUSE)

    def _expects_more(self, waited: float) -> bool:
        return False

    def _take(self) -> OffsetBatch | None:
        if not self._seen:
            return None  # stopped before brokers replied
        found = {name: self._next_ranges(name) for name in self._topics}
        if not any(begin < end for one in found.values() for begin, end in one.ranges.values()) and not any(
            one.lost for one in found.values()
        ):
            return None
        number = self._taken + 1
        self._given, self._taken = found, number
        return self._batch(number, found, lambda: self._positions.begin(number, found))

    def _next_ranges(self, name: str) -> TopicRanges:
        state, before = self._states[name], self._given.get(name)
        at = {number: end for number, (_, end) in before.ranges.items()} if before is not None else {}
        lost: dict[int, tuple[int, int]] = {}
        if before is not None and before.topic_id != state.id:
            self._lost(name, "the topic was deleted and created again")
            lost, at = dict.fromkeys(at, (0, 0)), {}
        ends = self._seen[name]
        if missing := [number for number in at if number not in ends]:
            self._lost(name, f"partition {missing[0]} is gone")
            at = {number: offset for number, offset in at.items() if number in ends}
        first = self._first.get(name, {})
        for number in at:
            if first.get(number, 0) > at[number]:
                self._lost(name, f"offsets {at[number]} to {first[number] - 1} of partition {number} are gone")
                lost[number] = at[number], first[number]
                at[number] = first[number]
        # A partition that is new is read from its beginning, whatever startingOffsets says.
        begins = {number: at.get(number, first.get(number, 0)) for number in state.partitions}
        if self._goal is not None:
            goal = self._goal.get(name, {})
            ends = {number: min(end, goal.get(number, 0)) for number, end in ends.items()}
        waiting = {number: max(0, ends[number] - begin) for number, begin in begins.items()}
        ranges = {number: (begins[number], begins[number] + take) for number, take in self._fair(name, waiting).items()}
        return TopicRanges(state.id, ranges, lost)

    def _fair(self, name: str, waiting: dict[int, int]) -> dict[int, int]:
        """How many messages of each partition a tick reads: all, or the same share of each."""
        most, total = int(self._topics[name].own["maxRowsPerTick"]), sum(waiting.values())
        if total <= most:
            return waiting
        return {number: min(count, max(1, count * most // total)) if count else 0 for number, count in waiting.items()}

    def _batch(self, number: int, ranges: dict[str, TopicRanges], write_down: Callable[[], None]) -> OffsetBatch:
        def check() -> None:
            for name, one in ranges.items():
                if any(begin < end for begin, end in one.ranges.values()):
                    self._patiently(lambda name=name, one=one: self._check_same(name, one))  # type: ignore[misc]

        return OffsetBatch(self._group, number, self._streams, ranges, self._loop.home, write_down, check)

    def _check_same(self, name: str, one: TopicRanges) -> None:
        """The topic is the same before and after it was read, so what was read is of this topic."""
        if self._topics[name].state().id != one.topic_id:
            raise InputError(
                f"stream {name}: topic {self._topics[name].name} was deleted and created again while it was read",
                detail="The tick was not committed.",
                hint="give the stream failOnDataLoss = false to continue with the new topic, with the same home",
            )
