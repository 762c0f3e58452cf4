"""Groups of queries that walk together, one bit of a word each.

Queries form a class when they join the same streams by the same equalities. A class of up to 64 queries is one group:
the probe loop compares query sets, so that a pair of rows which no query wants costs one AND, and separate steps would
only look at the same rows again. A larger class needs several words. Then it matters which queries are together: a row
takes part in the steps of every group that has a query for it, so queries that want the same rows belong together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from watersmeet.model import Query
from watersmeet.optimize.joingraph import QueryGraph, Subquery
from watersmeet.store.filters import WIDEST

Groups = tuple[tuple[str, ...], ...]  # names of queries; each query of a plan is in one group


@dataclass(frozen=True)
class Group:
    """Queries of one class. With a branch of its own it shares no step with other groups of its class."""

    name: str
    queries: tuple[Query, ...]
    graph: QueryGraph
    branch: str


def classes_of(queries: Sequence[Query], graphs: Mapping[str, QueryGraph]) -> dict[Subquery, list[Query]]:
    found: dict[Subquery, list[Query]] = {}
    for query in queries:
        found.setdefault(graphs[query.name].whole, []).append(query)
    return found


def make_groups(queries: Sequence[Query], graphs: Mapping[str, QueryGraph], chosen: Groups = ()) -> list[Group]:
    """The groups of all queries: those chosen, as far as their queries are there; others join where there is room."""
    wanted = {name: at for at, names in enumerate(chosen) for name in names}
    made = []
    for number, (whole, members) in enumerate(classes_of(queries, graphs).items()):
        parts: dict[int, list[Query]] = {}
        for query in members:
            if query.name in wanted:
                parts.setdefault(wanted[query.name], []).append(query)
        lists = list(parts.values())
        for query in members:
            if query.name not in wanted:
                room = next((part for part in lists if len(part) < WIDEST), None)
                if room is None:
                    room = []
                    lists.append(room)
                room.append(query)
        graph = QueryGraph(str(whole), tuple(sorted(whole.relations)), whole.links)
        for at, part in enumerate(lists):
            assert len(part) <= WIDEST, "a group has more queries than a word has bits"
            branch = f"{number}.{at}" if len(lists) > 1 else ""
            made.append(Group(f"{number}.{at}", tuple(part), graph, branch))
    return made
