"""Windowed queries as explain shows them: class, cost, the slices that they share, and why they are not faster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import isfinite

from watersmeet.plan.assumed import assumed_mark
from watersmeet.plan.ruleset import Ruleset, WindowRule
from watersmeet.plan.units import length_text, seconds_text
from watersmeet.windows.costs import WindowCosts
from watersmeet.windows.slices.plan import reads_of, slices_of
from watersmeet.windows.table import operator_of

JOINED = "results of a join"


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
    keys_of_window: float = 0.0  # of the longest window that is read
    structure: str = ""  # what tasks read windows from, with so many keys
    cost: float = 0.0  # CPU seconds of a tick, also of reading it; divided among the queries that it serves
    assumed: bool = False  # these are

    @property
    def title(self) -> str:
        """What the store holds: length of slices, source, keys and filters."""
        keys = f" by {', '.join(self.keys)}" if self.keys else ""
        where = f" where {' or '.join(self.filters)}" if self.filters else ""
        source = JOINED if self.source.startswith(("results ", "pairs of results ")) else self.source
        return f"{length_text(self.width)} of {source}{keys}{where}"


@dataclass(frozen=True)
class ShownWindows:
    name: str
    kind: str  # slices, factorized, pairs, continuous, batch
    form: str  # in words: how its windows are computed
    range: int  # microseconds
    slide: int
    streams: tuple[str, ...]
    slices: tuple[str, ...]  # the slice stores that it reads
    reason: str
    cost: float = 0.0  # CPU seconds of a tick, with its share of what it shares, without a join below it
    assumed: bool = False  # the cost is
    # By class that it fits, CPU seconds of a tick if it were alone; None: not known. Empty: it fits one class.
    prices: dict[str, float | None] = field(default_factory=dict)
    leaves: str = ""  # the class that it has until its open windows are closed, where it changes,
    since: str = ""  # and the first window of the new one, as far as it is known

    @property
    def length(self) -> str:
        """The length of a window, and how often one begins."""
        every = "" if self.slide == self.range else f" every {length_text(self.slide)}"
        return f"{length_text(self.range)}{every}"

    @property
    def change(self) -> str:
        """From which class to which it changes."""
        since = f"that begin at {self.since} or later" if self.since else "that begin after the rows so far"
        return f"It changes from {self.leaves} to {self.kind}: {self.kind} computes the windows {since}."


Shown = tuple[tuple[ShownWindows, ...], tuple[ShownSlices, ...]]


def shown_slices(rules: Ruleset, costs: WindowCosts) -> tuple[ShownSlices, ...]:
    serves: dict[str, list[str]] = {}
    for rule in rules.windows:
        for read in reads_of(rule):
            serves.setdefault(read.store.name, []).append(rule.query.name)
    return tuple(
        ShownSlices(
            name=store.name,
            source=store.source,
            width=store.width,
            filters=tuple(each.spelled(lambda column: column.shown) for each in store.filters),
            keys=tuple(each.spelled(lambda column: column.shown) for each in store.keys),
            parts=tuple(
                _part(part.function, str(part.argument or "*"), str(part.filter or "")) for part in store.parts
            ),
            serves=tuple(sorted(set(serves.get(store.name, ())))),
            keys_of_window=costs.keys.get(store.name, 0.0),
            structure=costs.structures.get(store.name, ""),
            cost=costs.by_store.get(store.name, 0.0) / 1e6,
            assumed=store.name in costs.assumed,
        )
        for store in slices_of(rules.windows).values()
    )


def shown_windows(
    rules: Ruleset, costs: WindowCosts, prices: Mapping[str, Mapping[str, float]], changing: Mapping[str, int]
) -> tuple[ShownWindows, ...]:
    """`prices`: by query and class, in microseconds; `changing`: the first windows of their new class."""
    shown = [_query(rule, costs, prices.get(rule.query.name, {})) for rule in rules.window.values()]
    return tuple(
        replace(one, leaves=rules.leaving[one.name].query.form.kind, since=_time(changing.get(one.name)))
        if one.name in rules.leaving
        else one
        for one in shown
    )


def _time(micros: int | None) -> str:
    return "" if micros is None else str(datetime(1970, 1, 1) + timedelta(microseconds=micros))


def _query(rule: WindowRule, costs: WindowCosts, prices: Mapping[str, float]) -> ShownWindows:
    query, grid, operator = rule.query, rule.query.grid, operator_of(rule.query)
    assert operator is not None
    return ShownWindows(
        name=query.name,
        kind=query.form.kind,
        form=operator.in_words(query.form),
        range=grid.range,
        slide=grid.slide,
        streams=query.streams,
        slices=tuple(dict.fromkeys(each.store.name for each in reads_of(rule))),
        reason=query.reason,
        cost=costs.by_query.get(query.name, 0.0) / 1e6,
        assumed=query.name in costs.assumed,
        prices={kind: price / 1e6 if isfinite(price) else None for kind, price in prices.items()},
    )


def _part(function: str, argument: str, condition: str) -> str:
    text = f"{function}({argument})".replace('"', "")
    return f"{text} where {condition}".replace('"', "") if condition else text


def windows_text(windows: tuple[ShownWindows, ...], slices: tuple[ShownSlices, ...]) -> Iterator[str]:
    """Lines of explain. A cost is that of a tick; a query has its share of what it shares."""
    if windows:
        yield from ("", "windowed queries")
    for query in windows:
        cost = f": {cost_text(query)}" if query.cost else ""
        yield f"  {query.name}: {query.length} of {', '.join(query.streams)}, {query.form} (class {query.kind}){cost}"
        if query.reason:
            yield f"    {query.reason}"
        if query.leaves:
            yield f"    {query.change}"
        if query.prices:
            yield f"    {_prices(query.prices)}"
    if slices:
        yield from ("", "slices, one row for each slice and key")
    for store in slices:
        served = f"  ⇒ {', '.join(store.serves)}" if store.serves else ""
        cost = f": {cost_text(store)}{_keys(store)}" if store.cost else ""
        yield f"  {store.name}: {store.title}{cost}{served}"
        yield f"    {', '.join(store.parts)}"


def _prices(prices: Mapping[str, float | None]) -> str:
    known = [f"{kind} {seconds_text(price)}" for kind, price in prices.items() if price is not None]
    unknown = [kind for kind, price in prices.items() if price is None]
    text = f"Alone it would take {', '.join(known)} of CPU time a tick"
    return f"{text}; {', '.join(unknown)}: no price while it is not known what joins." if unknown else f"{text}."


def cost_text(shown: ShownWindows | ShownSlices) -> str:
    return f"{seconds_text(shown.cost)}{assumed_mark(shown.assumed)}"


def _keys(store: ShownSlices) -> str:
    keys = f", {store.keys_of_window:,.0f} keys in a window" if store.keys else ""
    return f"{keys}, read from {store.structure}"


def added_text(name: str, after: Shown, before: Shown) -> Iterator[str]:
    """Lines of what-if: how the windows of one more query are computed, and which slices it shares."""
    windows, slices = after
    query = next((each for each in windows if each.name == name), None)
    if query is None:
        return
    yield f"its windows are computed {query.form}" + (f": {query.reason}" if query.reason else "")
    if query.cost:
        yield f"  its share of the windows is {cost_text(query)} of CPU time a tick"
    known = {store.name for store in before[1]}
    for store in slices:
        if store.name in query.slices:
            others = [each for each in store.serves if each != name]
            shared = f"shared with {', '.join(others)}" if others else "for it alone"
            cost = f", {cost_text(store)}" if store.cost else ""
            yield f"  {'stored already' if store.name in known else 'new'}: {store.name}{cost}, {shared}"
