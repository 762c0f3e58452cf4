"""Placement: the partition that a row of a store belongs to.

Buckets remember the text of the placement by which their rows were divided. After a change of the partitions, or of the
key that decides, a store has buckets of several placements until merges and time have replaced them: whoever reads such
a store by key reads all of its partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from watersmeet.home.manifest import BucketInfo
from watersmeet.model import KeyPart
from watersmeet.store.derived import Derived

if TYPE_CHECKING:
    from watersmeet.store.bucket import Bucket
    from watersmeet.store.codes import Codes
    from watersmeet.store.kernels import I32, I64


@dataclass(frozen=True)
class Placement:
    """How rows are assigned to partitions: by the hash of a key, or without a key round-robin over some of them."""

    partitions: int = 1  # of the plan
    key: tuple[KeyPart, ...] = ()
    used: tuple[int, ...] = (0,)  # the partitions that have rows of the store
    text: str = ""  # equal for buckets whose rows were divided alike; "" with one partition

    @classmethod
    def by_key(cls, part: KeyPart, partitions: int) -> Placement:
        return cls(partitions, (part,), tuple(range(partitions)), f"{part.expression.text} % {partitions}")

    @classmethod
    def in_turn(cls, used: tuple[int, ...], partitions: int) -> Placement:
        some = "" if len(used) == partitions else f" at {','.join(map(str, used))}"
        return cls(partitions, (), used, f"at random % {partitions}{some}" if partitions > 1 else "")

    @classmethod
    def by_all(cls, key: tuple[KeyPart, ...], partitions: int) -> Placement:
        """Of rows that are combined where their keys are equal, or both NULL; without a key in one partition."""
        if partitions == 1:
            return cls()
        used = tuple(range(partitions)) if key else (0,)
        return cls(partitions, key, used, f"all keys % {partitions}")

    def of(self, rows: Bucket) -> I32:
        """The partition of each row."""
        if not self.key:
            return np.array(self.used, np.int32)[np.arange(len(rows)) % len(self.used)]
        codes = rows.codes(self.key)
        values = np.where(codes.valid != 0, codes.values, 0) if len(codes.valid) else codes.values
        return _partition_of(values, self.partitions)

    def of_codes(self, codes: Codes) -> I32:
        """The partition of each key; -1 for NULL, which equals nothing."""
        found = _partition_of(codes.values, self.partitions)
        if len(codes.valid):
            found[codes.valid == 0] = -1
        return found

    def divided(self, rows: Bucket) -> Iterator[tuple[int, Bucket]]:
        """The rows by partition."""
        if self.partitions == 1:
            yield 0, rows
            return
        where = self.of(rows)
        for partition in np.unique(where).tolist():
            yield partition, rows.keep(np.flatnonzero(where == partition))

    def covers(self, info: BucketInfo) -> bool:
        """Whether the rows of a bucket were divided by this placement."""
        return info.layout == self.text


def _partition_of(codes: I64, partitions: int) -> I32:
    from watersmeet.store.kernels import partition_of  # compiled loops, which a plan alone does not need

    return partition_of(np.ascontiguousarray(codes), partitions)


class Store(Protocol):
    """A store of a plan, as those who write and merge its buckets need to know it."""

    @property
    def name(self) -> str: ...

    @property
    def placement(self) -> Placement: ...

    @property
    def derived(self) -> Derived:
        """What is written with the rows of a bucket."""

    @property
    def is_probed(self) -> bool:
        """Whether new rows look for partners in it; otherwise windows are made of it."""

    def merged(self, buckets: Iterable[Bucket], horizon: int) -> Bucket | None:
        """The rows of several buckets in one, without those that have expired; None where all have."""
