"""The stores of a plan: of streams and of materialized results, with the indexes, filters and placement that its steps
need."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from watersmeet.model import KeyPart, Query, SparkCall, Stream
from watersmeet.optimize.joingraph import Subquery, round_robin_over, single, store_of
from watersmeet.optimize.solution import Solution
from watersmeet.plan.access import seen_in
from watersmeet.plan.materialize import Materialized
from watersmeet.plan.ruleset import JoinStore, Key, ProbedStore, Ruleset, Step, StreamStore, all_steps
from watersmeet.store.derived import Block
from watersmeet.store.placement import Placement

_What = TypeVar("_What")


@dataclass(frozen=True)
class StorePlanner:
    draft: Ruleset  # with all steps, and no stores yet
    queries: Sequence[Query]
    solution: Solution
    all_rows: Collection[str]  # streams whose every row is stored, whoever reads them

    def rules(self, streams: Iterable[Stream], materialized: Iterable[Materialized]) -> tuple[ProbedStore, ...]:
        read = {alias.stream for query in self.queries if query.join for alias in query.join.aliases}
        # History is for later queries: it has every row.
        all_rows = {stream.name for stream in streams if stream.name in self.all_rows or stream.retain != 0}
        stores: list[ProbedStore] = [
            self._of_stream(stream, stream.name in all_rows) for stream in streams if stream.name in read | all_rows
        ]
        stores += [self._of_results(store) for store in materialized]
        return tuple(replace(store, sorted_by=self._sorted_by.get(store.name, ())) for store in stores)

    @cached_property
    def _lasting(self) -> list[Step]:
        """The steps but those of phase 0: they run once, and buckets derive for them what they lack."""
        return [step for start in self.draft.starts if start.phase for step in all_steps(start.steps)]

    @cached_property
    def _keys(self) -> dict[str, tuple[Key, ...]]:
        """For each store the keys that it is probed by."""
        return _by_store((step.store, step.key) for step in self._lasting if step.key)

    @cached_property
    def _sorted_by(self) -> dict[str, tuple[KeyPart, ...]]:
        """For each store the keys that ranges of it are looked up by."""
        return _by_store((step.store, step.range.part) for step in self._lasting if step.range is not None)

    @cached_property
    def _asked(self) -> dict[str, tuple[Block, ...]]:
        """For each store what is asked of its rows, by whatever start or step."""
        asks = [(start.stream, ask.block) for start in self.draft.starts if not start.backfills for ask in start.groups]
        return _by_store([*asks, *((step.store, ask.block) for step in self._lasting for ask in step.groups)])

    def _of_stream(self, stream: Stream, all_rows: bool) -> StreamStore:
        found = {call.name: call for query in self.queries for call in query.spark_columns.get(stream.name, ())}
        calls = {name: found[name] for name in sorted(found)}  # the columns that Spark computes
        own = single(stream.name)
        layout = self._layout(own)
        if layout is not None and any(
            isinstance(column, SparkCall) and column.name not in calls for column in layout.expression.columns
        ):
            layout = None  # it was of use to a query that is gone, and with it the column that Spark computed
        asked = self._asked.get(stream.name, ())
        return StreamStore(
            stream.name,
            stream.columns,
            self._keys.get(stream.name, ()),
            tuple(block for block in asked if block),
            self._placement(stream.name, own, layout),
            computed=tuple(calls.values()),
            time=stream.time,
            only_wanted=Block() not in asked and not all_rows,
        )

    def _of_results(self, store: Materialized) -> JoinStore:
        layout = self._layout(store.subquery)
        if layout is not None and layout.column not in {column.name for column in store.columns}:
            layout = None  # of use to queries that do not read the store, so that it does not keep this column
        blocks = tuple(block for block in self._asked.get(store.name, ()) if block)
        placement = self._placement(store.name, store.subquery, layout)
        return store.rule(self._keys.get(store.name, ()), blocks, placement)

    def _layout(self, store: Subquery) -> KeyPart | None:
        layouts = self.solution.layouts.get(store_of(store), ())
        # Several layouts are for studying plans; a tick writes one.
        if not layouts or self.draft.partitions == 1 or round_robin_over(layouts[0][1]):
            return None
        return seen_in(store, *layouts[0])

    def _placement(self, name: str, store: Subquery, layout: KeyPart | None) -> Placement:
        partitions, keys = self.draft.partitions, self._keys.get(name, ())
        if layout is None and keys and partitions > 1:
            layout = keys[0][0]  # a store that is probed in several partitions needs a rule for them
        if layout is not None:
            return Placement.by_key(layout, partitions)
        held = self.solution.layouts.get(store, ())
        number = min(partitions, (round_robin_over(held[0][1]) if held else None) or partitions)
        # Small stores begin at different partitions, or one would have them all.
        first = zlib.crc32(name.encode()) if number < partitions else 0
        return Placement.in_turn(tuple(sorted((first + at) % partitions for at in range(number))), partitions)


def _by_store(pairs: Iterable[tuple[str, _What]]) -> dict[str, tuple[_What, ...]]:
    """For each store what is paired with it, each once."""
    found: dict[str, dict[_What, None]] = {}
    for store, what in pairs:
        found.setdefault(store, {})[what] = None
    return {store: tuple(each) for store, each in found.items()}
