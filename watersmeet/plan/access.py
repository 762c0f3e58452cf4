"""How a step finds its rows: where keys are in a store, and which ranges other predicates look up.

Without an equality a step looks up a range of a sorted index, if some predicate bounds a key of the probed store by
keys of earlier rows; otherwise it scans all rows within the window. What the range does not prove is tested on the
rows found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from watersmeet.model import ColumnRef, KeyPart
from watersmeet.optimize.joingraph import Link, Subquery, stream_of
from watersmeet.plan.ruleset import MISSING, Bound, Lookup, Member, Range, Test, kept_name


def seen_in(store: Subquery, relation: str, part: KeyPart) -> KeyPart:
    """A key of a relation as the store that holds the relation's rows names it."""
    if store.is_stream:
        return part
    return KeyPart(ColumnRef(kept_name(f"{relation}.", part), part.type), part.type)


def lookup_in(bound: Sequence[Subquery], relation: str, part: KeyPart) -> Lookup:
    position, _ = member_in(bound, relation)
    return position, seen_in(bound[position], relation, part)


def member_in(stores: Sequence[Subquery], relation: str) -> Member:
    """Where the row of a relation is found; rows of a leaf itself are no members of what its checks let pass."""
    position = next((at for at, store in enumerate(stores) if relation in store.relations), MISSING)
    if position == MISSING:
        return MISSING, stream_of(relation)
    return position, "" if stores[position].is_stream else f"{relation}."


def order_of(lookup: Lookup) -> tuple[int, tuple[str, str]]:
    return lookup[0], lookup[1].sort_key


def predicates_between(
    links: Iterable[Link], bound: Sequence[Subquery], store: Subquery, *, by_range: bool
) -> tuple[Range | None, tuple[Test, ...]]:
    """The range to look up in a store, if one is of use, and the tests that are left for the rows found."""
    positions = (*bound, store)
    thetas = sorted((link for link in links if link.theta is not None), key=lambda link: link.text)
    chosen = _range(thetas, bound, store) if by_range else None
    tests: dict[Test, None] = {}
    for link in thetas:
        theta = link.theta
        assert theta is not None
        proven = False
        if theta.band is not None and theta.band.proves and chosen is not None:
            part, lows, highs = _bounds(link, bound, store)
            proven = part == chosen.part and set(lows) <= set(chosen.lows) and set(highs) <= set(chosen.highs)
        if not proven and not theta.is_always_true:
            tests[Test(theta, member_in(positions, link.left[0]), member_in(positions, link.right[0]))] = None
    return chosen, tuple(tests)


def _range(thetas: Sequence[Link], bound: Sequence[Subquery], store: Subquery) -> Range | None:
    lows: dict[KeyPart, dict[Bound, None]] = {}
    highs: dict[KeyPart, dict[Bound, None]] = {}
    for link in thetas:
        if link.theta is not None and link.theta.band is not None:
            part, above, below = _bounds(link, bound, store)
            lows.setdefault(part, {}).update(dict.fromkeys(above))
            highs.setdefault(part, {}).update(dict.fromkeys(below))
    if not lows:
        return None
    # A range with two ends is narrower than one with one end.
    best = min(lows, key=lambda part: (-bool(lows[part]) - bool(highs[part]), part.sort_key))
    return Range(best, _ordered(lows[best]), _ordered(highs[best]))


def _ordered(bounds: Iterable[Bound]) -> tuple[Bound, ...]:
    return tuple(sorted(bounds, key=lambda one: (order_of(one[0]), one[1])))


def _bounds(link: Link, bound: Sequence[Subquery], store: Subquery) -> tuple[KeyPart, list[Bound], list[Bound]]:
    """The key of the store that a band bounds, and by what: low <= right - left <= high, solved for the inner side."""
    band = link.theta.band if link.theta else None
    assert band is not None
    if link.right[0] in store.relations:
        outer, inner = lookup_in(bound, link.left[0], band.left), seen_in(store, link.right[0], band.right)
        low, high = band.low, band.high
    else:
        outer, inner = lookup_in(bound, link.right[0], band.right), seen_in(store, link.left[0], band.left)
        low, high = (None if end is None else -end for end in (band.high, band.low))
    return inner, [] if low is None else [(outer, low)], [] if high is None else [(outer, high)]
