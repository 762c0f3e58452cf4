"""What a plan assumes because it was not measured and not given. Before the first ticks that is everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from watersmeet.optimize.joingraph import Link, Subquery, stream_of
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.statistics import DEFAULT_SIZE


@dataclass(frozen=True)
class Assumed:
    sizes: tuple[str, ...] = ()  # streams
    matches: tuple[str, ...] = ()  # join predicates
    filters: tuple[str, ...] = ()  # of streams
    ticks: bool = False  # in which the windows are renewed

    def __bool__(self) -> bool:
        return bool(self.sizes or self.matches or self.filters or self.ticks)

    @property
    def text(self) -> str:
        """A list in words; the ticks have a line of their own among the costs."""
        parts = []
        if self.sizes:
            parts.append(f"{DEFAULT_SIZE:,.0f} tuples in each window of {', '.join(self.sizes)}")
        for count, what in (
            (len(self.matches), "how many pairs satisfy {} join predicate{}"),
            (len(self.filters), "how many rows pass {} filter{}"),
        ):
            if count:
                parts.append(what.format(count, "s" if count > 1 else ""))
        return "; ".join(parts)


def assumed_mark(assumed: bool) -> str:
    """What stands behind a figure that follows from something that is assumed."""
    return " (assumed)" if assumed else ""


def assumed_by(problem: Problem, shown: Callable[[Link], str]) -> Assumed:
    """What is assumed for all queries; `shown` spells a join predicate."""
    known = problem.statistics
    streams = [str(stream) for stream in problem.streams]
    links = {shown(link) for query in problem.queries for link in query.links if not known.knows_selectivity(link)}
    filters = {text for demand in problem.demands.values() for text in demand.filters.values()}
    return Assumed(
        tuple(stream for stream in streams if stream not in known.sizes),
        tuple(sorted(links)),
        tuple(f"{stream}: {text}" for stream, text in sorted(filters - known.filters.keys())),
        bool(streams) and not problem.weights.once and not any(known.arrivals.get(stream) for stream in streams),
    )


def is_assumed(problem: Problem, subquery: Subquery, queries: Iterable[str] = ()) -> bool:
    """Whether the size of a subquery, as these queries filter it, follows from something that is assumed."""
    known = problem.statistics
    demands = (problem.demands[name] for name in queries if name in problem.demands)
    filters = {text for demand in demands for at, text in demand.filters.items() if at in subquery.relations}
    return (
        any(stream_of(relation) not in known.sizes for relation in subquery.relations)
        or not all(map(known.knows_selectivity, subquery.links))
        or not filters <= known.filters.keys()
    )
