"""Exchange between partitions: packed partial results whose next step is in another partition.

Spark's shuffle or a `LocalExecutor` brings the blobs to their partitions. Reports travel in the same way.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator

from watersmeet.plan.ruleset import all_steps
from watersmeet.runtime.emit.results import Results
from watersmeet.runtime.exec.on_disk import on_disk
from watersmeet.runtime.probe.open_buckets import TickBuckets
from watersmeet.runtime.probe.partitions import Departure, partition_of_task
from watersmeet.runtime.probe.walk import Walk
from watersmeet.runtime.tick.orders import ProbeOrder, TaskReport

Blob = tuple[int, tuple[int, bytes]]  # partition, (step to take there, pickled partial results)
REPORT = 0  # instead of the id of a step: the bytes are a pickled report


class ProbeTask:
    """One task's part of a probe."""

    def __init__(self, order: ProbeOrder, stores: TickBuckets, task: int, results: Results) -> None:
        self.order = order
        self.task = task
        self.results = results
        self.walk = Walk(order, stores, self.results, partition_of_task(order, task), self.results.suspended)

    def run(self) -> TaskReport:
        """Probe everything, where partial results stay in their partition; the files are still to be closed."""
        for departure in self._begin():
            raise AssertionError(f"{departure.step} belongs in partitions {departure.partitions}, but stays")
        return self.results.end_phase(self.walk)

    def step(self, blobs: Iterable[Blob] | None) -> Iterator[Blob]:
        """Begin with new rows, or resume with the blobs that were sent to this partition."""
        if blobs is None:
            yield from _packed(self._begin())
        else:
            yield from self._resume(blobs)
        self.results.end_phase(self.walk)
        (report,) = on_disk(self.order, [self.results.finish()])
        yield self.task, (REPORT, pickle.dumps(report))

    def _begin(self) -> Iterator[Departure]:
        for piece in self.order.begins_with(self.task):
            yield from self.walk.begin(piece)

    def _resume(self, blobs: Iterable[Blob]) -> Iterator[Blob]:
        steps = {step.id: step for start in self.order.starts for step in all_steps(start.steps)}
        for _, (number, data) in blobs:
            if number == REPORT:
                yield self.task, (REPORT, data)
            else:
                yield from _packed(self.walk.resume(steps[number], pickle.loads(data)))


def _packed(departures: Iterable[Departure]) -> Iterator[Blob]:
    for partitions, step, partial in departures:
        data = pickle.dumps(partial, protocol=5)
        for partition in partitions:
            yield partition, (step.id, data)
