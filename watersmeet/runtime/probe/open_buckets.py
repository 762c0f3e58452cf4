"""The buckets that probes read: opened when first touched, and kept open from tick to tick."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from watersmeet.home.manifest import BucketInfo
from watersmeet.runtime.probe.partial_results import Refs
from watersmeet.runtime.tick.orders import ProbeOrder
from watersmeet.store.bucket import Bucket
from watersmeet.store.gathering import gathered


class OpenBuckets:
    """The open buckets of one engine in one process: opened when first touched, kept for the ticks that follow."""

    def __init__(self) -> None:
        self._open: dict[str, Bucket] = {}
        self._version = ""  # of the plan that they were used for

    def begin(self, order: ProbeOrder) -> None:
        """Close what no tick names any more, and what another plan has derived and this one does not ask for."""
        named = {info.file for infos in order.buckets.values() for info in infos}
        for file in [file for file in self._open if file not in named]:
            del self._open[file]
        if self._version != order.rules.version:
            self._version = order.rules.version
            rules = {store.name: store for store in order.rules.probed}
            for info in (info for infos in order.buckets.values() for info in infos if info.file in self._open):
                self._open[info.file].forget(rules[info.store].derived)

    def hold(self, info: BucketInfo, bucket: Bucket) -> None:
        """Let a bucket be found that is in memory only."""
        self._open[info.file] = bucket

    def peek(self, home: Path, info: BucketInfo) -> Bucket:
        """The bucket as it is open, or opened for this once."""
        found = self._open.get(info.file)
        return Bucket.open(home, info) if found is None else found

    def get(self, home: Path, info: BucketInfo) -> Bucket:
        found = self._open[info.file] = self.peek(home, info)
        return found


class TickBuckets:
    """The buckets of a tick, by store."""

    def __init__(self, order: ProbeOrder, opened: OpenBuckets) -> None:
        self.home = Path(order.home)
        self.infos = order.buckets
        self._opened = opened
        opened.begin(order)

    def bucket(self, info: BucketInfo) -> Bucket:
        return self._opened.get(self.home, info)

    def hold(self, info: BucketInfo, bucket: Bucket) -> None:
        self._opened.hold(info, bucket)

    def at(self, store: str, number: int) -> Bucket:
        return self.bucket(self.infos[store][number])

    def gather(self, store: str, refs: Refs, read: Callable[[Bucket], np.ndarray], dtype: type) -> np.ndarray:
        """One value for each reference, from the array that `read` finds in a bucket."""
        arrays: dict[int, np.ndarray] = {
            number: np.ascontiguousarray(read(self.at(store, number)), dtype)
            for number in np.flatnonzero(np.bincount(refs.bucket)).tolist()
        }
        return gathered(arrays, refs.bucket, refs.row, np.dtype(dtype))

    def times(self, store: str, refs: Refs, prefix: str) -> np.ndarray:
        """The event time of a member of each row."""
        return self.gather(store, refs, lambda bucket: bucket.times(prefix), np.int64)
