"""Groups of queries that share steps, one bit of a word each.

Queries form a class when they join the same streams by the same equalities. A class of up to 64 queries is one group:
the probe loop compares query sets, so that a pair of rows which no query wants costs one AND, and separate steps would
only read the same rows again. A larger class needs several words, and then it matters which queries are together: a
row takes part in the steps of every group that has a query for it. So the cost of a group is the number of rows that
some query of it wants (their union, as in AJoin's Eq. 1), measured on a sample of each stream, and queries that want
the same rows come together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.model import Expression
from watersmeet.optimize.joingraph import QueryGraph, Subquery, stream_of
from watersmeet.plan.parts import JoinPart, LeafJoin
from watersmeet.store.derived import WIDEST, Block

Groups = tuple[tuple[str, ...], ...]  # names of queries, for the classes that need several groups
Sample = Callable[[str], pa.RecordBatch | None]  # some rows of a stream


@dataclass(frozen=True)
class Group:
    """Queries of one class. With a branch of its own it shares no step with other groups of its class."""

    name: str
    queries: tuple[JoinPart, ...]
    graph: QueryGraph  # its paths find the whole of it
    branch: str
    leaf: LeafJoin | None = None  # of the preserved sides of queries with leaves


def classes_of(
    queries: Sequence[JoinPart], graphs: Mapping[str, QueryGraph]
) -> dict[tuple[Subquery, LeafJoin | None], list[JoinPart]]:
    found: dict[tuple[Subquery, LeafJoin | None], list[JoinPart]] = {}
    for query in queries:
        found.setdefault((graphs[query.name].whole, query.leaf), []).append(query)
    return found


def make_groups(
    queries: Sequence[JoinPart], graphs: Mapping[str, QueryGraph], chosen: Groups = (), sharing: str = "groups"
) -> list[Group]:
    """The groups of all queries: those chosen, as far as their queries are there; others join where there is room.

    `sharing` is "groups", or for comparison "all" (one step for all groups of a class) or "none" (own steps for each
    query)."""
    wanted = {name: at for at, names in enumerate(chosen) for name in names}
    made = []
    for number, ((whole, leaf), members) in enumerate(classes_of(queries, graphs).items()):
        if sharing == "none":
            lists = [[query] for query in members]
        else:
            parts: dict[int, list[JoinPart]] = {}
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
            name = f"{number}.{at}"
            apart = sharing == "none" or (sharing == "groups" and len(lists) > 1)
            made.append(Group(name, tuple(part), graph, name if apart else "", leaf))
    return made


def choose_groups(
    queries: Sequence[JoinPart],
    graphs: Mapping[str, QueryGraph],
    sample: Sample,
    before: Groups = (),
) -> Groups:
    """Groups by cost for the classes that need several, from samples of the streams' rows.

    While at most half of a class has changed, groups stay as they are and a new query goes where it adds the fewest
    rows; otherwise the class is grouped again."""
    rows: dict[str, pa.RecordBatch | None] = {}
    chosen: list[tuple[str, ...]] = []
    for members, parts in _large_classes(queries, graphs, before):
        wants = _wants(members, graphs, lambda stream: rows.setdefault(stream, sample(stream)))
        known = {at for part in parts for at in part}
        added = [at for at in range(len(members)) if at not in known]
        afresh = 2 * len(added) > len(members)
        found = cluster(wants, list(range(len(members))), []) if afresh else cluster(wants, added, parts)
        chosen += [tuple(members[at].name for at in part) for part in found]
    return tuple(chosen)


def rows_in_groups(
    queries: Sequence[JoinPart], graphs: Mapping[str, QueryGraph], sample: Sample, groups: Groups
) -> int:
    """What groups cost: sampled rows that take part in the steps of a group, counted once for each group."""
    total = 0
    for members, parts in _large_classes(queries, graphs, groups):
        wants = _wants(members, graphs, sample)
        total += sum(int(wants[:, part].any(axis=1).sum()) for part in parts)
    return total


def _large_classes(
    queries: Sequence[JoinPart], graphs: Mapping[str, QueryGraph], groups: Groups
) -> Iterator[tuple[list[JoinPart], list[list[int]]]]:
    """The classes that need several groups, with those groups that there are as positions of their members."""
    for members in classes_of(queries, graphs).values():
        if len(members) > WIDEST:
            number = {query.name: at for at, query in enumerate(members)}
            parts = [[number[name] for name in names if name in number] for names in groups]
            yield members, [part for part in parts if part]


def _wants(members: list[JoinPart], graphs: Mapping[str, QueryGraph], rows: Sample) -> np.ndarray:
    """For each sampled row (of all relations, one after the other) and each query: whether it passes the filter."""
    from watersmeet.store.filters import evaluate_block

    pieces = []
    relations = sorted(graphs[members[0].name].relations)
    filters = {
        query.name: dict(zip(graphs[query.name].relations, (alias.filter for alias in query.join.aliases), strict=True))
        for query in members
    }
    for relation in relations:
        batch = rows(stream_of(relation))
        if batch is None or not batch.num_rows:
            continue
        matrix = np.empty((batch.num_rows, len(members)), bool)
        for begin in range(0, len(members), WIDEST):
            wanted = [_known(filters[query.name][relation], batch) for query in members[begin : begin + WIDEST]]
            words, _ = evaluate_block(batch, Block(tuple(() if each is None else (each,) for each in wanted)))
            for bit in range(len(wanted)):
                matrix[:, begin + bit] = (words >> words.dtype.type(bit)) & words.dtype.type(1)
        pieces.append(matrix)
    return np.concatenate(pieces) if pieces else np.ones((1, len(members)), bool)


def _known(wanted: Expression | None, batch: pa.RecordBatch) -> Expression | None:
    """A filter, unless it reads a column that Spark has not computed yet for the sampled rows."""
    return wanted if wanted and {column.name for column in wanted.columns} <= set(batch.schema.names) else None


def cluster(wants: np.ndarray, added: list[int], groups: list[list[int]]) -> list[list[int]]:
    """Put each query of `added` into a group, all groups of at most 64, so that the groups want few rows in all.

    Widest first: a wide query makes room for those inside of it. A query goes where it adds the fewest rows; a new
    group is begun while there are fewer than needed and none of those there has half of the query's rows."""
    wants = wants[~wants.all(axis=1)]  # a row that all want is in every group, whatever the groups are
    groups = [list(group) for group in groups]
    unions = [wants[:, group].any(axis=1) for group in groups]
    needed = -(-(len(added) + sum(map(len, groups))) // WIDEST)
    for query in sorted(added, key=lambda at: (-int(wants[:, at].sum()), at)):
        column = wants[:, query]
        open_ones = [at for at, group in enumerate(groups) if len(group) < WIDEST]
        adds = {at: int((column & ~unions[at]).sum()) for at in open_ones}
        best = min(adds, key=lambda at: (adds[at], at), default=None)
        if best is None or (len(groups) < needed and 2 * adds[best] > int(column.sum())):
            groups.append([query])
            unions.append(column.copy())
        else:
            groups[best].append(query)
            unions[best] |= column
    return groups
