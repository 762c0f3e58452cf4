"""What windowed queries add to a plan. No search is needed for them: what they share follows from what they ask for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from watersmeet.aggregate.reading import Reading
from watersmeet.model import Query
from watersmeet.plan.ruleset import Ruleset, WindowRule
from watersmeet.plan.slices import Slices


def with_windows(rules: Ruleset, windowed: Sequence[Query], slices: Slices) -> Ruleset:
    """The rules with those of windowed queries."""
    slices = slices.divided(rules.partitions)
    windows = tuple(window_rule(query, slices.readings.get(query.name, ())) for query in windowed)
    made = replace(rules, windows=windows, slices=slices.stores)
    identity = f"{rules.version} {windows!r} {[store.name for store in made.slices]}"
    return replace(made, version=hashlib.sha256(identity.encode()).hexdigest()[:16])


def window_rule(query: Query, readings: tuple[Reading, ...] = ()) -> WindowRule:
    """Without readings, that of a suspended query: it reads no slices, but rows are kept for it."""
    if query.form.reads_rows:
        return WindowRule(query.definition, tuple((stream, stream) for stream in query.streams))
    if query.join is not None:  # results are aggregated when they are found, and nowhere else
        reads = tuple((each.store.name, stream) for each in readings for stream in query.streams)
        return WindowRule(query.definition, reads, readings)
    reads = tuple((each.store.name, each.store.source) for each in readings)
    return WindowRule(query.definition, reads, readings, is_filled=True)


def streams_with_all_rows(queries: Iterable[Query], left_out: Iterable[Query]) -> frozenset[str]:
    """The streams whose every row is stored: for windows that are computed from rows, and for suspended queries, which
    are to find all rows when they are resumed. How long rows stay, ticks decide."""
    reading = [query for query in queries if query.form.reads_rows]
    reading += [query for query in left_out if query.form.reads_rows or query.join is not None]
    return frozenset(stream for query in reading for stream in query.streams)
