"""A task's reports leave it through here: with durability=power, the files that they name are on the disk by then.

So what a manifest names is on the disk before the manifest is. Tasks do it beside each other, on the host that wrote
the files, and while another tick is probed if they gather ahead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from watersmeet.home.disk import sync_each, sync_written
from watersmeet.home.manifest import BucketInfo, ResultFile
from watersmeet.runtime.emit.confine import Confinement
from watersmeet.runtime.tick.computation import ComputeReport
from watersmeet.runtime.tick.orders import GatherReport, MergeReport, TaskReport
from watersmeet.runtime.tick.whole_tick import TickReport

R = TypeVar("R")
_Leaf = GatherReport | TaskReport | MergeReport


def on_disk(order: Any, reports: list[R]) -> list[R]:
    """The reports, once their files are on the disk, if the plan of the order asks for that."""
    rules = getattr(order, "rules", None)
    leaves = list(_leaves(reports))
    if not leaves or not (order.durable if rules is None else rules.durable):
        return reports
    gather = getattr(order, "gather", order)
    home = Path(gather.home)
    # A bucket that Spark has to compute columns of is written once more, and no manifest names this one.
    unfinished = {rule.name for rule in rules.by_spark} if rules is not None and gather is order else set()
    state = [home / info.file for leaf in leaves for info in _buckets(leaf) if info.store not in unfinished]
    results = [(leaf, file) for leaf in leaves for file in _results(leaf)]
    state += [home / each.file.file for leaf in leaves if isinstance(leaf, TaskReport) for each in leaf.waiting]
    sync_written(state)
    failed = sync_each(sync_written, [file.staged for _, file in results])
    for leaf, file in results:
        if file.staged in failed:
            _give_up(home, leaf, file, failed[file.staged])
    return reports


def _give_up(home: Path, leaf: _Leaf, file: ResultFile, problem: OSError) -> None:
    """What is wrong with the folder of one query suspends it."""
    reasons = leaf.suspended if isinstance(leaf, TaskReport) else {}
    with Confinement(home, (), reasons).of(file.query, Path(file.staged).parent):
        raise problem


def _leaves(reports: Iterable[Any]) -> Iterator[_Leaf]:
    for report in reports:
        if isinstance(report, TickReport):
            yield from _leaves((*report.gathered, *report.probed, *report.merged))
        elif isinstance(report, ComputeReport):
            yield report.made
        elif isinstance(report, GatherReport | TaskReport | MergeReport):
            yield report


def _buckets(leaf: _Leaf) -> list[BucketInfo]:
    if isinstance(leaf, GatherReport):
        return leaf.buckets
    if isinstance(leaf, TaskReport):
        return leaf.kept
    return [leaf.merged] if leaf.merged is not None else []


def _results(leaf: _Leaf) -> list[ResultFile]:
    if isinstance(leaf, GatherReport):
        return leaf.rejected
    return leaf.results if isinstance(leaf, TaskReport) else []
