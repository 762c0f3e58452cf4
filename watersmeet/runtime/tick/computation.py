"""Columns that Spark computes, in a tick: which buckets lack them, and what the tick is once they are there.

Before anything is probed, every bucket of a store has every column that the plan asks for. New rows are gathered into
unfinished buckets; stored ones may be older than the query that asks. Both are replaced, so the same happens for a new
tick, a new query and a restart, and a bucket that a plan without the column has written is no special case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from watersmeet.home.manifest import BucketInfo
from watersmeet.model import SparkCall
from watersmeet.plan.ruleset import Ruleset, StreamStore
from watersmeet.runtime.tick.orders import GatherOrder, GatherReport
from watersmeet.runtime.tick.tick import Tick


@dataclass(frozen=True)
class ComputeOrder:
    """Columns for Spark to compute of buckets of one store, a task each. Those of this tick are finished then."""

    gather: GatherOrder
    store: str
    buckets: tuple[BucketInfo, ...]
    columns: tuple[SparkCall, ...]

    @property
    def rules(self) -> Ruleset:
        return self.gather.rules


@dataclass
class ComputeReport:
    """What a bucket became: one bucket, or for one of this tick any number of them."""

    bucket: BucketInfo
    made: GatherReport


def compute_orders(tick: Tick, gathered: Sequence[GatherReport]) -> list[ComputeOrder]:
    """One for each store that has buckets without the columns."""
    found = []
    for rule in tick.rules.by_spark:
        new = [bucket for report in gathered for bucket in report.buckets]
        lacking = tuple(
            bucket for bucket in (*tick.standing(), *new) if bucket.store == rule.name and _missing(rule, bucket)
        )
        if lacking:
            names = set().union(*(_missing(rule, bucket) for bucket in lacking))
            columns = tuple(column for column in rule.computed if column.name in names)
            found.append(ComputeOrder(tick.begin(), rule.name, lacking, columns))
    return found


def _missing(rule: StreamStore, bucket: BucketInfo) -> set[str]:
    return {column.name for column in rule.computed} - set(bucket.computed)


def computed(
    tick: Tick, gathered: Sequence[GatherReport], reports: Sequence[ComputeReport]
) -> tuple[Tick, list[GatherReport]]:
    """The tick and what was gathered, with the new buckets in place of those that lacked columns."""
    made = {report.bucket.file: report.made for report in reports}
    standing = {bucket.file for bucket in tick.before.buckets}
    buckets = [
        each
        for bucket in tick.before.buckets
        for each in (made[bucket.file].buckets if bucket.file in made else [bucket])
    ]
    finished = [report.made for report in reports if report.bucket.file not in standing]
    kept = [
        replace(report, buckets=[bucket for bucket in report.buckets if bucket.file not in made]) for report in gathered
    ]
    after = replace(
        tick,
        before=replace(tick.before, buckets=tuple(buckets)),
        replaced=(*tick.replaced, *(report.bucket for report in reports)),
    )
    return after, [*kept, *finished]
