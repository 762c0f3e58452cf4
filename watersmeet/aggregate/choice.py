"""Which slice stores the windowed queries of a pipeline need, and what each query reads of them.

Queries over the same source with the same keys share a store: its slices are the greatest common grid of theirs, its
parts the union. If their filters differ, each part has the filter of its query, so that one pass over the rows serves
them all, and each query counts the rows that pass its filter, to know which keys it has.

Two limits keep a store from growing out of proportion: a store has at most 64 filters, the bits of a word; and the
longest window has at most `MOST_SLICES` slices, unless a query's own grid has more, because ranges of odd lengths can
have a common grid as fine as the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import gcd
from typing import Any

from watersmeet.aggregate.accumulator import ROWS, Accumulator, accumulators_of
from watersmeet.aggregate.needs import counts_of, member_keys, member_partials
from watersmeet.aggregate.reading import SliceNeed, SliceRead
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.model.expression import Expression, all_of
from watersmeet.model.forms import (
    FactorizedAggregates,
    Form,
    JoinAggregates,
    PairAggregates,
    PartialAggregate,
    SliceAggregates,
)
from watersmeet.model.identity import digest, identity
from watersmeet.model.query import Query
from watersmeet.model.sliding_window import SlidingWindow
from watersmeet.store.derived import WIDEST

MOST_SLICES = 1 << 16


def slice_stores(queries: Iterable[Query]) -> dict[str, tuple[SliceRead, ...]]:
    """For each query whose windows are made of slices, what it reads, in the order of `slice_needs`."""
    asked = {query.name: slice_needs(query.form, query.grid) for query in queries}
    found = _fulfilled([need for each in asked.values() for need in each])
    return {name: tuple(found[need] for need in each) for name, each in asked.items() if each}


def slice_needs(form: Form, grid: SlidingWindow) -> tuple[SliceNeed, ...]:
    """What a query needs: something of its stream, and of each combination of distinct values; of each member
    of a join and, without keys, of each of its streams. Other forms need none."""
    of_form = _NEEDS.get(type(form))
    return () if of_form is None else of_form(form, grid)


def _of_stream(form: SliceAggregates, grid: SlidingWindow) -> tuple[SliceNeed, ...]:
    plain = tuple(partial for partial in form.partials if not partial.distinct)
    of_values = (((*form.keys, *values), counts_of(form, values)) for values in form.distinct)
    return tuple(
        SliceNeed(form.stream, form.filter, keys, partials, grid) for keys, partials in ((form.keys, plain), *of_values)
    )


def _of_join(form: JoinAggregates, grid: SlidingWindow) -> tuple[SliceNeed, ...]:
    return (SliceNeed(source_of(form), None, form.keys, form.partials, grid),)


def _of_pairs(form: PairAggregates, grid: SlidingWindow) -> tuple[SliceNeed, ...]:
    return (SliceNeed(f"pairs of {source_of(form)}", None, form.keys, form.partials, grid, spread=True),)


def _of_factors(form: FactorizedAggregates, grid: SlidingWindow) -> tuple[SliceNeed, ...]:
    of_members = tuple(
        SliceNeed(member.stream, member.filter, member_keys(form, at), member_partials(form, at), grid)
        for at, member in enumerate(form.members)
    )
    # Without keys a window has a result if one of the streams has a row in it, joined or not.
    return (*of_members, *(SliceNeed(stream, None, (), (), grid) for stream in form.streams if not form.key_types))


_NEEDS: dict[type, Callable[[Any, SlidingWindow], tuple[SliceNeed, ...]]] = {
    SliceAggregates: _of_stream,
    JoinAggregates: _of_join,
    PairAggregates: _of_pairs,
    FactorizedAggregates: _of_factors,
}


def source_of(body: JoinAggregates) -> str:
    """The name of the results of a continuous join, as the source of a slice store."""
    join = body.join
    return f"results {digest(identity((join.aliases, join.equalities, join.predicates, join.outputs)))}"


def _fulfilled(asked: list[SliceNeed]) -> dict[SliceNeed, SliceRead]:
    alike: dict[tuple[str, tuple[Expression, ...]], list[SliceNeed]] = {}
    for need in dict.fromkeys(asked):
        alike.setdefault((need.source, need.keys), []).append(need)
    found: dict[SliceNeed, SliceRead] = {}
    for group in alike.values():
        for gridded in _by_grid(group):
            for some in _by_filters(gridded):
                found |= _shared(some)
    return found


def _by_grid(group: list[SliceNeed]) -> list[list[SliceNeed]]:
    """The needs that share slices: those with the widest ones first, so that the order of queries does not matter."""
    bins: list[tuple[int, int, list[SliceNeed]]] = []  # width, longest range
    for need in sorted(group, key=lambda need: (-need.grid.slice, need.grid.range, str(need.filter))):
        for at, (width, longest, members) in enumerate(bins):
            common, farthest = gcd(width, need.grid.slice), max(longest, need.grid.range)
            if width == need.grid.slice or farthest // common <= MOST_SLICES:
                bins[at] = (common, farthest, [*members, need])
                break
        else:
            bins.append((need.grid.slice, need.grid.range, [need]))
    return [members for _, _, members in bins]


def _by_filters(group: list[SliceNeed]) -> list[list[SliceNeed]]:
    """At most 64 different filters together."""
    by_filter: dict[Expression | None, list[SliceNeed]] = {}
    for need in group:
        by_filter.setdefault(need.filter, []).append(need)
    filters = sorted(by_filter, key=str)
    return [
        [need for each in filters[begin : begin + WIDEST] for need in by_filter[each]]
        for begin in range(0, len(filters), WIDEST)
    ]


def _shared(group: list[SliceNeed]) -> dict[SliceNeed, SliceRead]:
    filters = dict.fromkeys(need.filter for need in group)
    first = group[0]
    # Without keys a window has a result even where no row passes, so that every row has to be seen.
    pushed = len(filters) > 1 or (not first.keys and first.filter is not None)
    own: dict[SliceNeed, tuple[Accumulator, tuple[PartialAggregate, ...]]] = {}
    for need in group:
        partials = tuple(filtered(partial, need.filter) for partial in need.partials) if pushed else need.partials
        present = Accumulator("count", None, need.filter) if pushed and need.keys else ROWS
        own[need] = present, partials
    parts = {part for present, partials in own.values() for partial in partials for part in accumulators_of(partial)}
    parts |= {ROWS, *(present for present, _ in own.values())}
    everything = not first.keys or None in filters
    store = SliceStore(
        first.source,
        () if everything else tuple(sorted((each for each in filters if each is not None), key=str)),
        first.keys,
        tuple(sorted(parts, key=lambda part: part.sort_key)),
        gcd(*(need.grid.slice for need in group)),
        spread=first.spread,
    )
    return {need: SliceRead(store, *of) for need, of in own.items()}


def filtered(partial: PartialAggregate, condition: Expression | None) -> PartialAggregate:
    """The partial aggregate of the rows that also pass a condition."""
    both = [each for each in (condition, partial.filter) if each is not None]
    return replace(partial, filter=all_of(both) if both else None)
