"""Aggregates over acyclic joins, made of messages, equal those that DuckDB gives for the join itself."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.aggregate.slices import Slices, as_text, given_by
from tests.support.examples import examples
from watersmeet.model import Query
from watersmeet.model.expression import ColumnRef, Expression, Literal, Operation
from watersmeet.model.forms import FactorizedAggregates, JoinPartial, Member
from watersmeet.model.join import Output
from watersmeet.model.predicate import KeyPart
from watersmeet.model.sliding_window import SlidingWindow

TYPES = {
    "a": ("int", pa.int32()),
    "b": ("int", pa.int32()),
    "s": ("string", pa.string()),
    "x": ("bigint", pa.int64()),
    "d": ("decimal(10,2)", pa.decimal128(10, 2)),
    "y": ("double", pa.float64()),
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "a": st.integers(0, 2),
    "b": st.integers(0, 1),
    "s": st.sampled_from(["", "u", "v"]),
    "x": st.integers(-3, 3) | st.sampled_from([2**62, -(2**62)]),
    "d": st.integers(-300, 300).map(lambda cents: Decimal(cents) / 100),
    "y": st.integers(-8, 8).map(lambda eighth: eighth / 8) | st.just(math.inf),
}
STREAMS = ("r0", "r1", "r2")


def column(name: str) -> ColumnRef:
    return ColumnRef(name, TYPES[name][0])


def positive(name: str) -> Expression:
    return Operation(">", (column(name), Literal(0, "int", "0")))


@st.composite
def bodies(draw: st.DrawFn) -> FactorizedAggregates:
    members = []
    number = 0
    for at in range(draw(st.integers(1, 4))):
        parent = draw(st.integers(0, at - 1)) if at else None
        joins = draw(st.lists(st.sampled_from(["a", "b", "s"]), min_size=1, max_size=2, unique=True)) if at else []
        own = tuple(KeyPart(column(name), TYPES[name][0]) for name in joins)
        other = tuple(
            KeyPart(column(draw(st.sampled_from(["a", "b"])) if part.type == "int" else "s"), part.type) for part in own
        )
        keys = draw(st.lists(st.sampled_from(["a", "s", "d"]), max_size=1))
        listed = tuple((number + place, column(name)) for place, name in enumerate(keys))
        number += len(keys)
        condition = draw(st.none() | st.just(positive("b")))
        members.append(Member(f"t{at}", draw(st.sampled_from(STREAMS)), condition, parent, own, other, listed))
    types = tuple(key.type for member in members for _, key in member.keys)
    return FactorizedAggregates(
        tuple(members), types, tuple(draw(st.lists(partials(len(members)), min_size=not types, max_size=4)))
    )


@st.composite
def partials(draw: st.DrawFn, members: int) -> JoinPartial:
    function = draw(st.sampled_from(["count", "sum", "min", "max"]))
    filters = tuple((at, positive("a")) for at in range(members) if draw(st.integers(0, 3)) == 0)
    positions = draw(st.permutations(range(members)))
    if function == "count":
        chosen = sorted(positions[: draw(st.integers(0, members))])
        arguments = tuple((at, column(draw(st.sampled_from(sorted(TYPES))))) for at in chosen)
        return JoinPartial("count", arguments, filters, "bigint")
    if function in ("min", "max"):
        argument = column(draw(st.sampled_from(sorted(TYPES))))
        return JoinPartial(function, ((positions[0], argument),), filters, argument.type)
    name = draw(st.sampled_from(["x", "d", "y"]))
    chosen = sorted(positions[: 1 if name == "x" else draw(st.integers(1, min(2, members)))])
    kind = {"x": "decimal(38,0)", "y": "double", "d": f"decimal(38,{2 * len(chosen)})"}[name]
    return JoinPartial("sum", tuple((at, column(name)) for at in chosen), filters, kind)


rows = st.lists(
    st.fixed_dictionaries({"at": st.integers(0, 9), **{name: st.none() | values for name, values in VALUES.items()}}),
    max_size=8,
)


def table_of(found: list[dict[str, Any]]) -> pa.Table:
    columns = {name: pa.array([row[name] for row in found], kind) for name, (_, kind) in TYPES.items()}
    return pa.table({"at": pa.array([row["at"] for row in found], pa.int64()), **columns})


def query_of(name: str, grid: SlidingWindow, body: FactorizedAggregates) -> Query:
    keys = [(f"k{at}", kind) for at, kind in enumerate(body.key_types)]
    parts = [each for at, partial in enumerate(body.partials) for each in partial.columns(at)]
    columns = [("window_start", "timestamp"), *keys, *parts]
    outputs = tuple(Output(name, kind, ColumnRef(name, kind)) for name, kind in columns)
    return Query(name, replace(body, outputs=outputs), grid)


def expected(tables: dict[str, pa.Table], query: Query) -> Counter[tuple[Any, ...]]:
    body, grid = query.form, query.grid
    assert isinstance(body, FactorizedAggregates)

    def of(at: int, expression: Expression) -> str:
        return expression.spelled(lambda column: f't{at}."{column.name}"')

    keys = {number: of(at, key) for at, member in enumerate(body.members) for number, key in member.keys}
    conditions = [of(at, member.filter) for at, member in enumerate(body.members) if member.filter is not None]
    for at, member in enumerate(body.members):
        for own, other in zip(member.join, member.parent_join, strict=True):
            assert member.parent is not None
            conditions.append(f"{of(at, own.expression)} = {of(member.parent, other.expression)}")
    aggregates = [_aggregate(partial, of) for partial in body.partials]
    sources = ", ".join(f"{member.stream} t{at}" for at, member in enumerate(body.members))
    listed = [f"{keys[at]} AS k{at}" for at in sorted(keys)]
    grouping = f"GROUP BY {', '.join(keys[at] for at in sorted(keys))}" if keys else ""
    found = []
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        for start in range(-10 * grid.slide, 11 * grid.slide, grid.slide):
            end = start + grid.range
            if not any(start <= at < end for name in body.streams for at in tables[name]["at"].to_pylist()):
                continue
            inside = [f't{at}."at" >= {start} AND t{at}."at" < {end}' for at in range(len(body.members))]
            selected = ", ".join([f"make_timestamp({start}::BIGINT) AS w", *listed, *aggregates])
            where = " AND ".join([*inside, *conditions])
            found += connection.sql(f"SELECT {selected} FROM {sources} WHERE {where} {grouping}").fetchall()
    return Counter(map(as_text, found))


def _aggregate(partial: JoinPartial, of: Any) -> str:
    conditions = [of(at, condition) for at, condition in partial.filters]
    arguments = [of(at, argument) for at, argument in partial.arguments]
    if partial.function == "count":
        conditions += [f"{argument} IS NOT NULL" for argument in arguments]
        call = "count(*)"
    else:
        call = f"{partial.function}({' * '.join(arguments)})"
    return call + (f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else "")


@given(st.data(), st.fixed_dictionaries(dict.fromkeys(STREAMS, rows)), st.integers(1, 3))
@settings(max_examples=examples(60))
def test_aggregates_of_joins_are_those_of_the_join(
    data: st.DataObject, found: dict[str, list[dict[str, Any]]], ticks: int
) -> None:
    asked = []
    for number in range(data.draw(st.integers(1, 3))):
        slide = data.draw(st.integers(1, 4))
        asked.append(
            query_of(f"q{number}", SlidingWindow(slide + data.draw(st.integers(0, 6)), slide), data.draw(bodies()))
        )
    slices = Slices(asked, data.draw(st.sampled_from(["matrix", "tree"])))
    for tick in range(ticks):
        begin, end = 10 * tick // ticks, 10 * (tick + 1) // ticks
        arriving = {name: [row for row in listed if begin <= row["at"] < end] for name, listed in found.items()}
        slices.tick({name: table_of(listed) for name, listed in arriving.items()}, watermark=end)
    slices.flush()
    tables = {name: table_of(listed) for name, listed in found.items()}
    for query in asked:
        assert given_by(slices.results(query.name)) == expected(tables, query)
