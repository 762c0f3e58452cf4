"""What a tick closes: the windows that are due, and the buckets that they are made of. Pure: of what was committed and
gathered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from watersmeet.home.manifest import BucketInfo
from watersmeet.model import Query
from watersmeet.plan.ruleset import Ruleset, WindowRule
from watersmeet.windows.life import DueWindows, WindowLife


@dataclass(frozen=True)
class Closing:
    home: str
    tick: int
    attempt: str
    windows: WindowLife
    answered: Mapping[str, Query]
    buckets: tuple[BucketInfo, ...]  # of all stores, those of this tick too
    newest: Mapping[str, int]  # event times, after the tick
    spoke: frozenset[str]  # streams with rows in the tick
    careful: bool = False  # memory was short: each query by itself
    at_once: frozenset[str] | None = frozenset()  # queries whose results do not wait; None: all

    @property
    def rules(self) -> Ruleset:
        return self.windows.rules

    def has(self, operator: str) -> bool:
        """Whether some query that is answered has its windows computed by an operator."""
        return any(self.rule(query).operator == operator for query in self.answered)

    def rule(self, query: str) -> WindowRule:
        """The rule by which this tick closes windows of a query."""
        return (self.rules.leaving if self.windows.leaves(query) else self.rules.window)[query]

    def due(self, operator: str) -> list[tuple[DueWindows, WindowRule]]:
        """The windows that this tick closes, of queries that it answers by an operator."""
        return [(due, rule) for due, rule in self._due if rule.operator == operator]

    @cached_property
    def _due(self) -> list[tuple[DueWindows, WindowRule]]:
        found = self.windows.due(self.newest, self.spoke) if self.answered else []
        return [(due, self.rule(due.query)) for due in found if due.query in self.answered]

    def of_streams(self, query: str) -> list[BucketInfo]:
        """The buckets of the streams of a windowed query."""
        streams = self.rules.window[query].query.streams
        return [bucket for bucket in self.buckets if bucket.store in streams]

    def inside(self, due: DueWindows, rule: WindowRule) -> list[BucketInfo]:
        """The buckets of its stores that may have rows of windows that are due."""
        grid, stores = rule.query.grid, {store for store, _ in rule.reads}
        end = grid.end(due.until - grid.slide)
        return [b for b in self.buckets if b.store in stores and b.tau_min < end and b.tau_max >= due.opened]
