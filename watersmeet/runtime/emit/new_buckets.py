"""Rows of stores become new buckets, one for each of their partitions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from watersmeet.home import layout
from watersmeet.home.manifest import BucketInfo
from watersmeet.runtime.tick.orders import WritingOrder
from watersmeet.store.bucket import Bucket
from watersmeet.store.placement import Store

BUCKET_ROWS = 1 << 20  # rows are collected until there are so many of them,
BUCKET_BYTES = 128 << 20  # or so much


class NewBuckets:
    """The buckets that one task writes. `name` tells their files from those of other tasks."""

    def __init__(self, order: WritingOrder, name: str) -> None:
        self._order = order
        self._name = name
        self._numbers = itertools.count()

    def write(self, store: Store, rows: Bucket, tick: int, made_by: str = "") -> Iterator[tuple[Bucket, BucketInfo]]:
        """Write rows of a store that belong to a tick; gives the rows of each bucket with what is known of it."""
        for partition, part in store.placement.divided(rows):
            number = f"{self._name}-{next(self._numbers)}"
            yield (
                part,
                part.write(
                    Path(self._order.home),
                    layout.bucket_file(store.name, self._order.tick, self._order.attempt, number),
                    store.derived,
                    store=store.name,
                    first_tick=tick,
                    last_tick=tick,
                    partition=partition,
                    layout=store.placement.text,
                    made_by=made_by,
                ),
            )
