"""The windows of queries that share steps: queries with equal windows are one kind."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from watersmeet.plan.ruleset import Emit
from watersmeet.store.kernels import I64


@dataclass(frozen=True)
class WindowKinds:
    """`windows` has a row for each kind and a column for each member; `masks` the bits of the kind's queries.

    There are no kinds where the steps' windows are those of all queries."""

    windows: I64
    masks: np.ndarray

    @classmethod
    def of(cls, emit: Emit) -> WindowKinds:
        masks: dict[tuple[int, ...], int] = {}
        for bit, windows in enumerate(emit.windows or ()):
            masks[windows] = masks.get(windows, 0) | 1 << bit
        shape = (len(masks), len(emit.members))
        return cls(np.array(list(masks), np.int64).reshape(shape), np.array(list(masks.values()), np.uint64))

    def __len__(self) -> int:
        return len(self.masks)

    @cached_property
    def text(self) -> str:
        return repr(self.windows.tolist())

    def deadlines(self, members: list[int], times: list[I64], rows: int) -> I64:
        """For each kind and row the smallest τ + w of some members; `times` are theirs."""
        found = np.full((len(self), rows), np.iinfo(np.int64).max)
        for member, tau in zip(members, times, strict=True):
            for kind in range(len(self)):
                np.minimum(found[kind], tau + self.windows[kind, member], out=found[kind])
        return found
