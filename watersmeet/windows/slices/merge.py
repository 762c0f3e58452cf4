"""Buckets of a slice store are merged by combining the rows of equal slices and keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from watersmeet.aggregate.combined import combined_buckets
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.home.manifest import BucketInfo
from watersmeet.store.bucket import Bucket
from watersmeet.store.derived import Derived
from watersmeet.store.merge import MergeJob, identity_of


def merge_slices(
    home: Path, job: MergeJob, file: str, store: SliceStore, opened: Callable[[Path, BucketInfo], Bucket]
) -> BucketInfo | None:
    """Write the live slices of the job; None where all have expired."""
    merged = combined_buckets(store, [opened(home, info) for info in job.inputs], job.horizon)
    return None if merged is None else merged.write(home, file, Derived(), **identity_of(job))
