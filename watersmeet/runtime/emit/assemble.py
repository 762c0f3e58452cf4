"""Rows put together from references: the columns of members, wherever their rows are stored."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.model import Expression, KeyPart
from watersmeet.plan.ruleset import MISSING, Check, Member, Ruleset, kept_filter
from watersmeet.runtime.probe.open_buckets import TickBuckets
from watersmeet.runtime.probe.partial_results import PartialResults, Refs
from watersmeet.runtime.probe.referenced_rows import RowPlacement, equal_values, key_values
from watersmeet.store.bucket import Bucket
from watersmeet.store.derived import Block
from watersmeet.store.kernels import I64


class Combinations(Protocol):
    """What the outputs of a query are made of."""

    def __len__(self) -> int: ...

    @property
    def latest(self) -> I64:
        """The event time of each one's newest member."""

    def earliest(self) -> I64:
        """The event time of each one's oldest member."""

    def columns(self, wanted: dict[int, list[str]]) -> dict[tuple[int, str], pa.ChunkedArray]:
        """For each member the columns asked for."""


@dataclass(frozen=True, eq=False)
class Assembly:
    """Complete combinations of members, as references."""

    stores: TickBuckets
    rules: Ruleset
    stored_in: tuple[str, ...]  # the store of each position
    members: tuple[Member, ...]
    partial: PartialResults
    _placements: dict[int, RowPlacement] = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        return len(self.partial)

    @property
    def latest(self) -> I64:
        """The event time of each combination's newest member."""
        return self.partial.latest

    def keep(self, rows: np.ndarray) -> Assembly:
        return replace(self, partial=self.partial.take(rows))

    def _placement(self, position: int) -> RowPlacement:
        if position not in self._placements:
            self._placements[position] = RowPlacement(self.partial.members[position])
        return self._placements[position]

    def columns(self, wanted: dict[int, list[str]]) -> dict[tuple[int, str], pa.ChunkedArray]:
        """For each member the columns asked for; each position is visited once."""
        by_position: dict[int, dict[str, tuple[int, str]]] = {}
        found = {}
        for member, names in wanted.items():
            position, prefix = self.members[member]
            for name in names:
                if position == MISSING:
                    found[member, name] = self._nulls(prefix, name)
                else:
                    by_position.setdefault(position, {})[prefix + name] = (member, name)
        for position, names_here in by_position.items():
            table = self._placement(position).columns(self.stores, self.stored_in[position], list(names_here))
            for stored, asked in names_here.items():
                found[asked] = table.column(stored)
        return found

    def _nulls(self, stream: str, name: str) -> pa.ChunkedArray:
        """The column of a member that is missing."""
        column = next(column for column in self.rules.store(stream).columns if column.name == name)
        return pa.chunked_array([pa.nulls(len(self), column.arrow)])

    def key(self, member: int, part: KeyPart) -> pa.Array:
        """The values of a member's key."""
        position, prefix = self.members[member]
        return key_values(self.stores, self.stored_in[position], self._placement(position), prefix, part)

    def passes(self, member: int, wanted: Expression) -> np.ndarray:
        """Which combinations have a member that passes a filter."""
        position, prefix = self.members[member]
        block = Block(((kept_filter(prefix, wanted) if prefix else wanted,),))

        def mask(bucket: Bucket) -> np.ndarray:
            return bucket.words(block)

        found = self.stores.gather(self.stored_in[position], self.partial.members[position], mask, np.uint8)
        return np.asarray(found != 0)

    def times(self, member: int) -> I64:
        position, prefix = self.members[member]
        return self.stores.times(self.stored_in[position], self.partial.members[position], prefix)

    def earliest(self) -> I64:
        """The event time of each combination's oldest member."""
        found: I64 = np.min([self.times(member) for member in range(len(self.members))], axis=0)
        return found

    def within(self, windows: tuple[int, ...]) -> Assembly:
        """Those combinations that these windows hold, with the deadline that they give."""
        times = [self.times(member) for member in range(len(windows))]
        deadline = np.min([time + window for time, window in zip(times, windows, strict=True)], axis=0)
        inside = np.flatnonzero(self.partial.latest <= deadline)
        return replace(self, partial=replace(self.partial, deadline=deadline).take(inside))

    def verified(self, checks: tuple[Check, ...]) -> Assembly:
        """Those combinations whose keys are equal by value, not only by code."""
        keep = np.ones(len(self), bool)
        for left, right in checks:
            keep &= equal_values(self.key(*left), self.key(*right))
        return self if keep.all() else self.keep(np.flatnonzero(keep))


def concatenate(partials: list[PartialResults]) -> PartialResults:
    """Partial results of one path as one, without codes, which only probes need."""
    if len(partials) == 1:
        return partials[0]
    members = tuple(
        Refs(
            np.concatenate([p.members[at].bucket for p in partials]),
            np.concatenate([p.members[at].row for p in partials]),
        )
        for at in range(len(partials[0].members))
    )
    latest = np.concatenate([partial.latest for partial in partials])
    return PartialResults(members, latest, np.concatenate([partial.deadline for partial in partials]), {}, {})
