"""Partial results: what travels from probe to probe, as references to stored rows instead of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from watersmeet.plan.ruleset import Lookup
from watersmeet.store.codes import Codes
from watersmeet.store.filters import Words
from watersmeet.store.gathering import taken
from watersmeet.store.kernels import I32, I64


@dataclass(frozen=True)
class Refs:
    """Rows of one store: for each, the number of its bucket in the tick's list and its place in there."""

    bucket: I32
    row: I32

    def take(self, rows: np.ndarray) -> Refs:
        return Refs(taken(self.bucket, rows), taken(self.row, rows))


@dataclass(frozen=True)
class PartialResults:
    members: tuple[Refs, ...]
    latest: I64
    deadline: I64
    codes: dict[Lookup, Codes]
    sets: dict[str, Words]  # by group; one that is not here has all its bits

    def __len__(self) -> int:
        return len(self.latest)

    def take(self, rows: np.ndarray) -> PartialResults:
        return PartialResults(
            tuple(refs.take(rows) for refs in self.members),
            taken(self.latest, rows),
            taken(self.deadline, rows),
            {lookup: codes.take(rows) for lookup, codes in self.codes.items()},
            {group: taken(words, rows) for group, words in self.sets.items()},
        )


class ProbePath(NamedTuple):
    """How partial results came about: the relation whose rows arrived, and the store of each position."""

    relation: str
    stores: tuple[str, ...]
