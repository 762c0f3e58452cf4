"""Rows of stores become new buckets, one for each of their partitions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from watersmeet.home import layout
from watersmeet.home.manifest import BucketInfo
from watersmeet.plan.ruleset import StoreRule
from watersmeet.runtime.probe.places import places_of
from watersmeet.runtime.tick.orders import GatherOrder, ProbeOrder
from watersmeet.store.bucket import Bucket

BUCKET_ROWS = 1 << 20  # rows are collected until there are so many of them,
BUCKET_BYTES = 128 << 20  # or so much


class NewBuckets:
    """The buckets that one task writes. `name` tells their files from those of other tasks."""

    def __init__(self, order: GatherOrder | ProbeOrder, name: str) -> None:
        self._order = order
        self._name = name
        self._numbers = itertools.count()

    def write(self, rule: StoreRule, rows: Bucket, tick: int, made_by: str = "") -> Iterator[tuple[Bucket, BucketInfo]]:
        """Write rows of a store that belong to a tick; gives the rows of each bucket with what is known of it."""
        for place, part in self._by_place(rule, rows):
            number = f"{self._name}-{next(self._numbers)}"
            yield (
                part,
                part.write(
                    Path(self._order.home),
                    layout.bucket_file(rule.name, self._order.tick, self._order.attempt, number),
                    rule.derived,
                    store=rule.name,
                    first_tick=tick,
                    last_tick=tick,
                    partition=place,
                    layout=self._order.rules.layout_text(rule.name),
                    made_by=made_by,
                ),
            )

    def _by_place(self, rule: StoreRule, rows: Bucket) -> Iterator[tuple[int, Bucket]]:
        if self._order.rules.partitions == 1:
            yield 0, rows
            return
        places = places_of(rows, rule, self._order.rules.partitions)
        for place in np.unique(places):
            yield int(place), rows.keep(np.flatnonzero(places == place))
