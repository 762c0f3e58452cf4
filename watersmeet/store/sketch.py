"""A sketch of a stream's keys in a few kilobytes: a key-correlated sample and a histogram of key groups.

The sample keeps the `KEYS` keys with the smallest hashes, each with the number of its rows. Whether a key is kept
depends on nothing but the key (and how many smaller ones there are), so samples of two streams hold the same keys: what
they have in common, scaled up, is the size of the join. What it is scaled up by is the share of all keys that is
sampled, or the share of one stream's rows, whichever varies least from key to key: where each row of a stream has one
partner, frequent keys then change nothing, whether they are in the sample or not.

Invariants
 1. `hashes` rises strictly; `counts[i]` is the weight of all rows seen with a key of hash `hashes[i]`.
 2. Of every key whose hash is below `threshold`, all rows seen are counted; keys from there on are left out.
 3. `rows` and `groups` count all rows, rows with a NULL key in `rows` only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from watersmeet.store.codes import Codes
from watersmeet.store.kernels import hash_keys

KEYS = 512
GROUPS = 64
SKETCH_ROWS = 50_000  # looked at for one sketch; of more, the first ones stand for all

U64 = NDArray[np.uint64]
F64 = NDArray[np.float64]

_EVERYTHING = float(2**64)


class SketchJoin(NamedTuple):
    """How many pairs two samples have, and how sure that is."""

    found: float
    pairs: float
    deviation: float = 0.0  # of what was found, by how much keys differ; 0 where all keys are known
    share: float = 1.0  # of all keys, that were looked at


@dataclass(frozen=True)
class Sketch:
    """A sample of the keys of some rows, and their key groups."""

    rows: float
    hashes: U64
    counts: F64
    groups: F64
    threshold: float = _EVERYTHING

    @property
    def rate(self) -> float:
        """The share of all keys that the sample covers."""
        return self.threshold / _EVERYTHING

    @property
    def distinct(self) -> float:
        """How many different keys there are, by the k smallest hashes."""
        return len(self.hashes) / self.rate

    @property
    def skew(self) -> float:
        """Rows of the fullest key group against the average group."""
        total = float(self.groups.sum())
        return float(self.groups.max()) * GROUPS / total if total else 1.0

    def merged(self, other: Sketch) -> Sketch:
        return _sketch(
            self.rows + other.rows,
            np.concatenate([self.hashes, other.hashes]),
            np.concatenate([self.counts, other.counts]),
            self.groups + other.groups,
            min(self.threshold, other.threshold),
        )

    def scaled(self, share: float) -> Sketch:
        """As if only a share of the rows of each key had been seen."""
        return Sketch(self.rows * share, self.hashes, self.counts * share, self.groups * share, self.threshold)

    def joined(self, other: Sketch) -> SketchJoin:
        """How many pairs with equal keys there should be among those looked at: by those, the share of all pairs."""
        threshold = min(self.threshold, other.threshold)
        mine, theirs = (each.counts[each.hashes < threshold] for each in (self, other))
        _, left, right = np.intersect1d(self.hashes, other.hashes, assume_unique=True, return_indices=True)
        below = self.hashes[left] < threshold
        pairs = self.counts[left[below]] * other.counts[right[below]]
        share, seen = threshold / _EVERYTHING, float(pairs.sum())
        found, variance = seen, float((pairs * pairs).sum())
        for each, counts, places in ((self, mine, left[below]), (other, theirs, right[below])):
            rows = float(counts.sum())
            if rows and pairs.any():
                partners = seen / rows  # of one of its rows
                apart = -partners * counts
                apart[places] += pairs
                if (spread := float((apart * apart).sum())) < variance:
                    found, variance = partners * float(each.groups.sum()) * share, spread
        return SketchJoin(found, self.rows * other.rows * share, float(np.sqrt(variance * (1 - share))), share)


def sketch(codes: Codes, rows: int) -> Sketch:
    """The sketch of the keys of so many rows, by the codes of the first ones."""
    values = codes.values[:SKETCH_ROWS]
    weight = rows / len(values) if rows else 1.0
    if len(codes.valid):
        values = values[codes.valid[:SKETCH_ROWS] != 0]
    counts = np.zeros(GROUPS, np.int64)
    hashes = hash_keys(np.ascontiguousarray(values), counts)
    groups = counts.astype(np.float64) * weight
    small = hashes
    if len(hashes) > 8 * KEYS:  # sorting all of them would be most of the work
        small = hashes[hashes <= np.uint64(4 * KEYS * (2**64 // len(hashes)))]
        if len(np.unique(small)) <= KEYS:
            small = hashes
    return _sketch(float(rows), small, np.full(len(small), weight), groups, _EVERYTHING)


def _sketch(rows: float, hashes: U64, counts: F64, groups: F64, threshold: float) -> Sketch:
    keys, place = np.unique(hashes, return_inverse=True)
    weights = np.bincount(place, counts, len(keys)).astype(np.float64)
    if len(keys) > KEYS:
        # The first key that is left out is the threshold: which keys are below it does not depend on their rows.
        threshold = min(threshold, float(keys[KEYS]))
    chosen = keys[:KEYS].astype(np.float64) < threshold
    return Sketch(rows, keys[:KEYS][chosen], weights[:KEYS][chosen], groups, threshold)
