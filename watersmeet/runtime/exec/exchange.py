"""Probing with several places: each step takes place where the rows of the next store are.

The task of a place takes one step with the partial results that are there, packs what it finds into blobs, one for
each place, and somebody brings them there: Spark's shuffle, or a `LocalExecutor`. Reports travel in the same way.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence

from watersmeet.plan.ruleset import Start, Step, all_steps
from watersmeet.runtime.emit.results import Results
from watersmeet.runtime.probe.walk import Partial, Stores, Walk
from watersmeet.runtime.tick.orders import ProbeOrder

Blob = tuple[int, tuple[int, bytes]]  # place, (step to take there, pickled partial results)
REPORT = 0  # in the place of a step: the bytes are a pickled report


def first_step(order: ProbeOrder, stores: Stores, task: int, name: str) -> Iterator[Blob]:
    """The task of each place reads the new rows that concern it from their buckets."""
    place = _Place(order, stores, task, name)
    for start in order.starts:
        for info in order.buckets.get(start.stream, ()):
            if order.is_new(info) == (order.phase == 0):
                continue
            own = info.partition % order.rules.partitions == task
            staying = [step for step in start.steps if place.walk.stays(start, step, info)]
            leaving = [step for step in start.steps if step not in staying]
            if not (leaving or (own and (staying or start.emits))):
                continue
            for partial in place.walk.arrivals(start, info, 0, info.rows):
                if own:
                    yield from place.arrive(start, staying, partial)
                for step in leaving:
                    yield from place.pick(start, step, partial)
    yield from place.finish()


def next_step(order: ProbeOrder, stores: Stores, task: int, name: str, blobs: Iterable[Blob]) -> Iterator[Blob]:
    """The partial results that were sent to this place take one more step."""
    place = _Place(order, stores, task, name)
    steps = {step.id: (step, start) for start in order.starts for step in all_steps(start.steps)}
    for _, (number, data) in blobs:
        if number == REPORT:
            yield task, (REPORT, data)
        else:
            yield from place.advance(*steps[number], pickle.loads(data))
    yield from place.finish()


class _Place:
    """One place's part of a probe."""

    def __init__(self, order: ProbeOrder, stores: Stores, place: int, name: str) -> None:
        self.order = order
        self.place = place
        self.results = Results(order, stores, name)
        self.walk = Walk(order, stores, self.results.add, place)

    def arrive(self, start: Start, steps: Sequence[Step], partial: Partial) -> Iterator[Blob]:
        """Rows that are stored here: this place emits what needs no probe, and takes the steps that stay here."""
        for emit in start.emits:
            self.results.add(emit, partial, start)
        for step in steps:
            yield from self.advance(step, start, partial)

    def pick(self, start: Start, step: Step, partial: Partial) -> Iterator[Blob]:
        """Rows that are stored anywhere: those that find their partners here take the step."""
        targets = self.walk.targets(step, partial)
        mine = partial if targets is None else partial.take(targets[self.place])
        if len(mine):
            yield from self.advance(step, start, mine)

    def advance(self, step: Step, start: Start, partial: Partial) -> Iterator[Blob]:
        for found in self.walk.step(step, partial):
            for end in step.ends:
                self.results.add(end, found, start)
            for below in step.steps:
                yield from self._send(below, start, found)

    def _send(self, step: Step, start: Start, partial: Partial) -> Iterator[Blob]:
        """What belongs elsewhere is sent there; what belongs here goes on at once."""
        targets = self.walk.targets(step, partial)
        if targets is None:
            blob = pickle.dumps(partial, protocol=5)
            for place in range(self.order.rules.partitions):
                if place != self.place:
                    yield place, (step.id, blob)
            yield from self.advance(step, start, partial)
            return
        for place, rows in enumerate(targets):
            if len(rows) and place != self.place:
                yield place, (step.id, pickle.dumps(partial.take(rows), protocol=5))
        if len(targets[self.place]):
            yield from self.advance(step, start, partial.take(targets[self.place]))

    def finish(self) -> Iterator[Blob]:
        yield self.place, (REPORT, pickle.dumps(self.results.finish(self.walk)))
