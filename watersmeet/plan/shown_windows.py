"""Windowed queries as explain shows them: their class, the slices that they share, and why they are not faster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from watersmeet.model import Query
from watersmeet.plan.ruleset import Ruleset
from watersmeet.windows.slices.plan import reads_of
from watersmeet.windows.table import operator_of

_UNITS = (
    *((86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "min")),
    *((1_000_000, "s"), (1_000, "ms"), (1, "µs")),
)
JOINED = "results of a join"
NOT_PRICED = "the price of windowed queries is not estimated yet"


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

    @property
    def title(self) -> str:
        """What it has, without its name."""
        keys = f" by {', '.join(self.keys)}" if self.keys else ""
        where = f" where {' or '.join(self.filters)}" if self.filters else ""
        source = JOINED if self.source.startswith("results ") else self.source
        return f"{length_text(self.width)} of {source}{keys}{where}"


@dataclass(frozen=True)
class ShownWindows:
    """A windowed query."""

    name: str
    kind: str  # slices, factorized, continuous, batch
    form: str  # in words: how its windows are computed
    range: int  # microseconds
    slide: int
    streams: tuple[str, ...]
    slices: tuple[str, ...]  # the slice stores that it reads
    reason: str

    @property
    def length(self) -> str:
        """Of a window, and how often one begins."""
        every = "" if self.slide == self.range else f" every {length_text(self.slide)}"
        return f"{length_text(self.range)}{every}"


Shown = tuple[tuple[ShownWindows, ...], tuple[ShownSlices, ...]]


def shown_slices(rules: Ruleset) -> tuple[ShownSlices, ...]:
    serves: dict[str, list[str]] = {}
    for rule in rules.windows:
        for read in reads_of(rule):
            serves.setdefault(read.store.name, []).append(rule.query.name)
    return tuple(
        ShownSlices(
            store.name,
            store.source,
            store.width,
            tuple(each.spelled(lambda column: column.shown) for each in store.filters),
            tuple(each.spelled(lambda column: column.shown) for each in store.keys),
            tuple(_part(part.function, str(part.argument or "*"), str(part.filter or "")) for part in store.parts),
            tuple(sorted(set(serves.get(store.name, ())))),
        )
        for store in rules.slices
    )


def shown_windows(rules: Ruleset) -> tuple[ShownWindows, ...]:
    return tuple(_query(rule.query, [each.store.name for each in reads_of(rule)]) for rule in rules.windows)


def _query(query: Query, slices: list[str]) -> ShownWindows:
    grid = query.grid
    read = tuple(dict.fromkeys(slices))
    operator = operator_of(query)
    assert operator is not None
    form = operator.in_words(query.form)
    return ShownWindows(query.name, query.form.kind, form, grid.range, grid.slide, query.streams, read, query.reason)


def _part(function: str, argument: str, condition: str) -> str:
    text = f"{function}({argument})".replace('"', "")
    return f"{text} where {condition}".replace('"', "") if condition else text


def windows_text(windows: tuple[ShownWindows, ...], slices: tuple[ShownSlices, ...]) -> Iterator[str]:
    """Lines of explain."""
    if windows:
        yield from ("", "windowed queries")
    for query in windows:
        yield f"  {query.name}: {query.length} of {', '.join(query.streams)}, {query.form} (class {query.kind})"
        if query.reason:
            yield f"    {query.reason}"
    if slices:
        yield from ("", "slices, one row for each slice and key")
    for store in slices:
        served = f"  ⇒ {', '.join(store.serves)}" if store.serves else ""
        yield f"  {store.name}: {store.title}{served}"
        yield f"    {', '.join(store.parts)}"


def added_text(name: str, after: Shown, before: Shown) -> Iterator[str]:
    """Lines of what-if: how the windows of one more query are computed, and which slices it shares."""
    windows, slices = after
    query = next((each for each in windows if each.name == name), None)
    if query is None:
        return
    yield f"its windows are computed {query.form}" + (f": {query.reason}" if query.reason else "")
    yield f"  {NOT_PRICED}"
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
