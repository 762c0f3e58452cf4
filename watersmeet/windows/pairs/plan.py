"""Windowed joins that give rows: each query has a store of the results of its join, which windows are made of.

A result enters the store when its last member has arrived, with the event times of its newest and oldest members. It is
in the windows that begin at or before the oldest and end after the newest. So a row lives as long as the window that
begins last before its oldest member, which stands in the place of a deadline: whatever drops and merges buckets of
materialized stores does it here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from watersmeet.model import JoinForm, Query
from watersmeet.model.forms import Form, PairRows
from watersmeet.model.identity import digest, identity
from watersmeet.model.sliding_window import SlidingWindow
from watersmeet.plan.ruleset import WindowRule
from watersmeet.store.derived import Derived
from watersmeet.store.placement import Placement
from watersmeet.windows.costs import RESULTS, TickFacts, WindowCosts
from watersmeet.windows.protocol import Planned, StoredWindows

if TYPE_CHECKING:
    from watersmeet.store.bucket import Bucket
    from watersmeet.store.kernels import I64

PAIRS = "pairs"  # the name of the operator
KEPT = "results kept for windows"  # a stage


@dataclass(frozen=True)
class PairStore:
    """The results of the join of one query. Their event time is that of the newest member."""

    query: str
    addition: str  # with which it was added: another query by its name has another store
    join: JoinForm
    grid: SlidingWindow
    partitions: int = field(default=1, compare=False)  # of the plan

    is_probed: ClassVar[bool] = False
    derived: ClassVar[Derived] = Derived()

    @cached_property
    def name(self) -> str:
        join = self.join
        content = identity((join.aliases, join.equalities, join.predicates, join.outputs))
        return f"pairs {self.query} {digest(f'{content} {self.grid.range} {self.grid.slide} {self.addition}')}"

    @cached_property
    def placement(self) -> Placement:
        return Placement.in_turn(tuple(range(self.partitions)), self.partitions)

    def windows(self, newest: I64, oldest: I64) -> tuple[I64, I64]:
        """The first and the last window of each result; the first is after the last where it is in none."""
        grid = self.grid
        first = ((newest - grid.range) // grid.slide + 1) * grid.slide
        last = oldest // grid.slide * grid.slide
        return np.asarray(first, np.int64), np.asarray(last, np.int64)

    def merged(self, buckets: Iterable[Bucket], horizon: int) -> Bucket | None:
        from watersmeet.store.merge import living_rows  # compiled loops, which a plan alone does not need

        return living_rows(buckets, self.derived, horizon)


class PairsPlanning:
    name = PAIRS
    needs_spark = False
    reads_rows = False

    def takes(self, form: Form) -> bool:
        return form.kind == PairRows.kind

    def in_words(self, form: Form) -> str:
        return "from the results of its join, which are kept until their windows close"

    def planned(self, queries: Sequence[Query], stored: StoredWindows, partitions: int) -> Planned:
        stores = [_store(query, partitions) for query in queries]
        rules = [_rule(query, store) for query, store in zip(queries, stores, strict=True)]
        return Planned(tuple(rules), tuple(stores))

    def cost(self, rules: Sequence[WindowRule], facts: TickFacts) -> WindowCosts:
        """Each result of the join is kept, and written for each window that it is in."""
        found, weights = WindowCosts(), facts.weights
        for rule in rules:
            query = rule.query
            results = facts.joined.get(query.name, 0.0)
            found.add(KEPT, query.name, results * weights.kept_row + facts.partitions * weights.file)
            known = facts.statistics.results.get(query.name)
            written = in_windows(query, results) if known is None else facts.windows(query) * known
            found.add(RESULTS, query.name, facts.writing(query, written))
            if not facts.knows(query):
                found.assumed.add(query.name)
        return found


def in_windows(query: Query, results: float) -> float:
    """How many results windows have of so many that the join has: of members that are at random within RANGE of each
    other, the oldest and the newest of n are RANGE · (n - 1) / n apart."""
    assert query.join is not None
    return results * query.grid.range / query.grid.slide / len(query.join.aliases)


def _store(query: Query, partitions: int) -> PairStore:
    assert query.join is not None
    return PairStore(query.name, query.addition, query.join, query.grid, partitions)


def _rule(query: Query, store: PairStore) -> WindowRule:
    # Results are kept when they are found, and nowhere else: BACKFILL has another form.
    reads = tuple((store.name, stream) for stream in query.streams)
    return WindowRule(query.definition, PAIRS, reads, details=(store,))
