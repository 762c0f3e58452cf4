"""Merging buckets: a probe should touch O(log ticks) of them.

Buckets of one store, partition and layout whose sizes are alike (one level) are merged as soon as there
are `FAN_IN` of them, oldest first, so a row is rewritten once for each level that it climbs. Rows that have
expired are left behind. A bucket that has reached `MAX_BYTES` is never merged again: the price of one tick
stays bounded, and whole buckets of that size expire in O(1).

Stores that no probe reads, as those of slices, are read from one end, each bucket once: there larger buckets wait until
there are `MANY` of a level. With windows of fewer ticks nothing is rewritten. But where slices are wider than ticks,
buckets have rows of the same slices, and perhaps of the same keys: such buckets do not wait, until a merge has shown
that their rows do not become fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
import pyarrow as pa

from watersmeet.home.manifest import BucketInfo
from watersmeet.model import HIDDEN
from watersmeet.store.bucket import Bucket, concatenated
from watersmeet.store.derived import Derived
from watersmeet.store.placement import Store
from watersmeet.store.retention import KEEP_ALL

FAN_IN, MANY = 4, 32
LARGE = 2  # the first level of larger buckets
MAX_BYTES = 256 << 20
_FEWER = 0.8  # of the rows of a tick


@dataclass(frozen=True)
class MergeJob:
    """Buckets of a store that become one."""

    inputs: tuple[BucketInfo, ...]
    horizon: int

    @property
    def bytes(self) -> int:
        return sum(bucket.bytes for bucket in self.inputs)


def choose_merges(
    buckets: Sequence[BucketInfo], horizons: dict[str, int], unprobed: Collection[str] = ()
) -> list[MergeJob]:
    """The merges worth doing now; `unprobed` are the names of stores that no probe reads."""
    levels: dict[tuple[str, int, str, int], list[BucketInfo]] = {}
    for bucket in sorted(buckets, key=lambda bucket: (bucket.first_tick, bucket.file)):
        if bucket.bytes < MAX_BYTES // 2:
            levels.setdefault((bucket.store, bucket.partition, bucket.layout, bucket.level), []).append(bucket)
    jobs = [
        MergeJob(_within_limit(members), horizons.get(store, KEEP_ALL))
        for (store, _, _, level), members in levels.items()
        if len(members) >= FAN_IN
        and (len(members) >= MANY or level < LARGE or store not in unprobed or _combine(members, buckets))
    ]
    return [job for job in jobs if len(job.inputs) > 1]


def _combine(members: Sequence[BucketInfo], buckets: Sequence[BucketInfo]) -> bool:
    """Whether the oldest members have rows of the same slices, and merged buckets of their store have clearly fewer
    rows for a tick than the others; also where none is merged so far."""
    some = members[:FAN_IN]
    if max(each.tau_min for each in some) > min(each.tau_max for each in some):
        return False
    store = members[0].store
    ticks = [(each.last_tick - each.first_tick + 1, each.rows) for each in buckets if each.store == store]
    single = [rows for count, rows in ticks if count == 1]
    merged = [(count, rows) for count, rows in ticks if count > 1]
    if not merged or not single:
        return True
    mean = sum(rows for _, rows in merged) / sum(count for count, _ in merged)
    return mean < _FEWER * sum(single) / len(single)


def _within_limit(run: list[BucketInfo]) -> tuple[BucketInfo, ...]:
    totals = accumulate(bucket.bytes for bucket in run)
    return tuple(bucket for bucket, total in zip(run, totals, strict=True) if total <= MAX_BYTES)


def merge(
    home: Path,
    job: MergeJob,
    file: str,
    store: Store,
    opened: Callable[[Path, BucketInfo], Bucket] = Bucket.open,
) -> BucketInfo | None:
    """Write the union of the job's live rows; None where every row has expired."""
    merged = store.merged((opened(home, info) for info in job.inputs), job.horizon)
    if merged is None:
        return None
    first = job.inputs[0]
    return merged.write(
        home,
        file,
        store.derived,
        store=first.store,
        partition=first.partition,
        layout=first.layout,
        first_tick=min(info.first_tick for info in job.inputs),
        last_tick=max(info.last_tick for info in job.inputs),
    )


def living_rows(buckets: Iterable[Bucket], derived: Derived, horizon: int) -> Bucket | None:
    """The rows of buckets that have not expired, one after the other; None where there are none."""
    living = []
    for each in buckets:
        bucket = each.select(without_unused(each.rows, derived).schema.names)
        alive = bucket.alive_until >= horizon
        if alive.all():
            living.append(bucket)
        elif alive.any():
            living.append(bucket.keep(np.flatnonzero(alive)))
    return concatenated(living) if living else None


def without_unused(rows: pa.RecordBatch, derived: Derived) -> pa.RecordBatch:
    """The rows without columns that Spark computed and that no query reads any more."""
    kept = [name for name in rows.schema.names if not name.startswith(HIDDEN) or name in derived.computed]
    return rows if len(kept) == len(rows.schema) else rows.select(kept)
