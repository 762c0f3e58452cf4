"""New rows of a leaf with one key are looked up once: what they may be partners of is the same, but for its time.

Preserved rows that one of them may be a partner of are then checked: a row is found if it has a partner among these
new rows, and none that precedes them. Pairs of new and preserved rows are not made, of which there may be very many.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from watersmeet.plan.ruleset import Lookup
from watersmeet.runtime.probe.partial_results import PartialResults


class Region(NamedTuple):
    """A range of new rows that are probed together, with the number of their bucket."""

    bucket: int
    begin: int
    end: int


def one_for_each_key(partial: PartialResults, lookup: Lookup) -> PartialResults:
    """A row for each key, for all queries and in all windows of the rows with that key."""
    codes = partial.codes[lookup]
    rows = np.flatnonzero(codes.valid) if len(codes.valid) else np.arange(len(partial))
    order = rows[np.argsort(codes.values[rows], kind="stable")]
    values = codes.values[order]
    begins = np.flatnonzero(np.append(True, values[1:] != values[:-1])) if len(values) else np.empty(0, np.int64)
    found = partial.take(order[begins])
    if not len(found):
        return found
    return replace(
        found,
        latest=np.minimum.reduceat(partial.latest[order], begins),
        deadline=np.maximum.reduceat(partial.deadline[order], begins),
        sets={group: np.bitwise_or.reduceat(words[order], begins) for group, words in partial.sets.items()},
    )
