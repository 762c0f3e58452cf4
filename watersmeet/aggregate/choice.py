"""Which slice stores the windowed queries of a pipeline need, and what each query reads of them.

Queries over the same source with the same keys share a store: its slices are the greatest common grid of theirs, its
parts the union. If their filters differ, each part has the filter of its query, so that one pass over the rows serves
them all, and each query counts the rows that pass its filter, to know which keys it has.

Two limits keep a store from growing out of proportion: a store has at most 64 filters, the bits of a word; and the
longest window has at most `MOST_SLICES` slices, unless a query's own grid has more, because ranges of odd lengths can
have a common grid as fine as the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import gcd

from watersmeet.aggregate.needs import counts_of, member_keys, member_partials
from watersmeet.aggregate.reading import Reading, Wish
from watersmeet.aggregate.slice_store import ROWS, Part, SliceStore, parts_of
from watersmeet.model.expression import Expression, all_of
from watersmeet.model.forms import FactorizedAggregates, JoinAggregates, Partial, SliceAggregates
from watersmeet.model.identity import digest, identity
from watersmeet.model.query import Query
from watersmeet.store.derived import WIDEST

MOST_SLICES = 1 << 16


def slice_stores(queries: Iterable[Query]) -> dict[str, tuple[Reading, ...]]:
    """For each query whose windows are made of slices, what it reads, in the order of `wishes`."""
    asked = {query.name: wishes(query) for query in queries}
    found = _fulfilled([wish for each in asked.values() for wish in each])
    return {name: tuple(found[wish] for wish in each) for name, each in asked.items() if each}


def wishes(query: Query) -> tuple[Wish, ...]:
    """What a query needs: one wish for a stream, and one for each combination of distinct values; one for each member
    of a join and, without keys, for each of its streams. Batches need none."""
    body, grid = query.form, query.grid
    if isinstance(body, SliceAggregates):
        plain = tuple(partial for partial in body.partials if not partial.distinct)
        return (
            Wish(body.stream, body.filter, body.keys, plain, grid),
            *(
                Wish(body.stream, body.filter, (*body.keys, *values), counts_of(body, values), grid)
                for values in body.distinct
            ),
        )
    if isinstance(body, JoinAggregates):
        return (Wish(source_of(body), None, body.keys, body.partials, grid),)
    if isinstance(body, FactorizedAggregates):
        of_members = tuple(
            Wish(member.stream, member.filter, member_keys(body, at), member_partials(body, at), grid)
            for at, member in enumerate(body.members)
        )
        # Without keys a window has a result if one of the streams has a row in it, joined or not.
        return (*of_members, *(Wish(stream, None, (), (), grid) for stream in body.streams if not body.key_types))
    return ()


def source_of(body: JoinAggregates) -> str:
    """The name of the results of a continuous join, as the source of a slice store."""
    join = body.join
    return f"results {digest(identity((join.aliases, join.equalities, join.predicates, join.outputs)))}"


def _fulfilled(asked: list[Wish]) -> dict[Wish, Reading]:
    alike: dict[tuple[str, tuple[Expression, ...]], list[Wish]] = {}
    for wish in dict.fromkeys(asked):
        alike.setdefault((wish.source, wish.keys), []).append(wish)
    found: dict[Wish, Reading] = {}
    for group in alike.values():
        for gridded in _by_grid(group):
            for some in _by_filters(gridded):
                found |= _shared(some)
    return found


def _by_grid(group: list[Wish]) -> list[list[Wish]]:
    """The wishes that share slices: those with the widest ones first, so that the order of queries does not matter."""
    bins: list[tuple[int, int, list[Wish]]] = []  # width, longest range
    for wish in sorted(group, key=lambda wish: (-wish.grid.slice, wish.grid.range, str(wish.filter))):
        for at, (width, longest, members) in enumerate(bins):
            common, farthest = gcd(width, wish.grid.slice), max(longest, wish.grid.range)
            if width == wish.grid.slice or farthest // common <= MOST_SLICES:
                bins[at] = (common, farthest, [*members, wish])
                break
        else:
            bins.append((wish.grid.slice, wish.grid.range, [wish]))
    return [members for _, _, members in bins]


def _by_filters(group: list[Wish]) -> list[list[Wish]]:
    """At most 64 different filters together."""
    by_filter: dict[Expression | None, list[Wish]] = {}
    for wish in group:
        by_filter.setdefault(wish.filter, []).append(wish)
    filters = sorted(by_filter, key=str)
    return [
        [wish for each in filters[begin : begin + WIDEST] for wish in by_filter[each]]
        for begin in range(0, len(filters), WIDEST)
    ]


def _shared(group: list[Wish]) -> dict[Wish, Reading]:
    filters = dict.fromkeys(wish.filter for wish in group)
    first = group[0]
    # Without keys a window has a result even where no row passes, so that every row has to be seen.
    pushed = len(filters) > 1 or (not first.keys and first.filter is not None)
    own: dict[Wish, tuple[Part, tuple[Partial, ...]]] = {}
    for wish in group:
        partials = tuple(filtered(partial, wish.filter) for partial in wish.partials) if pushed else wish.partials
        present = Part("count", None, wish.filter) if pushed and wish.keys else ROWS
        own[wish] = present, partials
    parts = {part for present, partials in own.values() for partial in partials for part in parts_of(partial)}
    parts |= {ROWS, *(present for present, _ in own.values())}
    everything = not first.keys or None in filters
    store = SliceStore(
        first.source,
        () if everything else tuple(sorted((each for each in filters if each is not None), key=str)),
        first.keys,
        tuple(sorted(parts, key=lambda part: part.sort_key)),
        gcd(*(wish.grid.slice for wish in group)),
    )
    return {wish: Reading(store, *of) for wish, of in own.items()}


def filtered(partial: Partial, condition: Expression | None) -> Partial:
    """The same of the rows that pass a condition."""
    both = [each for each in (condition, partial.filter) if each is not None]
    return replace(partial, filter=all_of(both) if both else None)
