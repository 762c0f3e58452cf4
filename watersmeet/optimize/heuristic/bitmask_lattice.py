"""The lattice of a query as bit masks.

All connected sets of relations, where they are few: that depends on nothing but which relations are linked, so few
shapes serve all queries. Of a query that has too many (`Problem.is_narrow`), only some sets (`chosen_sets.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from operator import or_

# Ways to a set: nodes from the large to the small, each as (its place in this list + 1, steps), a step as (the set
# at the node, the set added, their union, place of the union); place 0 is the goal.
Walk = tuple[tuple[int, tuple[tuple[int, int, int, int], ...]], ...]


@dataclass(frozen=True, eq=False)
class Shape:
    """Sets of relations are given by their position in `masks`: single ones, then larger ones, the whole at the end."""

    linked: tuple[int, ...]  # for each relation the mask of those it is linked to
    masks: tuple[int, ...]
    grown: tuple[tuple[int, int], ...]  # how a set comes about: (position of a smaller set, relation added)
    around: tuple[int, ...]  # for each set the mask of all that its members are linked to
    stores: frozenset[int] | None = None  # the sets that may be materialized, by position; None: all

    @cached_property
    def index(self) -> Mapping[int, int]:
        return {mask: at for at, mask in enumerate(self.masks)}

    @cached_property
    def _walks(self) -> dict[tuple[int, int, bool], Walk]:
        return {}

    def walk(self, start: int, goal: int, stores: bool) -> Walk:
        """The ways from one relation to the set at position `goal`; with `stores` sets are added as a whole too."""
        key = (start, goal, stores)
        if key not in self._walks:
            self._walks[key] = self._find(start, goal, stores)
        return self._walks[key]

    def _find(self, start: int, goal: int, stores: bool) -> Walk:
        target = self.masks[goal]
        parts = [at for at, mask in enumerate(self.masks[:goal]) if not mask & ~target]
        added = [at for at in parts if at < len(self.linked) or (stores and (self.stores is None or at in self.stores))]
        place = {goal: 0}
        walk: list[tuple[int, tuple[tuple[int, int, int, int], ...]]] = []
        for at in reversed(parts):
            mask = self.masks[at]
            if mask >> start & 1:
                place[at] = len(walk) + 1
                unions = ((other, self.index.get(mask | self.masks[other])) for other in added if self._fits(at, other))
                steps = tuple((at, other, union, place[union]) for other, union in unions if union is not None)
                walk.append((place[at], steps))
        return tuple(walk)

    def _fits(self, here: int, other: int) -> bool:
        return bool(self.around[here] & self.masks[other]) and not self.masks[here] & self.masks[other]


@lru_cache(maxsize=4096)
def shape(linked: tuple[int, ...]) -> Shape:
    """The shape of a query in which relation i is linked to the relations in the mask `linked[i]`."""
    count = len(linked)
    around = {1 << at: linked[at] for at in range(count)}
    grown = {1 << at: (0, at) for at in range(count)}
    layer = list(grown)
    while layer:
        larger = []
        for mask in layer:
            free = around[mask] & ~mask
            for at in range(count):
                union = mask | 1 << at
                if free >> at & 1 and union not in grown:
                    grown[union] = (mask, at)
                    around[union] = around[mask] | linked[at]
                    larger.append(union)
        layer = larger
    position = {mask: at for at, mask in enumerate(grown)}
    return Shape(
        linked,
        tuple(grown),
        tuple((position.get(smaller, 0), at) for smaller, at in grown.values()),
        tuple(around[mask] for mask in grown),
    )


def chosen_shape(linked: tuple[int, ...], chosen: Iterable[int], stores: Collection[int]) -> Shape:
    """The shape of some sets. Each of more than one relation is another of them with one relation more."""
    count = len(linked)
    masks = [1 << at for at in range(count)]
    masks += sorted({mask for mask in chosen if mask & (mask - 1)}, key=lambda mask: (mask.bit_count(), mask))
    position = {mask: at for at, mask in enumerate(masks)}

    def grown(mask: int) -> tuple[int, int]:
        for at in range(count):
            if mask >> at & 1 and mask & ~(1 << at) in position and linked[at] & mask:
                return position[mask & ~(1 << at)], at
        raise AssertionError(f"no way to {mask:b}")

    def around(mask: int) -> int:
        return reduce(or_, (near for at, near in enumerate(linked) if mask >> at & 1))

    return Shape(
        linked,
        tuple(masks),
        tuple((0, at) if at < count else grown(mask) for at, mask in enumerate(masks)),
        tuple(map(around, masks)),
        frozenset(position[mask] for mask in stores),
    )


def alike(neighbours: Mapping[str, Sequence[str]]) -> list[str]:
    """The relations of a query in an order that gives queries of one shape the same masks, most of the time."""
    weight = {one: (-len(others), -sum(len(neighbours[o]) for o in others), one) for one, others in neighbours.items()}
    order = [min(neighbours, key=weight.__getitem__)]
    seen = set(order)
    for relation in order:  # grows: breadth first from the centre
        fresh = sorted((other for other in neighbours[relation] if other not in seen), key=weight.__getitem__)
        order += fresh
        seen.update(fresh)
    return order
