"""The matches of a step that several queries share, counted for each of them once there are many.

The step works with the widest window of its queries, so a match of it need not be one of a query with a narrower
window. Of the queries with too many matches, those with the widest windows are at fault first: without them the step
is narrower, and it turns out whether the others have too many.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from watersmeet.plan.ruleset import UNBOUNDED, Emit, Ruleset, Step, all_steps
from watersmeet.runtime.probe.partial_results import PartialResults
from watersmeet.store.kernels import count_bits


class SharedMatches:
    """The matches of one step in one task, by query."""

    def __init__(self, rules: Ruleset, step: Step) -> None:
        self._found: Counter[str] = Counter()
        self._queries: dict[str, list[str]] = {}  # by group, in the order of their bits
        self._width: dict[str, int] = {}
        self._readers: dict[str, set[str]] = {}  # by group of a materialized store, which has one bit
        for each in all_steps((step,)):
            for emit in each.emits:
                self._queries[emit.group] = list(emit.queries)
                self._note_windows(emit)
            for keep in each.materialized:
                steps = [reader for reader in rules.all_steps() if reader.store == keep.store]
                self._readers[keep.group] = set().union(*map(rules.queries_of, steps))

    def _note_windows(self, emit: Emit) -> None:
        for bit, query in enumerate(emit.queries):
            # Without windows of its own, the query has those of the steps, which are the widest.
            width = UNBOUNDED * len(emit.members) if emit.windows is None else sum(emit.windows[bit])
            self._width[query] = max(width, self._width.get(query, 0))

    def add(self, matches: PartialResults) -> None:
        for group, queries in self._queries.items():
            counts = np.zeros(64, np.int64)
            if group in matches.sets:
                count_bits(matches.sets[group], counts)
            else:
                counts[:] = len(matches)
            for query, count in zip(queries, counts.tolist(), strict=False):
                self._found[query] += count
        for group, readers in self._readers.items():
            sets = matches.sets.get(group)
            count = len(matches) if sets is None else int(np.count_nonzero(sets))
            for query in readers - self._width.keys():
                self._found[query] += count

    def at_fault(self, limit: int) -> set[str]:
        """The queries with too many matches that have the widest windows of these."""
        over = [query for query, found in self._found.items() if found > limit]
        widest = max((self._width.get(query, 0) for query in over), default=0)
        return {query for query in over if self._width.get(query, 0) == widest}
