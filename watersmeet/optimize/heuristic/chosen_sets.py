"""Sets of relations for a query that has too many connected ones: those on probe orders that are probably cheap.

For each relation as the start, orders grow by one relation at a time. Of the sets of one size a few stay: those whose
orders cost least so far, and leave the fewest rows for the steps that are missing. Nothing depends on a clock, and of
n relations at most n² · `width` sets are looked at further, each with less than n relations to go on with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from math import prod

from watersmeet.optimize.joingraph import Link, QueryGraph, root_of, stream_of
from watersmeet.optimize.problem import Path, Problem

WIDTH = 4  # sets of each size that stay, for each start
WIDTHS = 40  # of all queries that have too many sets: with more of them, each gets less

Known = Callable[[int], bool]


def width_for(queries: int) -> int:
    """The width of the search for each of so many queries."""
    return max(1, min(WIDTH, WIDTHS // max(1, queries)))


class ProbeOrders:
    """The search for one query; relations have the numbers that they have in `relations`."""

    def __init__(self, problem: Problem, query: QueryGraph, relations: Sequence[str]) -> None:
        self._problem = problem
        self._query = query
        self._relations = relations
        number = {relation: at for at, relation in enumerate(relations)}
        statistics = problem.statistics
        ends: dict[object, int] = {}
        # As `statistics.independent` has them: of a cycle over one value the least selective equality does not count.
        self._links: list[tuple[int, float, int, int]] = []  # (its two relations, selectivity, ends or -1)
        self._between: dict[tuple[int, int], list[Link]] = {}
        for link in sorted(query.links, key=lambda link: (statistics.selectivity(link), link.text)):
            left, right = number[link.left[0]], number[link.right[0]]
            sides = [ends.setdefault(end, len(ends)) if link.theta is None else -1 for end in (link.left, link.right)]
            self._links.append((1 << left | 1 << right, statistics.selectivity(link), sides[0], sides[1]))
            self._between.setdefault((left, right), []).append(link)
            self._between.setdefault((right, left), []).append(link)
        self._linked = [sum(1 << b for a, b in self._between if a == at) for at in range(len(relations))]
        self._rows = [
            statistics.size(relation) * problem.wanted.passing(query.name, relation) for relation in relations
        ]
        demand = problem.demands.get(query.name)
        self._window = [demand.windows.get(relation, 1.0) if demand else 1.0 for relation in relations]
        self._size = cache(self._computed_size)

    def sets(self, start: int, width: int, free: Known = lambda mask: False) -> set[int]:
        """The sets on the cheapest orders from a start; steps to a set that is `free` are paid by others."""
        weights = self._problem.weights
        layer: dict[int, float] = {1 << start: 0.0}
        layers = [set(layer)]
        for missing in range(len(self._relations) - 2, -1, -1):
            grown: dict[int, float] = {}
            for mask, cost in layer.items():
                for at in self._next(mask):
                    union = mask | 1 << at
                    reached = cost if free(union) else cost + self._step(start, mask, at)
                    grown[union] = min(reached, grown.get(union, reached))
            rank = {
                mask: cost + missing * self._flow(start, mask) * (weights.miss + weights.match)
                for mask, cost in grown.items()
            }
            stay = sorted(grown, key=lambda mask: (rank[mask], mask))[:width]
            layer = {mask: grown[mask] for mask in stay}
            layers.append(set(stay))
        for smaller, larger in zip(reversed(layers[:-1]), reversed(layers[1:]), strict=True):
            # What leads nowhere is no use to anybody.
            smaller &= {mask & ~(1 << at) for mask in larger for at in range(len(self._relations)) if mask >> at & 1}
        return set().union(*layers)

    def sets_of(self, start: str, path: Path) -> set[int]:
        """The sets on a path that is known; a store of several relations is reached by one after the other."""
        mask = self.mask_of((start,))
        found = {mask}
        for store in path:
            inside = self.mask_of(store.relations)
            while inside & ~mask:
                mask |= 1 << next(at for at in self._next(mask) if inside >> at & 1)
                found.add(mask)
        return found

    def mask_of(self, relations: Iterable[str]) -> int:
        return sum(1 << self._relations.index(relation) for relation in relations)

    def _next(self, mask: int) -> list[int]:
        return [at for at, linked in enumerate(self._linked) if linked & mask and not mask >> at & 1]

    def _step(self, start: int, mask: int, at: int) -> float:
        came, found = self._flow(start, mask), self._flow(start, mask | 1 << at)
        known = [link for other in range(len(self._relations)) if mask >> other & 1
                 for link in self._between.get((other, at), ())]  # fmt: skip
        store = self._query.within(frozenset((self._relations[at],)))
        step = self._problem.step_by_flow((came, found), store, known, mask & (mask - 1) > 0)
        return step.probing + step.matching + step.fixed

    def _flow(self, start: int, mask: int) -> float:
        """Partial results that the query wants: those in which the start arrives last, whose own window is no limit."""
        rows = self._size(mask) / self._window[start]
        if self._problem.weights.once:
            return rows / mask.bit_count()
        stream = stream_of(self._relations[start])
        return rows * self._problem.statistics.turnover(stream, self._problem.ticks)

    def _computed_size(self, mask: int) -> float:
        inside = [at for at in range(len(self._relations)) if mask >> at & 1]
        size = prod(self._rows[at] * self._window[at] for at in inside)
        same: dict[int, int] = {}  # ends that have one value
        for both, selectivity, left, right in self._links:
            if both & ~mask:
                continue
            if left >= 0:
                one, other = root_of(same, left), root_of(same, right)
                if one == other:
                    continue
                same[one] = other
            size *= selectivity
        return size
