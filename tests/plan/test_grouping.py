"""Which queries share a word."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.test_compile import RS, STREAMS
from tests.support.declarations import numbered_queries
from watersmeet.model import Query
from watersmeet.optimize.joingraph import QueryGraph
from watersmeet.plan.grouping import choose_groups, cluster, make_groups
from watersmeet.plan.parts import JoinPart, parts_of
from watersmeet.store.derived import WIDEST


def queries(count: int, condition: str) -> list[Query]:
    texts = [RS.replace("WHERE", f"WHERE {condition.format(at, at + 1)} AND") for at in range(count)]
    return numbered_queries(texts, STREAMS)


def rows(stream: str) -> pa.RecordBatch:
    names = [column.name for column in STREAMS[stream].columns]
    return pa.record_batch({name: pa.array(np.arange(200), pa.int32()) for name in names if name != "ts"})


@given(st.integers(1, 200), st.integers(1, 30), st.integers(0, 2**32 - 1), st.booleans())
def test_every_query_is_in_one_group_that_fits_a_word(count: int, sampled: int, seed: int, some: bool) -> None:
    wants = np.random.default_rng(seed).random((sampled, count)) < 0.3
    there = [list(range(min(count, 40)))] if some else []
    groups = cluster(wants, [at for at in range(count) if not some or at >= 40], there)
    assert sorted(at for group in groups for at in group) == list(range(count))
    assert all(len(group) <= WIDEST for group in groups)
    assert not some or set(there[0]) <= set(groups[0])


def graphs_of(parts: list[JoinPart]) -> dict[str, QueryGraph]:
    return {part.name: part.graph for part in parts}


def test_queries_that_want_the_same_rows_come_together() -> None:
    # Two kinds of queries by turns: half of them look at low values, half at high ones.
    mixed = [query for pair in zip(queries(64, "s.b < 100"), queries(64, "s.b >= 100"), strict=True) for query in pair]
    named = numbered_queries([query.sql for query in mixed], STREAMS)
    parts = parts_of(named)
    groups = choose_groups(parts, graphs_of(parts), rows)
    assert sorted(sorted(int(name[1:]) % 2 for name in group) for group in groups) == [[0] * 64, [1] * 64]


def test_groups_stay_while_few_queries_change_and_are_made_anew_when_most_do() -> None:
    many = parts_of(queries(100, "s.b BETWEEN {} AND {}"))
    graphs = graphs_of(many)
    first = choose_groups(many, graphs, rows)
    again = choose_groups(many[:90], graphs, rows, before=first)
    assert [set(group) & {query.name for query in many[:90]} for group in first] == [set(group) for group in again]
    half = tuple(tuple(name for name in group if int(name[1:]) < 40) for group in first)
    assert choose_groups(many, graphs, rows, before=half) == first


def test_small_classes_are_one_group_and_comparisons_can_be_forced() -> None:
    few = parts_of(queries(5, "s.b > {}"))
    graphs = graphs_of(few)
    assert [(len(group.queries), group.branch) for group in make_groups(few, graphs)] == [(5, "")]
    assert len({group.branch for group in make_groups(few, graphs, sharing="none")}) == 5
    many = parts_of(queries(70, "s.b > {}"))
    graphs = graphs_of(many)
    assert [group.branch for group in make_groups(many, graphs, sharing="all")] == ["", ""]
    assert len({group.branch for group in make_groups(many, graphs)}) == 2
