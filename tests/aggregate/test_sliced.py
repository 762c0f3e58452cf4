"""Windows of one stream, made of slices, equal what DuckDB gives for the rows of each window."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.aggregate.slices import Slices, as_text, given_by
from tests.support.examples import examples
from watersmeet.model import Query
from watersmeet.model.expression import ColumnRef, Expression, Literal, Operation
from watersmeet.model.forms import PartialAggregate, SliceAggregates
from watersmeet.model.join import Output
from watersmeet.model.sliding_window import SlidingWindow

TYPES = {
    "i": ("int", pa.int32()),
    "x": ("bigint", pa.int64()),
    "s": ("string", pa.string()),
    "f": ("double", pa.float64()),
    "g": ("float", pa.float32()),
    "d": ("decimal(10,2)", pa.decimal128(10, 2)),
    "e": ("decimal(28,3)", pa.decimal128(28, 3)),
    "o": ("boolean", pa.bool_()),
    "t": ("timestamp", pa.timestamp("us")),
    "b": ("binary", pa.binary()),
}
eighths = st.integers(-40, 40).map(lambda eighth: eighth / 8)  # their sums are exact in any order
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-2, 2),
    "x": st.integers(-2, 2) | st.sampled_from([2**63 - 1, -(2**63), 2**62, -(2**32), 2**32 - 1]),
    "s": st.sampled_from(["", "a", "é", "a\0", "Z", "zz"]),
    "f": eighths | st.sampled_from([math.nan, -0.0, 0.0, math.inf]),
    "g": eighths,
    "d": st.integers(-300, 300).map(lambda cents: Decimal(cents) / 100),
    "e": st.integers(-(10**28) + 1, 10**28 - 1).map(lambda n: Decimal(n).scaleb(-3)),
    "o": st.booleans(),
    "t": st.integers(-5, 5),
    "b": st.sampled_from([b"", b"\xff", b"a"]),
}
SUMMED = {"i": "decimal(38,0)", "x": "decimal(38,0)", "f": "double", "g": "double",
          "d": "decimal(20,2)", "e": "decimal(38,3)"}  # fmt: skip


def column(name: str) -> ColumnRef:
    return ColumnRef(name, TYPES[name][0])


def above(name: str, number: int) -> Expression:
    literal: Expression = Literal(abs(number), "int", str(abs(number)))
    return Operation(">", (column(name), Operation("-", (literal,)) if number < 0 else literal))


@st.composite
def partials(draw: st.DrawFn) -> PartialAggregate:
    function = draw(st.sampled_from(["count", "rows", "sum", "min", "max", "moments"]))
    condition = draw(st.none() | st.builds(above, st.just("i"), st.integers(-1, 1)))
    if function == "rows":
        return PartialAggregate("count", None, condition, "bigint")
    if function == "sum":
        name = draw(st.sampled_from(sorted(SUMMED)))
        return PartialAggregate("sum", column(name), condition, SUMMED[name])
    if function == "moments":
        return PartialAggregate("moments", column("g"), condition, "double")
    name = draw(st.sampled_from(sorted(TYPES)))
    return PartialAggregate(function, column(name), condition, "bigint" if function == "count" else TYPES[name][0])


@st.composite
def queries(draw: st.DrawFn, name: str) -> Query:
    slide = draw(st.integers(1, 6))
    grid = SlidingWindow(slide + draw(st.integers(0, 20)), slide)
    keys = draw(st.lists(st.sampled_from(sorted(TYPES)), max_size=2, unique=True))
    condition = draw(st.none() | st.builds(above, st.just("i"), st.integers(-1, 1)))
    parts = tuple(draw(st.lists(partials(), min_size=1, max_size=3)))
    body = SliceAggregates("r", condition, tuple(map(column, keys)), parts)
    return plain(name, grid, body)


def plain(name: str, grid: SlidingWindow, body: SliceAggregates) -> Query:
    """A query whose outputs are the columns of its last step."""
    keys = [(f"k{at}", key.type) for at, key in enumerate(body.keys)]
    parts = [each for at, partial in enumerate(body.partials) for each in partial.columns(at)]
    columns = [("window_start", "timestamp"), *keys, *parts]
    outputs = tuple(Output(name, kind, ColumnRef(name, kind)) for name, kind in columns)
    return Query(name, replace(body, outputs=outputs), grid)


rows = st.lists(
    st.fixed_dictionaries(
        {"at": st.integers(-30, 30), **{name: st.none() | values for name, values in VALUES.items()}}
    ),
    min_size=1,
    max_size=40,
)


def table_of(found: list[dict[str, Any]]) -> pa.Table:
    columns = {name: pa.array([row[name] for row in found], kind) for name, (_, kind) in TYPES.items()}
    return pa.table({"at": pa.array([row["at"] for row in found], pa.int64()), **columns})


def expected(table: pa.Table, query: Query) -> Counter[tuple[Any, ...]]:
    body = query.form
    assert isinstance(body, SliceAggregates)
    keys = [f"{key.text} + 0.0::{'FLOAT' if key.type == 'float' else 'DOUBLE'}" if key.type in ("double", "float")
            else key.text for key in body.keys]  # fmt: skip
    aggregates = [sql for partial in body.partials for sql in _aggregates(partial, body.filter if not keys else None)]
    where = f"WHERE {body.filter.text}" if body.filter is not None and keys else ""
    grouping = ", ".join(["w", *keys])
    slide, width = query.grid.slide, query.grid.range
    with duckdb.connect() as connection:
        connection.register("input", table)
        found = connection.sql(f"""
            WITH windows AS (SELECT unnest(range(-60, 61)) AS number),
            members AS (SELECT make_timestamp(number * {slide}) AS w, r.* FROM windows, input r
                        WHERE r."at" >= number * {slide} AND r."at" < number * {slide} + {width})
            SELECT {", ".join([grouping, *aggregates])} FROM members {where} GROUP BY {grouping}""").fetchall()
    return Counter(map(as_text, found))


def _aggregates(partial: PartialAggregate, condition: Expression | None) -> list[str]:
    both = [each.text for each in (partial.filter, condition) if each is not None]
    suffix = f" FILTER (WHERE {' AND '.join(both)})" if both else ""
    argument = "*" if partial.argument is None else partial.argument.text
    if partial.function == "moments":
        return [f"count({argument}){suffix}::DOUBLE", f"coalesce(avg({argument}){suffix}, 0)",
                f"coalesce(var_pop({argument}){suffix} * count({argument}){suffix}, 0)"]  # fmt: skip
    if partial.function == "sum" and partial.type == "double":
        argument = f"{argument}::DOUBLE"
    return [f"{partial.function}({argument}){suffix}"]


@given(st.data(), rows, st.integers(1, 4), st.sampled_from(["matrix", "tree"]))
@settings(max_examples=examples(60))
def test_windows_are_those_of_a_batch(data: st.DataObject, found: list[dict[str, Any]], ticks: int, form: str) -> None:
    asked = [data.draw(queries(f"q{number}")) for number in range(data.draw(st.integers(1, 4)))]
    found = sorted(found, key=lambda row: row["at"])
    slices = Slices(asked, form)
    for some in np.array_split(np.arange(len(found)), ticks):
        slices.tick(table_of([found[at] for at in some]), watermark=found[some[-1]]["at"] - 3 if len(some) else None)
        if data.draw(st.booleans()):
            slices.merge()
        if data.draw(st.booleans()):
            slices.forget_caches()
    slices.flush()
    table = table_of(found)
    for query in asked:
        assert given_by(slices.results(query.name)) == expected(table, query)
