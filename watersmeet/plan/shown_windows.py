"""Windowed queries as explain shows them: their class, the slices that they share, and why they are not faster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from watersmeet.model.windowed import WindowedQuery
from watersmeet.plan.ruleset import Ruleset

_UNITS = (
    *((86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "min")),
    *((1_000_000, "s"), (1_000, "ms"), (1, "µs")),
)


@dataclass(frozen=True)
class ShownSlices:
    """A slice store: for each slice and key, parts of aggregates."""

    name: str
    source: str
    width: int  # microseconds
    filters: tuple[str, ...]  # rows pass one of them; none: all rows count
    keys: tuple[str, ...]
    parts: tuple[str, ...]
    serves: tuple[str, ...]


@dataclass(frozen=True)
class ShownWindows:
    """A windowed query."""

    name: str
    kind: str  # slices, factorized, continuous, batch
    range: int  # microseconds
    slide: int
    streams: tuple[str, ...]
    slices: tuple[str, ...]  # the slice stores that it reads
    reason: str


Shown = tuple[tuple[ShownWindows, ...], tuple[ShownSlices, ...]]


def shown_slices(rules: Ruleset) -> tuple[ShownSlices, ...]:
    serves: dict[str, list[str]] = {}
    for query, readings in rules.readings:
        for reading in readings:
            serves.setdefault(reading.store.name, []).append(query)
    return tuple(
        ShownSlices(
            store.name,
            store.source,
            store.width,
            tuple(each.spelled(lambda column: column.shown) for each in store.filters),
            tuple(each.spelled(lambda column: column.shown) for each in store.keys),
            tuple(_part(part.function, str(part.argument or "*"), str(part.filter or "")) for part in store.parts),
            tuple(dict.fromkeys(serves.get(store.name, ()))),
        )
        for store in rules.slices
    )


def shown_windows(rules: Ruleset) -> tuple[ShownWindows, ...]:
    readings = dict(rules.readings)
    return tuple(_query(query, [each.store.name for each in readings.get(query.name, ())]) for query in rules.windowed)


def _query(query: WindowedQuery, slices: list[str]) -> ShownWindows:
    grid = query.grid
    read = tuple(dict.fromkeys(slices))
    return ShownWindows(query.name, query.kind, grid.range, grid.slide, query.streams, read, query.reason)


def _part(function: str, argument: str, condition: str) -> str:
    text = f"{function}({argument})".replace('"', "")
    return f"{text} where {condition}".replace('"', "") if condition else text


def windows_text(windows: tuple[ShownWindows, ...], slices: tuple[ShownSlices, ...]) -> Iterator[str]:
    """Lines of explain."""
    if slices:
        yield from ("", "slices, one row for each slice and key")
    for store in slices:
        keys = f" by {', '.join(store.keys)}" if store.keys else ""
        where = f" where {' or '.join(store.filters)}" if store.filters else ""
        served = f"  ⇒ {', '.join(store.serves)}" if store.serves else ""
        yield f"  {store.name}: {length_text(store.width)} of {store.source}{keys}{where}{served}"
        yield f"    {', '.join(store.parts)}"
    if windows:
        yield from ("", "windows")
    for query in windows:
        every = "" if query.slide == query.range else f" every {length_text(query.slide)}"
        of = ", ".join(query.streams)
        yield f"  {query.name}: {length_text(query.range)}{every} of {of}, by {query.kind}"
        if query.reason:
            yield f"    {query.reason}"


def added_text(name: str, after: Shown, before: Shown) -> Iterator[str]:
    """Lines of what-if: how the windows of one more query are computed, and which slices it shares."""
    windows, slices = after
    query = next((each for each in windows if each.name == name), None)
    if query is None:
        return
    yield f"its windows are computed by {query.kind}" + (f": {query.reason}" if query.reason else "")
    known = {store.name for store in before[1]}
    for store in slices:
        if store.name in query.slices:
            others = [each for each in store.serves if each != name]
            shared = f"shared with {', '.join(others)}" if others else "for it alone"
            yield f"  {'stored already' if store.name in known else 'new'}: {store.name}, {shared}"


def length_text(micros: int) -> str:
    """A length of time in the largest unit of which it is a multiple."""
    size, unit = next((size, unit) for size, unit in _UNITS if micros % size == 0)
    return f"{micros // size} {unit}"
