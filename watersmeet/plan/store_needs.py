"""What the steps of a plan need of each store: indexes, filters, and columns that Spark computes."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.model import KeyPart, Query, SparkCall, Stream
from watersmeet.plan.ruleset import Ask, Key, Ruleset, Step, all_steps
from watersmeet.store.filters import Block


def probed_keys(draft: Ruleset) -> dict[str, tuple[Key, ...]]:
    """For each store the keys that it is probed by."""
    found: dict[str, dict[Key, None]] = {}
    for step in all_steps(_lasting(draft)):
        if step.key:
            found.setdefault(step.store, {})[step.key] = None
    return {store: tuple(keys) for store, keys in found.items()}


def looked_up_ranges(draft: Ruleset) -> dict[str, tuple[KeyPart, ...]]:
    """For each store the keys that ranges of it are looked up by."""
    found: dict[str, dict[KeyPart, None]] = {}
    for step in all_steps(_lasting(draft)):
        if step.range is not None:
            found.setdefault(step.store, {})[step.range.part] = None
    return {store: tuple(parts) for store, parts in found.items()}


def asked_filters(draft: Ruleset) -> dict[str, dict[Block, None]]:
    """For each store what is asked of its rows, by whatever start or step."""
    nodes: list[tuple[str, tuple[Ask, ...]]] = [(s.stream, s.groups) for s in draft.starts if not s.backfills]
    nodes += [(step.store, step.groups) for step in all_steps(_lasting(draft))]
    found: dict[str, dict[Block, None]] = {}
    for store, asks in nodes:
        found.setdefault(store, {}).update({ask.block: None for ask in asks})
    return found


def _lasting(draft: Ruleset) -> tuple[Step, ...]:
    """The steps but those of phase 0: they run once, and buckets derive for them what they lack."""
    return tuple(step for start in draft.starts if start.phase for step in start.steps)


def spark_columns(queries: Sequence[Query], stream: Stream) -> dict[str, SparkCall]:
    """The columns that Spark computes of the rows of a stream, by name."""
    calls = {call.name: call for query in queries for call in query.by_spark.get(stream.name, ())}
    return {name: calls[name] for name in sorted(calls)}
