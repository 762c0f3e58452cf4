"""Merges that ticks do not wait for."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass

from watersmeet.home.manifest import Manifest
from watersmeet.runtime.exec.executor import Executor, Rank
from watersmeet.runtime.tick.orders import MergeOrder, MergeReport, raise_first
from watersmeet.store.merge import MergeJob


@dataclass(frozen=True)
class _Beside:
    order: MergeOrder
    future: Future[list[MergeReport]]


class MergesBeside:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._begun: list[_Beside] = []

    @property
    def running(self) -> Iterator[MergeJob]:
        return (job for beside in self._begun for job in beside.order.jobs)

    def begin(self, order: MergeOrder) -> None:
        if order.tasks:
            self._begun.append(_Beside(order, self._executor.submit(order, Rank.BESIDE)))

    def done(self, manifest: Manifest) -> list[MergeReport]:
        """The reports of merges that ended since the last tick, whose manifest this is."""
        done = [beside for beside in self._begun if beside.future.done()]
        self._begun = [beside for beside in self._begun if beside not in done]
        standing = {bucket.file for bucket in manifest.buckets}
        merged = [
            report
            for beside in done
            for report in beside.future.result()
            # One that was overtaken (its inputs expired, and were deleted while it read them) is nothing.
            if report.failure is None or all(bucket.file in standing for bucket in report.job.inputs)
        ]
        raise_first(merged)
        return merged

    def given_up(self) -> list[MergeReport]:
        """Wait for all merges that were begun, and return their reports."""
        begun, self._begun = self._begun, []
        return [report for beside in begun for report in beside.future.result()]
